//! The committed configurations are those of the code.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::PathBuf;

use polyvirt_admission::{ClientConfig, Configuration, FailurePolicy};

const HEAD: &str =
    "# Made from the code: UPDATE_GENERATED=1 cargo test --workspace --test generated\n";

/// As a chart makes them; the manager puts the authority in.
fn in_a_cluster() -> Configuration {
    Configuration {
        name: "polyvirt".to_owned(),
        client: ClientConfig::Service {
            namespace: "polyvirt-system".to_owned(),
            name: "polyvirt-webhook".to_owned(),
            port: 443,
        },
        authority: Vec::new(),
        failure_policy: FailurePolicy::Fail,
        namespaces: Vec::new(),
        own_namespace: "polyvirt-system".to_owned(),
        own_account: Some("system:serviceaccount:polyvirt-system:polyvirt-manager".to_owned()),
    }
}

#[test]
fn committed_configurations_are_fresh() {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../config/webhook/configurations.yaml");
    let wanted = in_a_cluster();
    let validating = serde_saphyr::to_string(&wanted.validating()).unwrap();
    let mutating = serde_saphyr::to_string(&wanted.mutating()).unwrap();
    let fresh = format!("{HEAD}{validating}---\n{mutating}");
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == fresh, "{} is stale", path.display());
}
