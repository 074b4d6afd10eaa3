//! Whether an object is as it was lowered, so that nothing is written without a change.

use std::collections::BTreeMap;

use kube::Resource;
use kube::core::object::HasSpec;
use serde::Serialize;
use serde_json::{Value, json};

use super::names::short_hash;

/// On an object that a dialect made: changes when what was lowered does.
pub const LOWERED_ANNOTATION: &str = "polyvirt.io/lowered";

/// The object with the mark. It follows from all that the object says, so that what is taken away is taken away there, too.
pub fn marked<K>(mut object: K) -> K
where
    K: Resource<DynamicType = ()> + HasSpec<Spec: Serialize>,
{
    let (none, meta) = (BTreeMap::new(), object.meta());
    let labels = meta.labels.as_ref().unwrap_or(&none);
    let whole = (
        object.spec(),
        labels,
        meta.annotations.as_ref().unwrap_or(&none),
    );
    let mark = short_hash(&serde_json::to_string(&whole).unwrap_or_default());
    let notes = object.meta_mut().annotations.get_or_insert_default();
    notes.insert(LOWERED_ANNOTATION.to_owned(), mark);
    object
}

/// The mark says what was lowered; what is there must still have it all.
pub fn is_as_lowered<K>(there: &K, wanted: &K) -> bool
where
    K: Resource<DynamicType = ()> + HasSpec<Spec: Serialize>,
{
    let mark = |object: &K| {
        let annotations = object.meta().annotations.as_ref();
        annotations.and_then(|a| a.get(LOWERED_ANNOTATION).cloned())
    };
    let labels = |object: &K| json!(object.meta().labels.clone().unwrap_or_default());
    let notes = |object: &K| json!(object.meta().annotations.clone().unwrap_or_default());
    mark(there) == mark(wanted)
        && has_all_of(there.spec(), wanted.spec())
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
