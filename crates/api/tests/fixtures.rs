//! The types and the schemas say the same: every field survives, every default agrees.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use polyvirt_api::infra::{
    Host, HostPool, Provider, VMClass, VMClone, VMImage, VMMigration, VMNetworkAttachment,
    VMPlacementPolicy, VMSet, VMSnapshot, VirtualMachine,
};
use polyvirt_api::novacron;
use polyvirt_api::vitistack::{
    KubevirtConfig, Machine, MachineClass, NetworkConfiguration, NetworkNamespace,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Below these are types of the core API, or a kind that has a fixture of its own.
const NOT_OURS: [&str; 16] = [
    ".spec.placement.affinity",
    ".spec.runtime.affinity",
    ".spec.runtime.env",
    ".spec.runtime.livenessProbe",
    ".spec.runtime.readinessProbe",
    ".spec.runtime.resources",
    ".spec.runtime.securityContext",
    ".spec.runtime.tolerations",
    ".spec.selector",
    ".spec.volumeClaimTemplates[].spec",
    ".labelSelector",
    ".namespaceSelector",
    ".status.conditions",
    ".spec.class",
    ".spec.image",
    ".spec.template.spec",
];

#[test]
fn what_goes_in_comes_out() {
    for crd in polyvirt_api::crds() {
        for document in fixture(&crd) {
            let schema = schema(&crd);
            let back = retype(&crd, &document);
            let stored = with_defaults(&schema, document);
            let back = as_stored(back, &stored, Inside::Object);
            assert_eq!(back, stored, "{}", plural(&crd));
        }
    }
}

#[test]
fn rust_and_the_api_server_default_alike() {
    for crd in polyvirt_api::crds() {
        let base = cases(&crd)["base"].clone();
        let back = retype(&crd, &base);
        let stored = with_defaults(&schema(&crd), base);
        let typed = retype(&crd, &stored);
        assert_eq!(typed, back, "absence means the default");
        assert_eq!(as_stored(back, &stored, Inside::Object), stored);
    }
}

#[test]
fn quantities_may_be_numbers() {
    let mut class = json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1",
        "kind": "VMClass",
        "metadata": { "name": "small" },
        "spec": { "cpu": 1, "memory": 1_073_741_824 },
    });
    let typed: VMClass = serde_json::from_value(class.clone()).unwrap();
    assert_eq!(typed.spec.memory.0, "1073741824");
    class["spec"]["memory"] = "1Gi".into();
    let typed: VMClass = serde_json::from_value(class).unwrap();
    assert_eq!(typed.spec.memory.0, "1Gi");
}

#[test]
fn fixtures_use_every_field() {
    for crd in polyvirt_api::crds() {
        let mut wanted = BTreeSet::new();
        schema_paths(&schema(&crd), "", &mut wanted);
        // Refused in every object: it is there to say what to type instead.
        if crd.spec.group == polyvirt_api::names::GROUP {
            wanted.remove(".spec.running");
        }
        let mut used = BTreeSet::new();
        let open = open_maps(&schema(&crd));
        for document in fixture(&crd) {
            document_paths(&document, "", &open, &mut used);
        }
        let missing: Vec<_> = wanted.difference(&used).collect();
        assert!(missing.is_empty(), "{} lacks {missing:#?}", plural(&crd));
    }
}

#[test]
fn every_field_is_described() {
    for crd in polyvirt_api::crds() {
        every_schema(&schema(&crd), "", &mut |path, node| {
            let described = node["description"]
                .as_str()
                .is_some_and(|text| text.len() > 5);
            let exempt = path.is_empty() || path == ".metadata" || path.ends_with([']', '}']);
            assert!(
                described || exempt,
                "{}{path} has no description",
                plural(&crd)
            );
        });
    }
}

#[test]
fn nothing_may_be_null() {
    for crd in polyvirt_api::crds() {
        every_schema(&schema(&crd), "", &mut |path, node| {
            let values = node["enum"].as_array();
            let null = values.is_some_and(|values| values.contains(&Value::Null));
            let null = null || node.get("nullable").is_some();
            assert!(!null, "{}{path} may be null", plural(&crd));
        });
    }
}

/// Through the Rust type and back.
fn retype(crd: &CustomResourceDefinition, document: &Value) -> Value {
    fn through<K: DeserializeOwned + Serialize + Clone + PartialEq>(document: &Value) -> Value {
        let typed: K = serde_json::from_value(document.clone()).unwrap();
        serde_json::to_value(typed).unwrap()
    }
    match crd.spec.names.kind.as_str() {
        "Provider" => through::<Provider>(document),
        "VirtualMachine" if crd.spec.group == novacron::GROUP => {
            through::<novacron::VirtualMachine>(document)
        }
        "VirtualMachine" => through::<VirtualMachine>(document),
        "VMClass" => through::<VMClass>(document),
        "VMImage" => through::<VMImage>(document),
        "VMNetworkAttachment" => through::<VMNetworkAttachment>(document),
        "VMSnapshot" => through::<VMSnapshot>(document),
        "VMClone" => through::<VMClone>(document),
        "VMSet" => through::<VMSet>(document),
        "VMPlacementPolicy" => through::<VMPlacementPolicy>(document),
        "VMMigration" => through::<VMMigration>(document),
        "Host" => through::<Host>(document),
        "HostPool" => through::<HostPool>(document),
        "Machine" => through::<Machine>(document),
        "KubevirtConfig" => through::<KubevirtConfig>(document),
        "NetworkConfiguration" => through::<NetworkConfiguration>(document),
        "NetworkNamespace" => through::<NetworkNamespace>(document),
        "MachineClass" => through::<MachineClass>(document),
        kind => panic!("{kind} has no type"),
    }
}

