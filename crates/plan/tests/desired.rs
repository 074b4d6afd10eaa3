//! From manifests to the request for a provider, case by case.
#![allow(clippy::expect_used, reason = "helpers of tests are tests too")]

use std::time::Duration;

use polyvirt_api::infra::{Provider, VMClass, VMImage, VMNetworkAttachment, VirtualMachine};
use polyvirt_contract::Capabilities;
use polyvirt_contract::model::{DiskType, ExpandPolicy, Firmware};
use polyvirt_plan::virtual_machine::desired::{References, resolve};
use polyvirt_plan::virtual_machine::{
    Desired, DesiredPower, ImageReadiness, OnDrift, RestartPolicy,
};
use polyvirt_plan::{Problem, Reason};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn object<K: DeserializeOwned>(kind: &str, name: &str, spec: &Value) -> K {
    serde_json::from_value(json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "team"},
        "spec": spec,
    }))
    .expect("a valid object")
}

/// All that a VM may refer to.
struct World {
    provider: Provider,
    class: Option<VMClass>,
    image: Option<VMImage>,
    network: Option<VMNetworkAttachment>,
    capabilities: Capabilities,
}

impl Default for World {
    fn default() -> Self {
        Self {
            provider: object("Provider", "p", &json!({"type": "libvirt"})),
            class: Some(object(
                "VMClass",
                "small",
                &json!({"cpu": 2, "memory": "1536Mi"}),
            )),
            image: Some(object(
                "VMImage",
                "debian",
                &json!({"source": {"libvirt": {"path": "/d.qcow2"}}}),
            )),
            network: Some(object(
                "VMNetworkAttachment",
                "lan",
                &json!({"network": {
                    "libvirt": {"bridge": {"name": "br0"}},
                    "vsphere": {"portgroup": "PG", "vlan": {"type": "vlan", "vlanID": 7}},
                }}),
            )),
            capabilities: Capabilities::default(),
        }
    }
}

impl World {
    fn resolve(&self, spec: Value) -> Result<Desired, Problem> {
        let mut full = json!({
            "providerRef": {"name": "p"}, "classRef": {"name": "small"}, "imageRef": {"name": "debian"},
        });
        json_merge(&mut full, spec);
        let vm: VirtualMachine = object("VirtualMachine", "web", &full);
        let networks: Vec<_> = vm
            .spec
            .networks
            .iter()
            .map(|_| self.network.as_ref())
            .collect();
        resolve(
            &vm,
            &References {
                provider: Some(&self.provider),
                class: self.class.as_ref(),
                image: self.image.as_ref(),
                networks: &networks,
                capabilities: &self.capabilities,
                identity: &"uid-1".into(),
            },
        )
    }
}

fn json_merge(base: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else { return };
    for (key, value) in patch {
        match value {
            Value::Null => drop(base.as_object_mut().and_then(|b| b.remove(&key))),
            value => base[key] = value,
        }
    }
}

#[test]
fn a_plain_vm_gets_its_class_and_is_on() {
    let desired = World::default().resolve(json!({})).expect("resolves");
    assert_eq!(
        (desired.vm.class.cpu, desired.vm.class.memory_mib),
        (2, 1536)
    );
    assert_eq!(desired.vm.name, "web");
    assert_eq!(desired.power, DesiredPower::On);
    assert_eq!(desired.graceful_timeout, Duration::from_secs(60));
    assert_eq!(desired.image, ImageReadiness::Ready);
    assert_eq!(desired.vm.image.path, "/d.qcow2");
    assert_eq!(desired.vm.owner.expect("owned").identity.as_str(), "uid-1");
    assert_eq!(
        (
            desired.on_power_drift,
            desired.on_size_drift,
            desired.on_deletion
        ),
        (OnDrift::Report, OnDrift::Report, OnDrift::Report)
    );
}

#[test]
fn what_the_vm_says_goes_over_its_class() {
    let desired = World::default()
        .resolve(json!({"resources": {"cpu": 8, "memoryMiB": 4096}}))
        .expect("resolves");
    assert_eq!(
        (desired.vm.class.cpu, desired.vm.class.memory_mib),
        (8, 4096)
    );
    let only_cpu = World::default()
        .resolve(json!({"resources": {"cpu": 8}}))
        .expect("resolves");
    assert_eq!(
        (only_cpu.vm.class.cpu, only_cpu.vm.class.memory_mib),
        (8, 1536)
    );
}

#[test]
fn a_class_can_be_inline_and_secure_boot_means_uefi() {
    let world = World {
        class: None,
        ..World::default()
    };
    let inline = json!({"classRef": null, "class": {"cpu": 1, "memory": "1Gi", "securityProfile": {"secureBoot": true}}});
    let desired = world.resolve(inline).expect("resolves");
    assert_eq!(desired.vm.class.firmware, Firmware::Uefi);
    assert!(desired.vm.class.security.expect("a profile").secure_boot);
}

#[test]
fn what_is_missing_is_named_with_its_field() {
    let no_class = World {
        class: None,
        ..World::default()
    };
    let problem = no_class.resolve(json!({})).expect_err("no class");
    assert_eq!(
        (problem.reason, problem.field.as_str()),
        (Reason::WaitingForDependencies, "spec.classRef.name")
    );
    assert!(
        problem.message.contains("VMClass small does not exist"),
        "{problem}"
    );
    let no_image = World {
        image: None,
        ..World::default()
    };
    let problem = no_image.resolve(json!({})).expect_err("no image");
    assert_eq!(problem.field, "spec.imageRef.name");
    let no_network = World {
        network: None,
        ..World::default()
    };
    let two = json!({"networks": [{"name": "a"}, {"name": "b", "networkRef": {"name": "lan", "namespace": "infra"}}]});
    let problem = no_network.resolve(two).expect_err("no network");
    assert_eq!(problem.field, "spec.networks[1].networkRef.name");
    assert!(problem.message.contains("infra/lan"), "{problem}");
}

