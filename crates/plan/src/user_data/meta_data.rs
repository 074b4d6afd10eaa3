//! Instance metadata: what the user gave, and the instance id that cloud-init cannot do without.

use bytes::Bytes;
use polyvirt_contract::Identity;
use serde_json::{Map, Value};

use super::document::Document;
use super::yaml;
use crate::problem::Problem;

const INSTANCE_ID: &str = "instance-id";

/// One document as it is, or two merged, where the Secret wins.
pub(super) fn given(documents: &[Document]) -> Result<Bytes, Problem> {
    let mappings = documents.iter().map(check).collect::<Result<Vec<_>, _>>()?;
    if let [one] = documents {
        return Ok(one.bytes().clone());
    }
    let merged: Map<String, Value> = mappings.into_iter().flatten().collect();
    Ok(json(merged))
}

fn check(document: &Document) -> Result<Map<String, Value>, Problem> {
    let found = yaml::mapping(document.text()?);
    found
        .map_err(|e| document.problem(format!("{e}. Correct it")))?
        .ok_or_else(|| {
            document
                .problem("Metadata is a mapping. Write keys and values such as local-hostname: web")
        })
}

/// The metadata of a guest whose user gave none: its identity, and its name as host name.
///
/// The identity never changes, so cloud-init does its once-per-instance work once in the life of the VM.
pub fn default_meta_data(name: &str, identity: &Identity) -> String {
    format!(
        "{}\nlocal-hostname: {}\n",
        instance_id_line(identity),
        yaml::quoted(name)
    )
}

/// What the user gave with an instance id, or [`default_meta_data`] if nothing was given.
///
/// Without an id of its own every VM would be the instance `nocloud` to cloud-init, and a copy of a disk would never be set
/// up anew. The rest is left as it is; nothing else is added.
pub fn complete_meta_data(given: &Bytes, name: &str, identity: &Identity) -> Bytes {
    if given.is_empty() {
        return default_meta_data(name, identity).into();
    }
    let text = String::from_utf8_lossy(given);
    let Ok(Some(mut mapping)) = yaml::mapping(&text) else {
        return given.clone();
    };
    if mapping.get(INSTANCE_ID).is_some_and(|id| !id.is_null()) {
        return given.clone();
    }
    if let Some(longer) = with_line(&text, &mapping, identity) {
        return longer.into();
    }
    mapping.insert(INSTANCE_ID.to_owned(), identity.as_str().into());
    json(mapping)
}

/// The same text with one more line, which keeps comments and spelling. `None` where that does not work out.
fn with_line(text: &str, mapping: &Map<String, Value>, identity: &Identity) -> Option<String> {
    let prelude = text
        .split_inclusive('\n')
        .take_while(|line| is_prelude(line));
    let (prelude, rest) = text.split_at(prelude.map(str::len).sum());
    let indent = &rest[..rest.len() - rest.trim_start().len()];
    let longer = format!("{prelude}{indent}{}\n{rest}", instance_id_line(identity));
    let mut expected = mapping.clone();
    expected.insert(INSTANCE_ID.to_owned(), identity.as_str().into());
    (yaml::mapping(&longer).ok()?? == expected).then_some(longer)
}

fn is_prelude(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with(['#', '%']) || line == "---"
}

fn instance_id_line(identity: &Identity) -> String {
    format!("{INSTANCE_ID}: {}", yaml::quoted(identity.as_str()))
}

/// A JSON object is a YAML mapping.
fn json(mapping: Map<String, Value>) -> Bytes {
    Value::Object(mapping).to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(text: &str) -> String {
        let found = complete_meta_data(
            &Bytes::copy_from_slice(text.as_bytes()),
            "web",
            &Identity::from("id-1"),
        );
        String::from_utf8(found.to_vec()).unwrap()
    }

    #[test]
    fn the_default_has_id_and_host_name() {
        let expected = "instance-id: \"id-1\"\nlocal-hostname: \"web\"\n";
        assert_eq!(default_meta_data("web", &Identity::from("id-1")), expected);
        assert_eq!(complete(""), expected);
    }

    #[test]
    fn an_id_is_added_and_the_rest_kept() {
        for (text, expected) in [
            ("instance-id: mine\nx: 1\n", "instance-id: mine\nx: 1\n"),
            ("x: 0o14 # why\n", "instance-id: \"id-1\"\nx: 0o14 # why\n"),
            (
                "---\n# c\n\nx: yes",
                "---\n# c\n\ninstance-id: \"id-1\"\nx: yes",
            ),
            (
                "  x: 1\n  y: 2\n",
                "  instance-id: \"id-1\"\n  x: 1\n  y: 2\n",
            ),
            ("{\"x\": 1}", "{\"instance-id\":\"id-1\",\"x\":1}"),
            ("--- {x: [a]}\n", "{\"instance-id\":\"id-1\",\"x\":[\"a\"]}"),
            ("instance-id:\nx: 1\n", "{\"instance-id\":\"id-1\",\"x\":1}"),
            ("&top\nx: 1\n", "{\"instance-id\":\"id-1\",\"x\":1}"),
        ] {
            assert_eq!(complete(text), expected, "{text}");
        }
    }

    #[test]
    fn two_documents_are_merged_and_the_later_wins() {
        let documents = [
            Document::for_test("a: 1\nb: 2\n"),
            Document::for_test("{b: 3}"),
        ];
        assert_eq!(
            given(&documents),
            Ok(Bytes::from_static(b"{\"a\":1,\"b\":3}"))
        );
    }

    #[test]
    fn metadata_must_be_a_mapping() {
        for text in ["- a\n", "word", "# nothing\n"] {
            let problem = given(&[Document::for_test(text)]).unwrap_err();
            assert!(problem.message.contains("is a mapping"), "{problem}");
        }
        assert!(
            given(&[Document::for_test("a: b: c")])
                .unwrap_err()
                .message
                .starts_with("Line 1")
        );
    }
}
