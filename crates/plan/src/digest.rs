//! Digests that are stored in a status and compared by a later version of this program.
//!
//! A digest is SHA-256 over a canonical JSON text, cut to 64 bits, with the version of that form before it: `v1:` and 16 hex
//! digits. The canonical text has sorted keys, no white space, and no member that says nothing (`null`, `false`, an empty text,
//! list or object), so that a field which a later version adds does not change the digest of an object that does not set it.
//!
//! Releases before `v1` stored 16 hex digits of FNV-1a over the `Debug` text of our types. [`legacy`] recomputes that form for one
//! release: what they stored is compared with it, and replaced with the next write that happens anyway.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// The version of the canonical form.
const VERSION: &str = "v1:";

/// Length of the digits of a digest, with and without a version before them.
const DIGITS: usize = 16;

/// The digest of a value.
pub fn of(value: &impl Serialize) -> String {
    let canonical = canonical(serde_json::to_value(value).unwrap_or_default());
    let text = canonical.unwrap_or_default().to_string();
    let hash = Sha256::digest(text.as_bytes());
    let mut digest = VERSION.to_owned();
    for byte in hash.iter().take(DIGITS / 2) {
        let _ = write!(digest, "{byte:02x}");
    }
    digest
}

/// The digest that releases before `v1` stored of this text.
pub(crate) fn legacy(text: &str) -> String {
    format!("{:016x}", fnv1a(text.as_bytes()))
}

/// Whether a stored digest is of a release before `v1`.
pub(crate) fn is_legacy(stored: &str) -> bool {
    stored.len() == DIGITS && stored.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The value without members that say nothing, keys sorted; `None` if nothing is left of it. Entries of lists keep their places.
pub(crate) fn canonical(value: Value) -> Option<Value> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::String(text) if text.is_empty() => None,
        Value::Array(list) if list.is_empty() => None,
        Value::Array(list) => {
            let entries = list.into_iter();
            Some(entries.map(|v| canonical(v).unwrap_or_default()).collect())
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().collect();
            // Sorted here: another crate may make the map of serde_json keep the order of insertion.
            members.sort_by(|a, b| a.0.cmp(&b.0));
            let kept = members.into_iter();
            let kept: Map<_, _> = kept
                .filter_map(|(name, value)| Some((name, canonical(value)?)))
                .collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// These are in the status of objects out there. If one changes, so must the version, and the form before it must be accepted.
    #[test]
    fn digests_are_the_same_in_every_build() {
        assert_eq!(of(&json!({})), "v1:74234e98afe7498f");
        assert_eq!(
            of(&json!({"b": [1, "x"], "a": {"c": true}})),
            "v1:7a6b78591af835d1"
        );
        assert_eq!(legacy("x"), "af63f54c86021707");
    }

    #[test]
    fn what_says_nothing_does_not_count_and_order_neither() {
        let bare = of(&json!({"a": 1, "b": {"c": "x"}}));
        let full =
            of(&json!({"b": {"d": null, "c": "x", "e": false}, "f": [], "g": {"h": ""}, "a": 1}));
        assert_eq!(bare, full);
        assert_ne!(bare, of(&json!({"a": 1, "b": {"c": "y"}})));
        assert_ne!(of(&json!(["", "a"])), of(&json!(["a", ""])));
    }

    #[test]
    fn a_digest_of_this_form_is_not_taken_for_an_older_one() {
        assert!(is_legacy(&legacy("x")));
        assert!(!is_legacy(&of(&json!(1))));
        assert!(!is_legacy(""));
    }
}
