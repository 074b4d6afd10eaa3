//! The schemas of the three objects, in the language of paths. For tests.

use kube::CustomResourceExt as _;
use polyvirt_api::infra::{VMClass, VMNetworkAttachment, VirtualMachine};
use serde_json::{Map, Value, json};

/// The spec of each root.
pub(super) fn roots() -> [(&'static str, Value); 3] {
    [
        ("spec", spec(&json!(VirtualMachine::crd()))),
        ("class", spec(&json!(VMClass::crd()))),
        (
            "network",
            unfolded(spec(&json!(VMNetworkAttachment::crd()))),
        ),
    ]
}

fn spec(crd: &Value) -> Value {
    crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec")
        .unwrap()
        .clone()
}

fn unfolded(mut schema: Value) -> Value {
    let properties = schema["properties"].as_object_mut().unwrap();
    let inner = properties.remove("network").unwrap();
    properties.extend(inner["properties"].as_object().unwrap().clone());
    schema
}

/// Every property that has none below it.
pub(super) fn leaves() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (root, schema) in roots() {
        collect(root.to_owned(), &schema, &mut found);
    }
    found
}

/// Every property of a schema that has none below it.
pub(super) fn leaves_of(root: &str, schema: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    collect(root.to_owned(), schema, &mut found);
    found
}

fn collect(path: String, schema: &Value, found: &mut Vec<(String, Value)>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, property) in properties {
            collect(format!("{path}.{name}"), property, found);
        }
    } else if schema.pointer("/items/properties").is_some() {
        collect(format!("{path}[]"), &schema["items"], found);
    } else {
        found.push((path, schema.clone()));
    }
}

/// A tree with a value at the path, and whatever the schema demands around it. The value is none of `not`.
pub(super) fn sample(schema: &Value, path: &[&str], not: &[&str]) -> Value {
    let Some((segment, rest)) = path.split_first() else {
        return value(schema, not);
    };
    let name = segment.trim_end_matches("[]");
    let property = &schema["properties"][name];
    let inner = if name == *segment {
        sample(property, rest, not)
    } else {
        json!([sample(&property["items"], rest, not)])
    };
    let mut object = required(schema);
    object.insert(name.to_owned(), inner);
    Value::Object(object)
}

fn required(schema: &Value) -> Map<String, Value> {
    let names = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let names = names
        .filter_map(Value::as_str)
        .filter(|n| !schema["properties"][n].is_null());
    names
        .map(|n| (n.to_owned(), value(&schema["properties"][n], &[])))
        .collect()
}

fn value(schema: &Value, not: &[&str]) -> Value {
    let words = schema
        .get("enum")
        .or_else(|| schema.pointer("/allOf/0/enum"));
    if let Some(words) = words.and_then(Value::as_array) {
        let allowed = |w: &&Value| w.as_str().is_none_or(|w| !not.contains(&w)) && !w.is_null();
        return words.iter().find(allowed).unwrap().clone();
    }
    match schema["type"].as_str() {
        Some("boolean") => json!(!not.contains(&"true")),
        Some("integer" | "number") => json!(7),
        Some("array") => json!([value(&schema["items"], &[])]),
        Some("object") => object(schema),
        _ => json!("7"),
    }
}

/// An object that says something: all that is demanded, or its first member.
fn object(schema: &Value) -> Value {
    let mut members = required(schema);
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some(enabled) = properties.and_then(|p| p.get("enabled")) {
        members.insert("enabled".to_owned(), value(enabled, &[]));
    }
    if members.is_empty() {
        let first = properties.and_then(|p| p.iter().next());
        let (name, inner) = first.map_or(("key", &schema["additionalProperties"]), |(n, s)| (n, s));
        members.insert(name.to_owned(), value(inner, &[]));
    }
    Value::Object(members)
}
