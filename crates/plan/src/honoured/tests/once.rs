//! Edits that come after the moment at which their field is read.

use serde_json::{Value, json};

use super::super::once::*;
use super::super::schema::leaves;
use super::super::{ENGINE_FIELDS, FIELDS};
use polyvirt_api::infra::{VMNetworkAttachmentSpec, VirtualMachineSpec};

fn spec(edit: Value) -> VirtualMachineSpec {
    let mut tree = json!({
        "providerRef": {"name": "p"}, "imageRef": {"name": "debian"},
        "class": {"cpu": 1, "memory": "1Gi"},
        "userData": {"cloudInit": {"inline": "#cloud-config"}},
        "disks": [{"name": "data", "sizeGiB": 1}], "networks": [{"name": "eth0"}],
    });
    let (into, from) = (tree.as_object_mut().expect("an object"), edit);
    into.extend(from.as_object().expect("an object").clone());
    serde_json::from_value(tree).expect("a spec")
}

fn of(edit: Value) -> Declared {
    declared(&spec(edit), None, &[])
}

fn told(edit: Value) -> Vec<String> {
    let edited = edited(&of(json!({})), &of(edit));
    edited.iter().map(ToString::to_string).collect()
}

#[test]
fn an_edit_that_comes_too_late_is_named_with_its_moment_until_it_is_reverted() {
    assert_eq!(
        told(json!({"imageRef": {"name": "other"}})),
        ["spec.imageRef (read at creation)"]
    );
    assert_eq!(
        told(json!({"userData": {"cloudInit": {"inline": "#cloud-config\nhostname: x"}}})),
        ["spec.userData (read at the first boot)"]
    );
    assert_eq!(
        told(json!({"placement": {"nodeSelector": {"disk": "ssd"}}})),
        ["spec.placement.nodeSelector (placement is decided once)"]
    );
    assert_eq!(
        told(json!({"disks": [{"name": "data", "sizeGiB": 1, "storageClass": "fast"}]})),
        ["spec.disks[data] (read at creation)"]
    );
    assert_eq!(told(json!({})), Vec::<String>::new());
}

#[test]
fn what_acts_later_is_no_late_edit() {
    for edit in [
        json!({"powerState": "Off"}),
        json!({"class": {"cpu": 4, "memory": "2Gi"}}),
        json!({"disks": [{"name": "data", "sizeGiB": 5}]}),
        json!({"disks": [{"name": "data", "sizeGiB": 1}, {"name": "more", "sizeGiB": 1, "storageClass": "fast"}]}),
        json!({"networks": []}),
        // A default that is written out.
        json!({"disks": [{"name": "data", "sizeGiB": 1, "type": "thin"}], "imagePullPolicy": "IfNotPresent"}),
    ] {
        assert_eq!(told(edit.clone()), Vec::<String>::new(), "{edit}");
    }
}

#[test]
fn a_vm_without_a_record_is_not_judged_and_gets_one_when_it_is_as_declared() {
    let now = of(json!({"imageRef": {"name": "other"}}));
    assert!(edited(&Declared::new(), &now).is_empty());
    let mut created = Declared::new();
    settle(&mut created, &now);
    assert_eq!(created, now);
}

#[test]
fn entries_of_lists_are_taken_up_when_they_come_and_forgotten_when_they_go() {
    let mut created = of(json!({}));
    let more = json!({"disks": [{"name": "more", "sizeGiB": 1, "storageClass": "fast"}]});
    settle(&mut created, &of(more.clone()));
    assert!(!created.contains_key("spec.disks[data]"));
    let slower = json!({"disks": [{"name": "more", "sizeGiB": 1, "storageClass": "slow"}]});
    let late = edited(&created, &of(slower));
    assert_eq!(late.len(), 1, "{late:?}");
    assert!(edited(&created, &of(more)).is_empty());
}

#[test]
fn what_goes_with_a_change_acts_with_it() {
    let mut created = of(json!({}));
    let tagged = of(json!({"tags": ["a"], "imageRef": {"name": "other"}}));
    let before: Vec<_> = edited(&created, &tagged)
        .into_iter()
        .map(|e| e.path)
        .collect();
    assert_eq!(before, ["spec.imageRef", "spec.tags"]);
    sent(&mut created, &tagged);
    let after: Vec<_> = edited(&created, &tagged)
        .into_iter()
        .map(|e| e.path)
        .collect();
    assert_eq!(after, ["spec.imageRef"]);
}

#[test]
fn an_edit_of_the_network_is_one_of_the_cards_that_are_plugged_into_it() {
    let network = |bridge: &str| -> VMNetworkAttachmentSpec {
        let tree = json!({"network": {"libvirt": {"bridge": {"name": bridge}}}, "metadata": {"displayName": bridge}});
        serde_json::from_value(tree).expect("a network")
    };
    let of = |network: &VMNetworkAttachmentSpec| declared(&spec(json!({})), None, &[(0, network)]);
    let (br0, br1) = (network("br0"), network("br1"));
    let late = edited(&of(&br0), &of(&br1));
    assert_eq!(late.len(), 1, "{late:?}");
    assert_eq!(late[0].path, "spec.networks[eth0]");
}

/// These are in the status of VMs out there: if one changes, so must the version of digests.
#[test]
fn digests_of_a_vm_are_the_same_in_every_build() {
    let found = of(json!({"placement": {"cluster": "c1"}}));
    let expected = [
        ("spec.disks[data]", "v1:74234e98afe7498f"),
        ("spec.imageRef", "v1:4ca5a4ae9bee7519"),
        ("spec.networks[eth0]", "v1:74234e98afe7498f"),
        ("spec.placement.cluster", "v1:98ebf92d51bb8a4b"),
        ("spec.userData", "v1:20530bc16a8dabea"),
    ];
    let expected: Declared = expected
        .into_iter()
        .map(|(path, digest)| (path.to_owned(), digest.to_owned()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn every_field_that_is_read_once_is_in_the_schema_and_in_the_lists() {
    let leaves = leaves();
    for row in ONCE {
        let path = row.path;
        let known = leaves.iter().any(|(leaf, _)| covers(path, leaf));
        assert!(known, "{path} is in no schema");
        let listed = FIELDS
            .iter()
            .map(|f| f.path)
            .chain(ENGINE_FIELDS.iter().copied());
        let listed = listed.filter(|field| covers(path, field) || covers(field, path));
        assert!(listed.count() > 0, "{path} is in no list");
    }
}
