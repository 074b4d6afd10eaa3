//! Validation rules in CEL, as the schemas carry them under `x-kubernetes-validations`.

use serde_json::{Value, json};

/// One rule: what must hold, and what to tell the user when it does not.
pub(crate) fn rule(expression: &str, message: &str) -> Value {
    json!({ "rule": expression, "message": message })
}

/// Of these fields of an object, one and no more is given.
pub(crate) fn exactly_one(fields: &[&str]) -> Value {
    let given: Vec<_> = fields
        .iter()
        .map(|field| format!("has(self.{field})"))
        .collect();
    rule(
        &format!("[{}].filter(x, x).size() == 1", given.join(", ")),
        &format!("Give exactly one of {}", list(fields)),
    )
}

/// Of these fields of an object, one or more are given.
pub(crate) fn at_least_one(fields: &[&str]) -> Value {
    let given: Vec<_> = fields
        .iter()
        .map(|field| format!("has(self.{field})"))
        .collect();
    rule(
        &given.join(" || "),
        &format!("Give at least one of {}", list(fields)),
    )
}

fn list(words: &[&str]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => words.concat(),
    }
}
