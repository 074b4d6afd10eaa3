//! Helpers for the generated schemas: what schemars cannot say by derive alone.

use schemars::transform::{RecursiveTransform, Transform};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::cel::rule;

/// Names of objects: DNS subdomains, so dots are fine.
pub(crate) const NAME: &str = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";
/// Names inside an object (disks, networks) and namespaces: DNS labels.
pub(crate) const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// Six pairs of hexadecimal digits.
pub(crate) const MAC: &str = "^([0-9A-Fa-f]{2}[:-]){5}([0-9A-Fa-f]{2})$";

/// An address or a whole network. A pattern, since CEL would cost too much in a list of 100.
pub(crate) const IP_OR_CIDR: &str = "^[0-9a-fA-F.:]+(/[0-9]{1,3})?$";
/// A URL of any scheme, or `host:port`.
pub(crate) const ENDPOINT: &str =
    r"^([a-z][a-z0-9+.-]*://.+|[a-zA-Z0-9.-]+:[0-9]+|\[[0-9a-fA-F:.]+\]:[0-9]+)$";

/// An IPv4 address or mask.
pub(crate) const IPV4: &str =
    r"^((25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)\.){3}(25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)$";

const QUANTITY: &str = concat!(
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))",
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
);

const CRON_WORDS: &str = "self in ['@annually', '@yearly', '@monthly', '@weekly', '@daily', \
    '@midnight', '@hourly', '@reboot']";
const CRON_EVERY: &str =
    "self.startsWith('@every ') && duration(self.substring(7)) > duration('0s')";
const CRON_FIELDS: &str = "self.matches('^((CRON_)?TZ=[-+_/0-9A-Za-z]+ +)?\
    [-0-9A-Za-z*/,?#]+( +[-0-9A-Za-z*/,?#]+){4,6}$')";

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
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
        "pattern": QUANTITY,
        "x-kubernetes-int-or-string": true,
    })
}

/// A quantity of bytes, refused with a sentence. A pattern would be shown as it is, so there is none. Not for lists, where the
/// rule would cost too much.
pub(crate) fn size(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "x-kubernetes-validations": [rule(
            "type(self) == int || isQuantity(self)",
            "Write a size such as 4Gi or 512Mi: GB, MB and g are not units of Kubernetes",
        )],
    })
}

/// An IPv4 or IPv6 address.
pub(crate) fn ip(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "x-kubernetes-validations": [rule(
            "isIP(self)",
            "Write an IPv4 or IPv6 address, such as 192.0.2.10",
        )],
    })
}

/// An address with the length of its network part.
pub(crate) fn cidr(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "x-kubernetes-validations": [rule(
            "isCIDR(self)",
            "Write an address with its prefix, such as 192.0.2.10/24",
        )],
    })
}

/// Labels, bounded so that rules can look at them.
pub(crate) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 100,
        "additionalProperties": { "type": "string", "maxLength": 63 },
    })
}

/// When something recurs, in the notation of cron.
pub(crate) fn cron(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "x-kubernetes-validations": [rule(
            &format!("{CRON_WORDS} || {CRON_EVERY} || {CRON_FIELDS}"),
            "Write five fields such as 0 3 * * *, a word such as @daily, or @every 6h",
        )],
    })
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

/// Turns the schema of a Rust type into one that people would have written for Kubernetes.
///
/// schemars lets every `Option` be null; then the API server would store null instead of the
/// default, and rules would have to tell null from absent. And the text of a field must win over
/// that of its type.
pub(crate) fn kubernetes_style(schema: &mut Schema) {
    RecursiveTransform(restyle).transform(schema);
}

fn restyle(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    for (key, value) in take_optional(object).unwrap_or_default() {
        object.entry(key).or_insert(value);
    }
    if let Some(Value::Array(types)) = object.get("type") {
        let real = types.iter().find(|type_| *type_ != "null").cloned();
        object.insert("type".into(), real.unwrap_or_default());
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = unwrap_lines(text);
    }
}

/// What is inside `anyOf: [inside, null]`, which is how schemars writes some `Option`s.
fn take_optional(object: &mut Map<String, Value>) -> Option<Map<String, Value>> {
    let [Value::Object(inside), null] = object.get("anyOf")?.as_array()?.as_slice() else {
        return None;
    };
    let inside = (null.get("type")? == "null").then(|| inside.clone())?;
    object.remove("anyOf");
    Some(inside)
}

fn unwrap_lines(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|lines| lines.replace('\n', " "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// Makes the items of a list merge by their name, which must be unique then.
pub(crate) fn keyed_by_name(schema: &mut Schema) {
    key_list(schema, "name");
}

/// Makes the items of a list merge by their type, which must be unique then.
pub(crate) fn keyed_by_type(schema: &mut Schema) {
    key_list(schema, "type");
}

/// Lets the items of a list lack any of their fields.
///
/// Some reference schemas state conditions so; a list that merges by a key must demand that key.
pub(crate) fn open_items(schema: &mut Schema) {
    let items = schema.get_mut("items").and_then(Value::as_object_mut);
    if let Some(items) = items {
        items.remove("required");
    }
}

fn key_list(schema: &mut Schema, key: &str) {
    schema.insert("x-kubernetes-list-type".into(), "map".into());
    schema.insert("x-kubernetes-list-map-keys".into(), json!([key]));
}

/// Drops the demand for `name` where a core type points at a key of an object.
///
/// Kubernetes lets the name be empty; the schemas of k8s-openapi say otherwise.
pub(crate) fn optional_names(schema: &mut Schema) {
    if let Some(object) = schema.as_object_mut() {
        object.values_mut().for_each(forget_required_name);
    }
}

fn forget_required_name(node: &mut Value) {
    if node.pointer("/properties/key").is_some()
        && let Some(Value::Array(required)) = node.get_mut("required")
    {
        required.retain(|field| field != "name");
    }
    match node {
        Value::Object(map) => map.values_mut().for_each(forget_required_name),
        Value::Array(list) => list.iter_mut().for_each(forget_required_name),
        _ => {}
    }
}
