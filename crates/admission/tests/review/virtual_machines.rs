//! VirtualMachines and sets of them.

use polyvirt_admission::{Decision, Operation};
use serde_json::{Value, json};

use crate::world::{World, assert_warned, fields, manifest};

const KIND: &str = "VirtualMachine";

/// A VM that nobody objects to, with a change.
fn vm(change: Value) -> Value {
    let mut spec = json!({
        "providerRef": {"name": "hv"}, "classRef": {"name": "small"}, "imageRef": {"name": "base"},
    });
    json_patch::merge(&mut spec, &change);
    spec
}

#[test]
fn a_plain_vm_passes_without_a_word() {
    let verdict = World::furnished().create(KIND, vm(json!({})));
    assert_eq!(verdict.decision, Decision::Allowed);
    assert_warned(&verdict, &[]);
}

#[test]
fn what_can_never_work_is_refused_by_field() {
    let cards = |list: Value| json!({ "networks": list });
    let table = [
        (
            cards(
                json!([{"name": "a", "macAddress": "52:54:00:00:00:01"}, {"name": "b", "macAddress": "52:54:00:00:00:01"}]),
            ),
            "spec.networks[b].macAddress",
        ),
        (
            json!({"lifecycle": {"preStart": {"exec": {"command": ["true"]}}}}),
            "spec.lifecycle.preStart.exec",
        ),
        (
            json!({"lifecycle": {"preStart": {"httpGet": {"port": 80}}}}),
            "spec.lifecycle.preStart.httpGet.host",
        ),
        (
            json!({"lifecycle": {"preStop": {"snapshot": {"name": "Before Stop"}}}}),
            "spec.lifecycle.preStop.snapshot.name",
        ),
        (
            json!({"lifecycle": {"postStart": {"snapshot": {"name": "n".repeat(250)}}}}),
            "spec.lifecycle.postStart.snapshot.name",
        ),
        (
            cards(
                json!([{"name": "a", "ipAddress": "192.0.2.1", "prefix": 24, "gateway": "198.51.100.1"}]),
            ),
            "spec.networks[a].gateway",
        ),
        (
            cards(json!([{"name": "a", "ipAddress": "192.0.2.0", "prefix": 24}])),
            "spec.networks[a].ipAddress",
        ),
        (
            cards(json!([{"name": "a", "dns": "one.example"}])),
            "spec.networks[a].dns",
        ),
        (
            json!({"userData": {"cloudInit": {"inline": "#cloud-config\na: ["}}}),
            "spec.userData.cloudInit.inline",
        ),
        (
            json!({"userData": {"ignition": {"inline": "no json"}}}),
            "spec.userData.ignition.inline",
        ),
        (
            json!({"metaData": {"cloudInit": {"inline": "- a\n- b\n"}}}),
            "spec.metaData.cloudInit.inline",
        ),
        (
            json!({"networkData": {"cloudInit": {"inline": "version: ["}}}),
            "spec.networkData.cloudInit.inline",
        ),
        (
            json!({"classRef": null, "class": {"cpu": 1, "memory": "99999999999999999999Ei"}}),
            "spec.class.memory",
        ),
        (
            json!({"classRef": null, "class": {"cpu": 1, "memory": "1Gi", "resourceLimits": {"memoryLimit": "1Gi", "memoryReservation": "2Gi"}}}),
            "spec.class.resourceLimits.memoryReservation",
        ),
        (
            json!({"imageRef": null, "image": {"http": {"url": "https://x/y", "checksum": "abc"}}}),
            "spec.image.http.checksum",
        ),
        (
            json!({"disks": [
                {"name": "a", "sizeGiB": 1, "scsi": {"controller": 0}},
                {"name": "b", "sizeGiB": 1, "scsi": {"controller": 0, "sharedBus": "virtualSharing"}},
            ]}),
            "spec.disks[b].scsi",
        ),
    ];
    for (change, field) in table {
        let verdict = World::furnished().create(KIND, vm(change));
        assert_eq!(fields(&verdict), [field]);
    }
}

#[test]
fn every_problem_is_told_at_once() {
    let verdict = World::furnished().create(
        KIND,
        vm(json!({
            "networks": [{"name": "a", "macAddress": "01:00:00:00:00:01"}],
            "userData": {"cloudInit": {"inline": "#cloud-config\na: ["}},
        })),
    );
    assert_eq!(
        fields(&verdict),
        [
            "spec.networks[a].macAddress",
            "spec.userData.cloudInit.inline"
        ]
    );
}