#[test]
fn a_network_is_read_for_the_provider_at_hand() {
    let nic = |provider: &str| {
        let world = World {
            provider: object("Provider", "p", &json!({"type": provider})),
            ..World::default()
        };
        let spec = json!({"networks": [{"name": "eth0", "networkRef": {"name": "lan"}, "macAddress": "52:54:00:00:00:01"}]});
        world.resolve(spec).expect("resolves").vm.networks.remove(0)
    };
    let libvirt = nic("libvirt");
    assert_eq!(
        (
            libvirt.bridge.as_str(),
            libvirt.network.as_str(),
            libvirt.vlan
        ),
        ("br0", "", 0)
    );
    let vsphere = nic("vsphere");
    assert_eq!(
        (
            vsphere.bridge.as_str(),
            vsphere.network.as_str(),
            vsphere.vlan
        ),
        ("", "PG", 7)
    );
    assert_eq!(vsphere.mac, "52:54:00:00:00:01");
}

#[test]
fn static_addresses_arrive_whole() {
    let spec = json!({"networks": [
        {"name": "a", "ipAddress": "10.0.0.5", "prefix": 22, "gateway": "10.0.0.1", "dns": "10.0.0.2, 10.0.0.3"},
        {"name": "b"},
    ]});
    let nics = World::default()
        .resolve(spec)
        .expect("resolves")
        .vm
        .networks;
    let address = nics[0].address.clone().expect("static");
    assert_eq!(
        (
            address.ip.as_str(),
            address.prefix,
            address.gateway.as_str()
        ),
        ("10.0.0.5", 22, "10.0.0.1")
    );
    assert_eq!(address.dns, ["10.0.0.2", "10.0.0.3"]);
    assert_eq!(nics[1].address, None);
}

#[test]
fn disks_keep_their_order_and_settings() {
    let spec = json!({"disks": [
        {"name": "data", "sizeGiB": 5, "type": "thick", "expandPolicy": "Online", "storageClass": "fast"},
        {"name": "logs", "sizeGiB": 1},
    ]});
    let disks = World::default().resolve(spec).expect("resolves").vm.disks;
    assert_eq!(
        (
            disks[0].name.as_str(),
            disks[0].size_gib,
            disks[0].disk_type
        ),
        ("data", 5, DiskType::Thick)
    );
    assert_eq!(
        (disks[0].expand_policy, disks[0].storage_class.as_str()),
        (ExpandPolicy::Online, "fast")
    );
    assert_eq!(
        (disks[1].disk_type, disks[1].expand_policy),
        (DiskType::Thin, ExpandPolicy::Offline)
    );
}

#[test]
fn placement_falls_back_to_the_providers_defaults() {
    let defaults = json!({"type": "vsphere", "defaults": {"datastore": "ds1", "cluster": "c1"}});
    let world = World {
        provider: object("Provider", "p", &defaults),
        ..World::default()
    };
    let desired = world
        .resolve(json!({"placement": {"datastore": "mine", "host": "h"}}))
        .expect("resolves");
    let placement = desired.vm.placement.expect("placed");
    assert_eq!(
        (
            placement.datastore.as_str(),
            placement.cluster.as_str(),
            placement.host.as_str()
        ),
        ("mine", "c1", "h")
    );
    assert_eq!(
        World::default()
            .resolve(json!({}))
            .expect("resolves")
            .vm
            .placement,
        None
    );
}

#[test]
fn policies_are_read() {
    let spec = json!({
        "powerState": "OffGraceful",
        "lifecycle": {"gracefulShutdownTimeout": "1m30s"},
        "driftPolicy": {"power": "Correct", "deletion": "Recreate"},
        "reconfigurePolicy": {"restart": "WhenNeeded"},
    });
    let desired = World::default().resolve(spec).expect("resolves");
    assert_eq!(desired.power, DesiredPower::OffGraceful);
    assert_eq!(desired.graceful_timeout, Duration::from_secs(90));
    assert_eq!(
        (
            desired.on_power_drift,
            desired.on_size_drift,
            desired.on_deletion
        ),
        (OnDrift::Correct, OnDrift::Report, OnDrift::Correct)
    );
    assert_eq!(desired.restart, RestartPolicy::WhenNeeded);
}

#[test]
fn a_vm_of_another_namespace_gets_its_namespace_in_the_name() {
    let spec = json!({"providerRef": {"name": "p", "namespace": "infra"}});
    assert_eq!(
        World::default().resolve(spec).expect("resolves").vm.name,
        "team.web"
    );
    let same = json!({"providerRef": {"name": "p", "namespace": "team"}});
    assert_eq!(
        World::default().resolve(same).expect("resolves").vm.name,
        "web"
    );
}

#[test]
fn an_image_to_import_is_waited_for() {
    let image = object(
        "VMImage",
        "debian",
        &json!({"source": {"http": {"url": "http://a/b.qcow2"}}}),
    );
    let capabilities = Capabilities {
        image_import: true,
        ..Capabilities::default()
    };
    let world = World {
        image: Some(image),
        capabilities,
        ..World::default()
    };
    let desired = world.resolve(json!({})).expect("resolves");
    assert!(matches!(desired.image, ImageReadiness::Waiting(what) if what.contains("debian")));
}

#[test]
fn an_imported_disk_needs_no_image() {
    let spec = json!({"imageRef": null, "importedDisk": {"diskID": "d1", "format": "raw"}});
    let desired = World::default().resolve(spec).expect("resolves");
    assert_eq!(desired.vm.image.path, "/var/lib/libvirt/images/d1.raw");
}
