//! What is logged, as JSON objects.

use std::fmt;
use std::sync::{Mutex, OnceLock};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static LINES: Mutex<Vec<Value>> = Mutex::new(Vec::new());

/// Begins to keep what the dialect logs, once.
pub fn keep() {
    static BEGUN: OnceLock<()> = OnceLock::new();
    BEGUN.get_or_init(|| tracing::subscriber::set_global_default(Keeper).unwrap());
}

/// All lines so far.
pub fn lines() -> Vec<Value> {
    LINES.lock().unwrap().clone()
}

struct Keeper;

impl Subscriber for Keeper {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.is_event() && about.target().starts_with("polyvirt_dialects")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        fields.0.insert("level".to_owned(), level.into());
        event.record(&mut fields);
        LINES.lock().unwrap().push(Value::Object(fields.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        self.0.insert(field.name().to_owned(), text.into());
    }
}
