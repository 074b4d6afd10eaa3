//! The lists of the other kinds against their schemas, and the conditions of Providers.

use kube::CustomResourceExt as _;
use polyvirt_api::infra::{
    Provider, RuntimeMode, VMClone, VMImage, VMMigration, VMPlacementPolicy, VMSet, VMSnapshot,
};
use polyvirt_contract::Features;
use serde_json::{Value, json};

use super::super::kinds::{Fields, KINDS};
use super::super::once::covers;
use super::super::provider::{PROVIDER_ACTS, PROVIDER_FIELDS, ignored, sentence};
use super::super::schema::leaves_of;

fn schema(kind: &str) -> Value {
    let crd = match kind {
        "VMImage" => json!(VMImage::crd()),
        "VMSnapshot" => json!(VMSnapshot::crd()),
        "VMMigration" => json!(VMMigration::crd()),
        "VMPlacementPolicy" => json!(VMPlacementPolicy::crd()),
        "VMClone" => json!(VMClone::crd()),
        "VMSet" => json!(VMSet::crd()),
        _ => json!(Provider::crd()),
    };
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    crd.pointer(spec).expect("a spec").clone()
}

fn check(fields: &Fields, schema: &Value) {
    let leaves = leaves_of("spec", schema);
    let never = fields.never.iter().map(|never| never.path);
    let all: Vec<_> = fields.acts.iter().copied().chain(never).collect();
    for (leaf, _) in &leaves {
        let known = all.iter().any(|path| covers(path, leaf));
        assert!(known, "{} of {} is in no list", leaf, fields.kind);
    }
    for path in all
        .iter()
        .copied()
        .chain(fields.sometimes.iter().map(|s| s.0))
    {
        let known = leaves.iter().any(|(leaf, _)| covers(path, leaf));
        assert!(known, "{path} of {} is in no schema", fields.kind);
    }
    for never in fields.never {
        let at = leaves.iter().find(|(leaf, _)| leaf == never.path);
        let default = at.and_then(|(_, schema)| schema.get("default"));
        let counts = default.is_some_and(|default| never.counts.says(default));
        assert!(!counts, "{} counts at its default", never.path);
    }
}

#[test]
fn every_field_of_every_kind_acts_or_is_listed() {
    for fields in KINDS {
        check(fields, &schema(fields.kind));
    }
}

#[test]
fn every_field_of_a_provider_acts_or_is_listed() {
    let schema = schema("Provider");
    let leaves = leaves_of("spec", &schema);
    let listed = PROVIDER_FIELDS.iter().map(|f| f.path);
    let all: Vec<_> = PROVIDER_ACTS.iter().copied().chain(listed).collect();
    for (leaf, schema) in &leaves {
        let count = all.iter().filter(|path| covers(path, leaf)).count();
        assert_eq!(
            count, 1,
            "{leaf} must be in PROVIDER_ACTS or PROVIDER_FIELDS, once"
        );
        let field = PROVIDER_FIELDS.iter().find(|f| f.path == leaf);
        if let (Some(field), Some(default)) = (field, schema.get("default")) {
            assert!(!field.counts.says(default), "{leaf} counts at its default");
        }
    }
    for path in all {
        let known = leaves.iter().any(|(leaf, _)| covers(path, leaf));
        assert!(known, "{path} is in no schema");
    }
}

fn provider(spec: &Value) -> Provider {
    serde_json::from_value(json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "Provider",
        "metadata": {"name": "p"}, "spec": spec,
    }))
    .expect("a Provider")
}

#[test]
fn what_only_pods_have_is_idle_elsewhere() {
    let object = provider(&json!({"type": "mock", "runtime": {
        "mode": "Remote", "image": "x/y:1", "replicas": 2, "affinity": {"nodeAffinity": {}},
        "securityContext": {"runAsUser": 7}, "logLevel": "debug",
    }}));
    assert!(ignored(&object, RuntimeMode::Remote, None).is_empty());
    let child = ignored(&object, RuntimeMode::Process, None);
    let paths: Vec<_> = child.iter().filter_map(|f| f.split(' ').next()).collect();
    assert_eq!(
        paths,
        [
            "spec.runtime.image",
            "spec.runtime.replicas",
            "spec.runtime.affinity",
            "spec.runtime.securityContext"
        ]
    );
    let inside = ignored(&object, RuntimeMode::InProcess, None);
    assert!(
        inside
            .iter()
            .any(|f| f.starts_with("spec.runtime.logLevel"))
    );
    let text = sentence(&inside).expect("said");
    assert!(text.contains("not read in mode InProcess"), "{text}");
}

#[test]
fn defaults_that_the_provider_does_not_honour_are_idle_once_that_is_known() {
    let object = provider(
        &json!({"type": "qemu", "defaults": {"folder": "f", "datastore": "d", "network": "n"}}),
    );
    assert!(ignored(&object, RuntimeMode::InProcess, None).is_empty());
    let features = Features {
        honoured_fields: Some(["spec.placement.datastore".to_owned()].into()),
        ..Features::default()
    };
    let found = ignored(&object, RuntimeMode::InProcess, Some(&features));
    assert_eq!(
        found,
        ["spec.defaults.folder (the provider does not honour spec.placement.folder)"]
    );
}

#[test]
fn a_provider_that_sets_nothing_has_nothing_idle() {
    for mode in [
        RuntimeMode::Remote,
        RuntimeMode::External,
        RuntimeMode::Process,
        RuntimeMode::InProcess,
    ] {
        let bare = provider(
            &json!({"type": "mock", "connectionPooling": {}, "runtime": {"service": {"tls": {}}}}),
        );
        assert!(ignored(&bare, mode, Some(&Features::default())).is_empty());
    }
}