/// Where a value is found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Object,
    List,
}

/// Inside lists the API server adds no defaults, and Rust acts on absence: what Rust writes there beyond what is stored is left out.
fn as_stored(mut back: Value, stored: &Value, inside: Inside) -> Value {
    match &mut back {
        Value::Object(map) => {
            map.retain(|name, _| inside == Inside::Object || stored.get(name).is_some());
            for (name, value) in map.iter_mut() {
                *value = as_stored(value.take(), &stored[name], inside);
            }
        }
        Value::Array(list) => {
            for (i, value) in list.iter_mut().enumerate() {
                *value = as_stored(value.take(), &stored[i], Inside::List);
            }
        }
        _ => {}
    }
    back
}

/// What the API server makes of a document before it stores it.
fn with_defaults(schema: &Value, mut document: Value) -> Value {
    match &mut document {
        Value::Object(map) => {
            for (name, child) in schema["properties"].as_object().into_iter().flatten() {
                if let Some(default) = child.get("default") {
                    map.entry(name).or_insert_with(|| default.clone());
                }
            }
            for (name, value) in map.iter_mut() {
                let named = schema["properties"].get(name);
                let child = named.unwrap_or(&schema["additionalProperties"]);
                *value = with_defaults(child, value.take());
            }
        }
        Value::Array(list) => {
            for value in list {
                *value = with_defaults(&schema["items"], value.take());
            }
        }
        _ => {}
    }
    document
}

fn every_schema(schema: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        every_schema(child, &format!("{path}.{name}"), visit);
    }
    if schema["items"].is_object() {
        every_schema(&schema["items"], &format!("{path}[]"), visit);
    }
    if schema["additionalProperties"].is_object() {
        every_schema(
            &schema["additionalProperties"],
            &format!("{path}{{}}"),
            visit,
        );
    }
}

fn schema_paths(schema: &Value, path: &str, paths: &mut BTreeSet<String>) {
    every_schema(schema, path, &mut |path, _| {
        let inside = |prefix: &&str| {
            path.match_indices(*prefix)
                .any(|(at, _)| path[at + prefix.len()..].starts_with(['.', '[', '{']))
        };
        let field = !path.is_empty() && !path.ends_with([']', '}']);
        if field && !NOT_OURS.iter().any(inside) {
            paths.insert(path.to_owned());
        }
    });
}

/// Paths of maps whose keys are the user's.
fn open_maps(schema: &Value) -> BTreeSet<String> {
    let mut maps = BTreeSet::new();
    every_schema(schema, "", &mut |path, node| {
        if node["additionalProperties"].is_object() {
            maps.insert(path.to_owned());
        }
    });
    maps
}

fn document_paths(
    value: &Value,
    path: &str,
    open: &BTreeSet<String>,
    paths: &mut BTreeSet<String>,
) {
    paths.insert(path.to_owned());
    match value {
        Value::Object(map) => {
            for (name, child) in map {
                let name = if open.contains(path) {
                    "{}".to_owned()
                } else {
                    format!(".{name}")
                };
                document_paths(child, &format!("{path}{name}"), open, paths);
            }
        }
        Value::Array(list) => {
            for child in list {
                document_paths(child, &format!("{path}[]"), open, paths);
            }
        }
        _ => {}
    }
}

fn schema(crd: &CustomResourceDefinition) -> Value {
    serde_json::to_value(&crd.spec.versions[0].schema).unwrap()["openAPIV3Schema"].take()
}

fn fixture(crd: &CustomResourceDefinition) -> Vec<Value> {
    let text = read("fixtures", crd);
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    assert!(!documents.is_empty());
    documents
}

fn cases(crd: &CustomResourceDefinition) -> Value {
    serde_saphyr::from_str(&read("cases", crd)).unwrap()
}

fn read(folder: &str, crd: &CustomResourceDefinition) -> String {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests");
    let path = tests.join(folder).join(file_name(crd));
    read_file(&path)
}

/// Two groups have VirtualMachines.
fn file_name(crd: &CustomResourceDefinition) -> String {
    match crd.spec.group.as_str() {
        novacron::GROUP => format!("{}.{}.yaml", plural(crd), novacron::GROUP),
        _ => format!("{}.yaml", plural(crd)),
    }
}

fn read_file(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn plural(crd: &CustomResourceDefinition) -> &str {
    &crd.spec.names.plural
}
