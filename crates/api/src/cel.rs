//! Validation rules in CEL, as the schemas carry them.

use serde_json::{Value, json};

/// The value of `x-kubernetes-validations`: pairs of an expression and what to tell the user.
pub(crate) fn rules(rules: &[(&str, &str)]) -> Value {
    rules
        .iter()
        .map(|(rule, message)| json!({ "rule": rule, "message": message }))
        .collect()
}
