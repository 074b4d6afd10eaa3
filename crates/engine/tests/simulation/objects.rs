//! The manifests that simulated people write.

use std::collections::BTreeMap;

use bytes::Bytes;
use polyvirt_engine::cluster::SecretData;
use polyvirt_engine::runtime::key::{Key, Kind, ObjectKey};
use serde_json::{Value, json};

use crate::rng::Rng;

/// The namespace of the Provider, and of half of the VMs.
pub const LAB: &str = "lab";
pub const TEAM: &str = "team";
/// The Secret that user data comes from, in each namespace.
pub const SECRET: &str = "first-boot";

pub fn provider_key() -> ObjectKey {
    ObjectKey::new(LAB, "prov")
}

pub fn vm(namespace: &str, name: &str) -> Key {
    Key::new(Kind::VirtualMachine, ObjectKey::new(namespace, name))
}

pub fn class() -> Key {
    Key::new(Kind::VMClass, ObjectKey::new(LAB, "small"))
}

pub fn image() -> Key {
    Key::new(Kind::VMImage, ObjectKey::new(LAB, "base"))
}

pub fn network() -> Key {
    Key::new(Kind::VMNetworkAttachment, ObjectKey::new(LAB, "lan"))
}

pub fn provider() -> Value {
    json!({"metadata": {}, "spec": {"type": "mock", "runtime": {"mode": "InProcess"}, "consumerNamespaceSelector": {}}})
}

pub fn class_manifest(cpu: u32, gibibytes: u32) -> Value {
    json!({"metadata": {}, "spec": {"cpu": cpu, "memory": format!("{gibibytes}Gi"), "consumerNamespaceSelector": {}}})
}

pub fn network_manifest() -> Value {
    json!({"metadata": {}, "spec": {"network": {"libvirt": {"networkName": "default"}}}})
}

/// An image that must be brought in. A broken one has a checksum that no file has.
pub fn image_manifest(number: u64, broken: bool) -> Value {
    let url = format!("http://images.test/base-{number}.qcow2");
    let checksum = if broken { "bad" } else { "ab" };
    json!({"metadata": {}, "spec": {"source": {"http": {"url": url, "checksum": checksum}}, "consumerNamespaceSelector": {}}})
}

pub fn user_data(text: &str) -> SecretData {
    let document = format!("#cloud-config\nhostname: {text}\n");
    BTreeMap::from([("user-data".to_owned(), Bytes::from(document))])
}

/// The least that makes a VM.
pub fn plain_vm() -> Value {
    json!({"metadata": {}, "spec": {
        "providerRef": {"name": "prov", "namespace": LAB},
        "classRef": {"name": "small", "namespace": LAB},
        "image": {"libvirt": {"path": "/images/base.qcow2"}},
        "lifecycle": {"gracefulShutdownTimeout": "20s"},
    }})
}

/// A VM as somebody might want it.
pub fn any_vm(rng: &mut Rng) -> Value {
    let mut object = plain_vm();
    let spec = &mut object["spec"];
    if rng.percent(30) {
        spec.as_object_mut().map(|spec| spec.remove("classRef"));
        spec["class"] = json!({"cpu": rng.between(1, 4), "memory": "2Gi"});
    }
    if rng.percent(50) {
        spec.as_object_mut().map(|spec| spec.remove("image"));
        spec["imageRef"] = json!({"name": "base", "namespace": LAB});
    }
    if rng.percent(40) {
        spec["userData"] = json!({"cloudInit": {"secretRef": {"name": SECRET}}});
    }
    if rng.percent(40) {
        spec["powerState"] = json!(rng.pick(&["On", "Off", "OffGraceful"]));
    }
    if rng.percent(30) {
        spec["resources"] = json!({"cpu": rng.between(1, 6)});
    }
    let disks: Vec<_> = (0..rng.below(3))
        .map(|n| disk(&format!("data-{n}"), rng))
        .collect();
    spec["disks"] = json!(disks);
    let cards: Vec<_> = (0..rng.below(3)).map(|n| card(n, rng)).collect();
    spec["networks"] = json!(cards);
    policies(spec, rng);
    object
}

pub fn disk(name: &str, rng: &mut Rng) -> Value {
    let policy = rng.pick(&["Online", "Offline"]);
    json!({"name": name, "sizeGiB": rng.between(1, 20), "expandPolicy": policy})
}

pub fn card(number: u64, rng: &mut Rng) -> Value {
    let mut card = json!({"name": format!("eth{number}")});
    if rng.percent(40) {
        card["networkRef"] = json!({"name": "lan", "namespace": LAB});
    }
    card
}

pub fn policies(spec: &mut Value, rng: &mut Rng) {
    match rng.below(5) {
        0 => spec["deletionPolicy"] = json!("Retain"),
        1 => spec["deletionPolicy"] = json!("Delete"),
        _ => {}
    }
    if rng.percent(50) {
        spec["driftPolicy"] = json!({
            "power": rng.pick(&["Report", "Correct"]),
            "size": rng.pick(&["Report", "Correct"]),
            "deletion": rng.pick(&["Report", "Recreate"]),
        });
    }
    if rng.percent(50) {
        spec["reconfigurePolicy"] = json!({"restart": rng.pick(&["Never", "WhenNeeded"])});
    }
}
