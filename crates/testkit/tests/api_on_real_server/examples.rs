//! The manifests of the repository are accepted by a real API server, field by field.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, ValidationDirective};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{Scope, pinned_kind};
use polyvirt_testkit::namespace;
use serde_json::Value;

use super::server;

const FOLDERS: [&str; 3] = ["docs/examples", "config/samples", "config/network-policy"];

/// The references of a VirtualMachine, and the kinds that they refer to.
const REFERENCES: [(&str, &str); 4] = [
    ("/spec/providerRef/name", "Provider"),
    ("/spec/classRef/name", "VMClass"),
    ("/spec/imageRef/name", "VMImage"),
    ("/spec/networks/0/networkRef/name", "VMNetworkAttachment"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn manifests(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut yaml: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .collect();
    yaml.sort();
    yaml
}

fn documents(path: &Path) -> Vec<DynamicObject> {
    let text = std::fs::read_to_string(path).unwrap();
    let values: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let objects = values.into_iter().map(serde_json::from_value);
    objects.collect::<Result<_, _>>().unwrap()
}

fn kind_of(object: &DynamicObject) -> GroupVersionKind {
    GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap()
}

async fn api(client: &Client, object: &DynamicObject, space: &str) -> Api<DynamicObject> {
    let (resource, capabilities): (ApiResource, _) =
        pinned_kind(client, &kind_of(object)).await.unwrap();
    match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), space, &resource),
    }
}

/// As `kubectl apply --validate=strict` does, in a namespace of the test.
async fn apply(client: &Client, mut object: DynamicObject, space: &str) -> kube::Result<()> {
    let api = api(client, &object, space).await;
    if object.metadata.namespace.is_some() {
        object.metadata.namespace = Some(space.to_owned());
    }
    let params = PatchParams {
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::apply("examples")
    };
    let name = object.metadata.name.clone().unwrap();
    api.patch(&name, &params, &Patch::Apply(&object)).await?;
    Ok(())
}

#[tokio::test]
async fn every_example_and_sample_is_applied() {
    let client = server().await;
    let mut faults = vec![];
    for path in FOLDERS.into_iter().flat_map(manifests) {
        let space = namespace(&client, "examples").await.unwrap();
        for object in documents(&path) {
            let name = object.metadata.name.clone().unwrap();
            if let Err(error) = apply(&client, object, &space).await {
                faults.push(format!("{} {name}: {error}", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Each file with several objects needs no other, and the single ones of the quick start fit together.
#[test]
fn no_example_refers_to_an_object_that_is_missing() {
    let (whole, single): (Vec<_>, Vec<_>) = manifests("docs/examples")
        .iter()
        .map(|path| documents(path))
        .partition(|objects| objects.len() > 1);
    assert!(whole.len() >= 3 && single.len() >= 5);
    let mut sets = whole;
    sets.push(single.into_iter().flatten().collect());
    for objects in sets {
        assert_eq!(missing(&objects), BTreeSet::new());
    }
}

fn missing(objects: &[DynamicObject]) -> BTreeSet<(String, String)> {
    let names: BTreeSet<_> = objects
        .iter()
        .map(|object| (kind_of(object).kind, object.metadata.name.clone().unwrap()))
        .collect();
    let vms = objects
        .iter()
        .filter(|object| kind_of(object).kind == "VirtualMachine");
    let referred = vms.flat_map(|vm| {
        REFERENCES.map(|(field, kind)| {
            let name = vm.data.pointer(field).and_then(Value::as_str).unwrap();
            (kind.to_owned(), name.to_owned())
        })
    });
    referred
        .filter(|(kind, name)| !names.contains(&(kind.clone(), name.clone())))
        .collect()
}
