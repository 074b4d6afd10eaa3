//! What is told of a span.

use std::fmt::Debug;
use std::time::SystemTime;

use tracing::field::{Field, Visit};

/// How a span ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Nobody said that it went wrong.
    #[default]
    Unset,
    /// It went wrong.
    Error,
}

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// Yes or no.
    Flag(bool),
}

/// A span, from its begin to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub trace: u128,
    pub id: u64,
    pub parent: Option<u64>,
    pub name: &'static str,
    pub begin: SystemTime,
    pub end: SystemTime,
    pub attributes: Vec<(&'static str, Value)>,
    pub outcome: Outcome,
}

impl Span {
    fn put(&mut self, field: &Field, value: Value) {
        if field.name() == "error" {
            self.outcome = Outcome::Error;
        }
        self.attributes.retain(|(name, _)| *name != field.name());
        self.attributes.push((field.name(), value));
    }
}

impl Visit for Span {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, Value::Text(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::Text(value.to_owned()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::Integer(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(
            field,
            Value::Integer(i64::try_from(value).unwrap_or(i64::MAX)),
        );
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::Number(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::Flag(value));
    }
}