#[test]
fn what_is_not_there_yet_only_warns() {
    let spec = json!({
        "providerRef": {"name": "other", "namespace": "infra"}, "classRef": {"name": "large"},
        "imageRef": {"name": "nix"}, "networks": [{"name": "a", "networkRef": {"name": "dmz"}}],
        "snapshot": {"revertToRef": {"name": "before"}},
    });
    let verdict = World::furnished().create(KIND, spec.clone());
    assert_eq!(verdict.decision, Decision::Allowed);
    assert_warned(
        &verdict,
        &[
            "Provider infra/other",
            "VMClass team/large",
            "VMImage team/nix",
            "VMNetworkAttachment team/dmz",
            "VMSnapshot team/before",
        ],
    );
    let mut blind = World::default();
    blind.blind = true;
    assert_warned(&blind.create(KIND, spec), &[]);
}

#[test]
fn fields_that_the_provider_ignores_are_named() {
    let verdict = World::furnished().create(
        KIND,
        vm(json!({
            "tags": ["a"], "placement": {"host": "h"},
            "userData": {"cloudInit": {"inline": "#cloud-config\na: b\n"}},
        })),
    );
    assert_eq!(verdict.decision, Decision::Allowed);
    assert_warned(
        &verdict,
        &[
            "spec.tags has no effect on Provider hv",
            "spec.placement.host",
        ],
    );
}

#[test]
fn a_provider_that_never_connected_ignores_nothing() {
    let world = World::furnished().with("Provider", "hv", json!({"spec": {"type": "mock"}}));
    assert_warned(&world.create(KIND, vm(json!({"tags": ["a"]}))), &[]);
}

#[test]
fn surprises_are_told() {
    let table = [
        (json!({"driftPolicy": {"deletion": "Recreate"}}), "lost"),
        (
            json!({"networks": [{"name": "a", "gateway": "192.0.2.1"}]}),
            "without ipAddress",
        ),
        (
            json!({"classRef": null, "class": {"cpu": 1, "memory": "1Gi", "securityProfile": {"secureBoot": true}}}),
            "secure boot needs UEFI",
        ),
    ];
    for (change, words) in table {
        let verdict = World::furnished().create(KIND, vm(change));
        assert_eq!(verdict.decision, Decision::Allowed);
        assert!(
            verdict.warnings.iter().any(|w| w.contains(words)),
            "{words}: {:?}",
            verdict.warnings
        );
    }
}

/// The verdict on a change of a VM that exists on the hypervisor.
fn edited(world: &World, old: Value, new: Value) -> polyvirt_admission::Verdict {
    let mut before = manifest(KIND, "it", vm(old));
    before["status"] = json!({"id": "vm-1"});
    world.ask(
        KIND,
        Operation::Update,
        manifest(KIND, "it", vm(new)),
        before,
    )
}

#[test]
fn changes_of_a_vm_that_exists_are_explained() {
    let world = World::furnished();
    assert_warned(
        &edited(&world, json!({}), json!({"powerState": "Off"})),
        &["cuts the power"],
    );
    assert_warned(
        &edited(&world, json!({}), json!({"powerState": "OffGraceful"})),
        &[],
    );
    assert_warned(
        &edited(&world, json!({}), json!({"resources": {"cpu": 4}})),
        &["waits for the next restart"],
    );
    let willing = json!({"resources": {"cpu": 4}, "reconfigurePolicy": {"restart": "WhenNeeded"}});
    assert_warned(
        &edited(&world, json!({}), willing),
        &["is restarted for it"],
    );
    let off = json!({"resources": {"cpu": 4}, "powerState": "OffGraceful"});
    assert_warned(
        &edited(&world, json!({"powerState": "OffGraceful"}), off),
        &[],
    );
    assert_warned(
        &edited(&world, json!({}), json!({"resources": {"cpu": 1}})),
        &[],
    );
    let other = json!({"userData": {"cloudInit": {"inline": "#cloud-config\na: b\n"}}});
    assert_warned(&edited(&world, json!({}), other), &["first boot"]);
    let image = json!({"imageRef": {"name": "base", "namespace": "team"}});
    assert_warned(
        &edited(&world, json!({}), image),
        &["spec.imageRef: the edit has no effect on this VM, which exists (read at creation)"],
    );
}

