//! The committed CustomResourceDefinitions are those of the types.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// A folder that holds the definitions for one audience.
struct Folder {
    path: &'static str,
    file: fn(&CustomResourceDefinition) -> String,
    holds: fn(&CustomResourceDefinition) -> bool,
}

/// For `kubectl apply`, for Helm, which reads only files inside the chart, and for users of the Viti Stack, under the names
/// that its documentation gives.
const FOLDERS: [Folder; 3] = [
    Folder {
        path: "config/crd",
        file: file_name,
        holds: |_| true,
    },
    Folder {
        path: "charts/polyvirt/crds",
        file: file_name,
        holds: |_| true,
    },
    Folder {
        path: "hack/vitistack-crds",
        file: kubebuilder_name,
        holds: |crd| crd.spec.group == "vitistack.io",
    },
];

/// `config/crd` under the path that kubebuilder projects use. A link to the folder itself would be endless for programs that
/// follow links, so it is a folder with one link for each file.
const BASES: &str = "config/crd/bases";

impl Folder {
    fn root(&self) -> PathBuf {
        in_repository(self.path)
    }

    fn crds(&self) -> Vec<CustomResourceDefinition> {
        let all = polyvirt_api::crds().into_iter();
        all.filter(self.holds).collect()
    }
}

fn in_repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn is_update() -> bool {
    std::env::var_os("UPDATE_GENERATED").is_some()
}

/// Rewrite with `UPDATE_GENERATED=1 cargo test -p polyvirt-api --test generated`.
#[test]
fn committed_crds_are_fresh() {
    for folder in &FOLDERS {
        for crd in folder.crds() {
            is_fresh(&folder.root().join((folder.file)(&crd)), &yaml(&crd));
        }
    }
}

fn is_fresh(path: &Path, fresh: &str) {
    if is_update() {
        std::fs::write(path, fresh).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == fresh,
        "{} is stale: run UPDATE_GENERATED=1 cargo test -p polyvirt-api --test generated",
        path.display()
    );
}

#[test]
fn no_file_without_its_crd() {
    for folder in &FOLDERS {
        let mut expected: Vec<_> = folder.crds().iter().map(folder.file).collect();
        expected.extend(["bases".to_owned(), "README.md".to_owned()]);
        for name in names_in(&folder.root()) {
            assert!(
                expected.contains(&name),
                "{}/{name} belongs to no kind: delete it",
                folder.path
            );
        }
    }
}

#[test]
fn bases_links_to_each_definition_and_to_nothing_else() {
    let bases = in_repository(BASES);
    let mut expected: Vec<_> = polyvirt_api::crds().iter().map(file_name).collect();
    expected.sort();
    if is_update() {
        std::fs::create_dir_all(&bases).unwrap();
        for name in &expected {
            let link = bases.join(name);
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(Path::new("..").join(name), link).unwrap();
        }
    }
    assert!(!bases.is_symlink(), "{BASES} is a link: an endless path");
    assert_eq!(names_in(&bases), expected, "run make manifests");
    for name in expected {
        let target = std::fs::read_link(bases.join(&name)).unwrap();
        assert_eq!(target, Path::new("..").join(&name));
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// As kubebuilder names files: `vitistack.io_machines.yaml`.
fn kubebuilder_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
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
