//! Manifests that most tests begin with.

use k8s_openapi::api::core::v1::Secret;
use polyvirt_api::infra::{
    Provider, VMClass, VMImage, VMNetworkAttachment, VMSnapshot, VirtualMachine,
};
use serde_json::json;

use super::world::{HYPERVISOR, Manifest};

/// The class of most VMs: 2 CPUs, 2 GiB.
pub const SMALL: &str = "small";
/// The image of most VMs: one that the hypervisor has.
pub const TEMPLATE: &str = "base";

/// A Provider whose health is looked at every second; one failed look is enough.
pub fn provider(name: &str) -> Manifest<Provider> {
    let check = json!({"interval": "1s", "timeout": "10s", "failureThreshold": 1});
    Manifest::new(
        name,
        json!({"type": "mock", "runtime": {"mode": "InProcess"}, "healthCheck": check}),
    )
}

/// 2 CPUs, 2 GiB.
pub fn class(name: &str) -> Manifest<VMClass> {
    Manifest::new(name, json!({"cpu": 2, "memory": "2Gi"}))
}

/// An image that the hypervisor has.
pub fn template(name: &str) -> Manifest<VMImage> {
    let source = json!({"libvirt": {"path": format!("/images/{name}.qcow2")}});
    Manifest::new(name, json!({ "source": source }))
}

/// An image that must be brought to the hypervisor.
pub fn download(name: &str) -> Manifest<VMImage> {
    let source = json!({"http": {"url": format!("https://images.example.com/{name}.qcow2")}});
    Manifest::new(name, json!({ "source": source }))
}

/// A bridge.
pub fn network(name: &str) -> Manifest<VMNetworkAttachment> {
    let bridge = json!({"type": "bridged", "libvirt": {"networkName": name, "model": "virtio"}});
    Manifest::new(name, json!({ "network": bridge }))
}

/// A VM of the usual class, image and hypervisor that is to run.
pub fn vm(name: &str) -> Manifest<VirtualMachine> {
    Manifest::new(
        name,
        json!({
            "providerRef": {"name": HYPERVISOR},
            "classRef": {"name": SMALL},
            "imageRef": {"name": TEMPLATE},
            "powerState": "On",
        }),
    )
}

/// A snapshot of a VM.
pub fn snapshot(name: &str, vm: &str) -> Manifest<VMSnapshot> {
    Manifest::new(name, json!({"vmRef": {"name": vm}}))
}

/// A Secret with one key.
pub fn secret(name: &str, key: &str, value: &str) -> Manifest<Secret> {
    Manifest::new(name, json!(null)).changed(json!({"spec": null, "stringData": {key: value}}))
}
