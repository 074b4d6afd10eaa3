//! The committed CustomResourceDefinitions are those of the types.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::PathBuf;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// For people and `kubectl apply`, and for Helm, which takes only what lies in its chart.
const FOLDERS: [&str; 2] = ["config/crd", "charts/polyvirt/crds"];

fn folders() -> impl Iterator<Item = PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    FOLDERS.into_iter().map(move |folder| root.join(folder))
}

/// Rewrite with `UPDATE_GENERATED=1 cargo test -p polyvirt-api --test generated`.
#[test]
fn committed_crds_are_fresh() {
    let update = std::env::var_os("UPDATE_GENERATED").is_some();
    for (crd, folder) in polyvirt_api::crds()
        .iter()
        .flat_map(|crd| folders().map(move |folder| (crd, folder)))
    {
        let path = folder.join(file_name(crd));
        let fresh = yaml(crd);
        if update {
            std::fs::write(&path, &fresh).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == fresh,
            "{} is stale: run UPDATE_GENERATED=1 cargo test -p polyvirt-api --test generated",
            path.display()
        );
    }
}

#[test]
fn no_file_without_its_crd() {
    let mut expected: Vec<_> = polyvirt_api::crds().iter().map(file_name).collect();
    // The same folder by the name that other operators give it.
    expected.push("bases".to_owned());
    for entry in folders().flat_map(|folder| std::fs::read_dir(folder).unwrap()) {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            expected.contains(&name),
            "{name} belongs to no kind: delete it"
        );
    }
}

fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}.yaml", crd.metadata.name.as_deref().unwrap())
}

fn yaml(crd: &CustomResourceDefinition) -> String {
    let mut value = serde_json::to_value(crd).unwrap();
    whole_numbers(&mut value);
    serde_saphyr::to_string(&value).unwrap()
}

/// Bounds are floats in the Rust type; `128` reads better than `128.0`.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let float = number.as_f64().unwrap_or_default();
            if number.is_f64() && float.fract() == 0.0 {
                *value = format!("{float:.0}").parse::<i64>().unwrap().into();
            }
        }
        Value::Array(list) => list.iter_mut().for_each(whole_numbers),
        Value::Object(map) => map.values_mut().for_each(whole_numbers),
        _ => {}
    }
}