#[test]
fn a_provider_that_changes_size_online_needs_no_restart() {
    let world = World::furnished().with(
        "Provider",
        "hv",
        json!({
            "spec": {"type": "mock"},
            "status": {"reportedCapabilities": {"supportsReconfigureOnline": true}},
        }),
    );
    assert_warned(
        &edited(&world, json!({}), json!({"resources": {"cpu": 4}})),
        &[],
    );
}

#[test]
fn a_name_too_long_for_the_hypervisor_is_told() {
    let world = World::furnished().with("Provider", "hv", json!({"spec": {"type": "vsphere"}}));
    let long = manifest(KIND, &"n".repeat(81), vm(json!({})));
    let verdict = world.ask(KIND, Operation::Create, long, Value::Null);
    assert_warned(&verdict, &["at most 80"]);
}

#[test]
fn a_set_is_asked_what_its_vms_are_asked() {
    let set = |replicas: i32, change: Value| json!({"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": vm(change)}});
    let broken = json!({"userData": {"cloudInit": {"inline": "#cloud-config\na: ["}}});
    let verdict = World::furnished().create("VMSet", set(1, broken));
    assert_eq!(
        fields(&verdict),
        ["spec.template.spec.userData.cloudInit.inline"]
    );
    let command = json!({"lifecycle": {"preStart": {"exec": {"command": ["true"]}}}});
    let verdict = World::furnished().create("VMSet", set(1, command));
    assert_eq!(
        fields(&verdict),
        ["spec.template.spec.lifecycle.preStart.exec"]
    );
    // Its VMs are not made, so nothing is said of what they would lack.
    let missing = World::default().create("VMSet", set(2, json!({})));
    assert_warned(&missing, &["does not implement"]);
}

#[test]
fn an_object_of_a_newer_version_passes_with_a_word() {
    let verdict = World::furnished().create(KIND, vm(json!({"powerState": "Hibernate"})));
    assert_eq!(verdict.decision, Decision::Allowed);
    assert_warned(&verdict, &["cannot read the object"]);
}

/// Whether a Secret is there is told where it is known, and never refused: it may come with the next manifest.
#[test]
fn a_secret_that_is_not_there_is_told() {
    let named = |place: &str, part: &str| json!({place: {part: {"secretRef": {"name": "s"}}}});
    for (place, part) in [
        ("userData", "cloudInit"),
        ("userData", "ignition"),
        ("metaData", "cloudInit"),
        ("networkData", "cloudInit"),
    ] {
        let told = |world: World| {
            let verdict = world.create(KIND, vm(named(place, part)));
            assert_eq!(verdict.decision, Decision::Allowed);
            let warnings = verdict.warnings.into_iter();
            warnings
                .filter(|w| w.contains("Secret"))
                .collect::<Vec<_>>()
        };
        let missing = format!(
            "spec.{place}.{part}.secretRef: Secret team/s does not exist yet; work waits for it"
        );
        assert_eq!(told(World::furnished()), [missing]);
        let there = World::furnished().with("Secret", "s", json!({}));
        assert!(told(there).is_empty());
        let mut blind = World::furnished();
        blind.blind = true;
        assert!(told(blind).is_empty());
    }
}

#[test]
fn an_image_in_storage_of_a_cluster_is_warned_of_where_nobody_can_read_it() {
    let of = |kind: &str| json!({"spec": {"type": kind, "runtime": {"mode": "InProcess"}}});
    let volume = json!({"dataVolume": {"name": "disk"}});
    let world = World::furnished()
        .with("Provider", "kvm", of("qemu"))
        .with("Provider", "cluster", of("kubevirt"))
        .with("VMImage", "there", json!({"spec": {"source": volume}}));
    let vm = |provider: &str, image: Value| {
        let mut spec = json!({"providerRef": {"name": provider}, "classRef": {"name": "small"}});
        spec.as_object_mut()
            .unwrap()
            .extend(image.as_object().unwrap().clone());
        spec
    };
    let (inline, named) = (
        json!({"image": volume}),
        json!({"imageRef": {"name": "there"}}),
    );
    for image in [&inline, &named] {
        let verdict = world.create("VirtualMachine", vm("kvm", image.clone()));
        assert_warned(&verdict, &["which Provider kvm cannot read"]);
        let verdict = world.create("VirtualMachine", vm("cluster", image.clone()));
        assert!(verdict.warnings.is_empty(), "{:?}", verdict.warnings);
    }
}
