//! Network configuration that the user wrote: version 1 or 2 of cloud-init's format.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::document::{Document, only_one};
use super::yaml;
use crate::problem::Problem;

/// The document as it is.
pub(super) fn given(documents: &[Document]) -> Result<Bytes, Problem> {
    let document = only_one(documents)?;
    let found = yaml::mapping(document.text()?);
    let mapping = found.map_err(|e| document.problem(format!("{e}. Correct it")))?;
    if mapping.as_ref().is_some_and(is_known) {
        return Ok(document.bytes().clone());
    }
    Err(document.problem(
        "A network configuration is a mapping with version: 1 or version: 2, at its top or below network. Add the version",
    ))
}

fn is_known(mapping: &Map<String, Value>) -> bool {
    let config = mapping
        .get("network")
        .and_then(Value::as_object)
        .unwrap_or(mapping);
    let version = config.get("version").and_then(Value::as_u64);
    let disabled = config.get("config").is_some_and(|c| c == "disabled");
    matches!(version, Some(1 | 2)) || disabled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_and_both_places_are_passed_on_untouched() {
        for text in [
            "version: 2\n",
            "version: 1\nconfig: []\n",
            "network:\n  version: 2\n  ethernets: {}\n",
            "{\"network\": {\"version\": 1}}",
            "network: {config: disabled}\n",
        ] {
            assert_eq!(
                given(&[Document::for_test(text)]),
                Ok(Bytes::from_static(text.as_bytes()))
            );
        }
    }

    #[test]
    fn anything_else_is_refused_with_advice() {
        for text in [
            "ethernets: {}\n",
            "version: 3\n",
            "version: \"2\"\n",
            "- a\n",
            "network: []\n",
            "links: []\n",
        ] {
            let problem = given(&[Document::for_test(text)]).unwrap_err();
            assert!(
                problem.message.contains("version: 1 or version: 2"),
                "{problem}"
            );
        }
        let two = [
            Document::for_test("version: 2\n"),
            Document::for_test("version: 2\n"),
        ];
        assert!(
            given(&two)
                .unwrap_err()
                .message
                .contains("cannot be joined")
        );
    }
}
