//! Helpers for the generated schemas: what schemars cannot say by derive alone.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// Names of objects: DNS subdomains, so dots are fine.
pub(crate) const NAME: &str = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";
/// Names inside an object (disks, networks) and namespaces: DNS labels.
pub(crate) const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// Six pairs of hexadecimal digits.
pub(crate) const MAC: &str = "^([0-9A-Fa-f]{2}[:-]){5}([0-9A-Fa-f]{2})$";

/// An address with the length of its network part.
pub(crate) const CIDR: &str = "^[0-9a-fA-F.:]+/[0-9]{1,3}$";
/// A URL of any scheme, or `host:port`.
pub(crate) const ENDPOINT: &str =
    r"^([a-z][a-z0-9+.-]*://.+|[a-zA-Z0-9.-]+:[0-9]+|\[[0-9a-fA-F:.]+\]:[0-9]+)$";

const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

pub(crate) fn is_false(value: &bool) -> bool {
    !value
}

pub(crate) fn yes() -> bool {
    true
}

pub(crate) fn int<const N: i32>() -> i32 {
    N
}

/// A Kubernetes quantity: an integer or a string such as `4Gi`.
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": QUANTITY,
        "x-kubernetes-int-or-string": true,
    })
}

/// An IPv4 or IPv6 address.
pub(crate) fn ip(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "^[0-9a-fA-F.:]+$" })
}

/// Moves the values of an enum below `allOf`, where the API server checks them just the same.
///
/// Some reference schemas state their values in this form; a top-level `enum` in ours would be
/// read as a narrower contract by tools that compare the two.
pub(crate) fn enum_in_all_of(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    let values = match object.remove("oneOf") {
        Some(Value::Array(variants)) => variants.iter().filter_map(variant_name).collect(),
        _ => object.remove("enum").unwrap_or_default(),
    };
    object.insert("type".into(), "string".into());
    object.insert("allOf".into(), json!([{ "enum": values }]));
}

fn variant_name(variant: &Value) -> Option<Value> {
    variant.get("const").cloned()
}

/// Drops the demand for `name` below a selector of a core type.
///
/// Kubernetes lets these be empty; the schemas of k8s-openapi say otherwise.
pub(crate) fn optional_names(schema: &mut Schema) {
    if let Some(object) = schema.as_object_mut() {
        object.values_mut().for_each(forget_required_name);
    }
}

fn forget_required_name(node: &mut Value) {
    match node {
        Value::Object(map) => {
            if map.contains_key("properties") && map.contains_key("x") {
                map.remove("required");
            }
            map.values_mut().for_each(forget_required_name);
        }
        Value::Array(list) => list.iter_mut().for_each(forget_required_name),
        _ => {}
    }
}
