//! Whether an object is as it was lowered, so that nothing is written without a change.

use polyvirt_api::infra::VirtualMachine;
use serde::Serialize;
use serde_json::{Value, json};

/// On a VirtualMachine that a dialect made: changes when what was lowered does.
pub const LOWERED_ANNOTATION: &str = "polyvirt.io/lowered";

/// The mark says what was lowered; what is there must still have it all.
pub fn is_as_lowered(there: &VirtualMachine, wanted: &VirtualMachine) -> bool {
    let mark = |vm: &VirtualMachine| {
        let annotations = vm.metadata.annotations.as_ref();
        annotations.and_then(|a| a.get(LOWERED_ANNOTATION).cloned())
    };
    let labels = |vm: &VirtualMachine| json!(vm.metadata.labels.clone().unwrap_or_default());
    let notes = |vm: &VirtualMachine| json!(vm.metadata.annotations.clone().unwrap_or_default());
    mark(there) == mark(wanted)
        && has_all_of(&there.spec, &wanted.spec)
        && covers(&labels(there), &labels(wanted))
        && covers(&notes(there), &notes(wanted))
}

/// Whether all that one says is in the other. What others have added does not count.
pub fn has_all_of<T: Serialize>(there: &T, wanted: &T) -> bool {
    let json = |part: &T| serde_json::to_value(part).unwrap_or_default();
    covers(&json(there), &json(wanted))
}

/// Whether all that is wanted is there. What others have added does not count.
pub fn covers(there: &Value, wanted: &Value) -> bool {
    use serde_json::Value::{Array, Object};
    match (there, wanted) {
        (Object(there), Object(wanted)) => wanted
            .iter()
            .all(|(name, value)| there.get(name).is_some_and(|own| covers(own, value))),
        (Array(there), Array(wanted)) => {
            let pairs = there.iter().zip(wanted);
            there.len() == wanted.len() && pairs.into_iter().all(|(t, w)| covers(t, w))
        }
        (there, wanted) => there == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_add_does_not_count() {
        let there = json!({"a": 1, "b": {"c": [{"n": 1, "x": 2}]}, "more": true});
        assert!(covers(&there, &json!({"a": 1, "b": {"c": [{"n": 1}]}})));
        for wanted in [
            json!({"a": 2}),
            json!({"z": 1}),
            json!({"b": {"c": []}}),
            json!({"b": {"c": [{"n": 2}]}}),
        ] {
            assert!(!covers(&there, &wanted), "{wanted}");
        }
    }
}
