//! Where the first disk comes from.

use polyvirt_api::infra::DiskImagePull;
use serde_json::json;

use super::*;

fn source(text: &str) -> Result<Lowered, LowerError> {
    World::on(ProviderType::Mock).lower(&made_of(&json!({"image": {"source": text}})))
}

#[test]
fn every_scheme_is_understood() {
    let in_place = |value: Value| json!({ "image": value });
    for (text, expected) in [
        (
            "http://x.example/a.qcow2",
            in_place(json!({"http": {"url": "http://x.example/a.qcow2"}})),
        ),
        (
            "https://x.example/a.qcow2",
            in_place(json!({"http": {"url": "https://x.example/a.qcow2"}})),
        ),
        (
            "pvc://team/golden",
            in_place(json!({"dataVolume": {"name": "golden", "namespace": "team"}})),
        ),
        (
            "pvc://golden",
            in_place(json!({"dataVolume": {"name": "golden"}})),
        ),
        (
            "registry://quay.example/a/b:1",
            in_place(json!({"registry": {"image": "quay.example/a/b:1"}})),
        ),
        (
            "docker://quay.example:5000/a/b",
            in_place(json!({"registry": {"image": "quay.example:5000/a/b:latest"}})),
        ),
        (
            "marketplace://golden",
            json!({"imageRef": {"name": "golden-3"}}),
        ),
        (
            "ubuntu-22.04",
            json!({"imageRef": {"name": "ubuntu-22.04"}}),
        ),
    ] {
        let found = source(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let spec = serde_json::to_value(&found.vm.spec).unwrap();
        assert!(
            crate::shared::same::covers(&spec, &expected),
            "{text}: {spec}"
        );
    }
}

#[test]
fn a_claim_is_for_clusters_only_and_says_so() {
    let vm = made_of(&json!({"image": {"source": "pvc://team/golden"}}));
    for kind in [ProviderType::Qemu, ProviderType::Libvirt] {
        let error = World::on(kind).lower(&vm).expect_err("no cluster");
        assert_eq!(error.field(), "spec.template.spec.image.source");
        let text = "pvc://team/golden is storage of a cluster, which Provider infra/hypervisor cannot read";
        assert!(error.message().starts_with(text), "{error}");
        assert!(error.message().contains("registry://"), "{error}");
    }
    assert!(World::on(ProviderType::Kubevirt).lower(&vm).is_ok());
}

#[test]
fn what_is_no_image_is_refused_with_advice() {
    for text in [
        "",
        "ftp://x",
        "marketplace://",
        "Ubuntu 22",
        "https://",
        "pvc://a/b/c",
        "registry:// x",
    ] {
        let error = source(text).expect_err(text);
        assert_eq!(error.field(), "spec.template.spec.image.source");
        assert!(error.message().contains("marketplace://name"), "{error}");
    }
    let broken = source("marketplace://broken").expect_err("broken");
    assert!(broken.message().contains("no image"), "{broken}");
}

#[test]
fn an_unknown_name_of_the_marketplace_says_what_to_do() {
    let error = source("marketplace://plan9").expect_err("unknown");
    assert!(matches!(error, LowerError::Missing { .. }), "{error:?}");
    for word in [
        "VMImage plan9",
        "polyvirt.io/marketplace: plan9",
        "polyvirt-system/polyvirt-image-catalogue",
    ] {
        assert!(error.message().contains(word), "{error}");
    }
}

#[test]
fn a_corrected_entry_reaches_a_vm_that_could_not_be_made() {
    let later = World {
        before: Some(lowered(&vm(&json!({}))).vm),
        url: "https://images.example/newer.img",
        ..World::default()
    };
    let found = later.lower(&vm(&json!({}))).unwrap().vm.spec.image.unwrap();
    assert_eq!(found.http.unwrap().url, "https://images.example/newer.img");
}

#[test]
fn another_catalogue_does_not_change_a_vm_that_was_made() {
    let mut before = lowered(&vm(&json!({}))).vm;
    before.status.get_or_insert_default().id = Some("vm-1".into());
    let later = World {
        before: Some(before.clone()),
        url: "https://images.example/newer.img",
        ..World::default()
    };
    assert_eq!(later.lower(&vm(&json!({}))).unwrap().vm.spec, before.spec);
    let other = made_of(&json!({"image": {"source": "https://images.example/mine.img"}}));
    let found = later.lower(&other).unwrap().vm.spec.image.unwrap();
    assert_eq!(found.http.unwrap().url, "https://images.example/mine.img");
}

#[test]
fn a_pull_policy_goes_on_to_the_vm() {
    for (policy, written) in [
        ("IfNotPresent", None),
        ("Always", Some(DiskImagePull::Always)),
        ("Never", Some(DiskImagePull::Never)),
    ] {
        let image = json!({"image": {"source": "golden", "pullPolicy": policy}});
        let made = lowered(&made_of(&image));
        assert_eq!(made.vm.spec.image_pull_policy, written, "{policy}");
        assert!(made.ignored.is_empty(), "{:?}", made.ignored);
    }
}
