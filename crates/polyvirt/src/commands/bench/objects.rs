//! The objects that the bench declares: what a user of some experience would.

use serde_json::{Value, json};

/// Where everything is that the manager looks after.
pub const NAMESPACE: &str = "bench";
/// Where the floor is measured; the manager is told to leave it alone.
pub const SCRATCH: &str = "bench-floor";
/// The VM for which the image is prepared, before anything is measured.
pub const FIRST_VM: &str = "warm-up";

const API_VERSION: &str = "infra.virtrigaud.io/v1beta1";

/// The name of a VM by its number.
pub fn vm_name(number: usize) -> String {
    format!("vm-{number:05}")
}

/// What VMs refer to: a provider at an address, a class, an image and a network, with the plural of each.
pub fn surroundings(provider_address: &str) -> [(&'static str, Value); 4] {
    [
        (
            "providers",
            object("Provider", "hypervisor", &provider(provider_address)),
        ),
        (
            "vmclasses",
            object("VMClass", "small", &json!({"cpu": 2, "memory": "2Gi"})),
        ),
        ("vmimages", object("VMImage", "debian-12", &image())),
        (
            "vmnetworkattachments",
            object("VMNetworkAttachment", "lan", &network()),
        ),
    ]
}

fn provider(address: &str) -> Value {
    json!({
        "type": "mock",
        "endpoint": address,
        "runtime": {"mode": "External", "service": {"tls": {"enabled": false}}},
    })
}

fn image() -> Value {
    json!({"source": {"http": {"url": "https://images.example.com/debian-12.qcow2"}}})
}

fn network() -> Value {
    json!({"network": {"type": "bridged", "libvirt": {"bridge": {"name": "br0"}}}})
}

/// A VM with a disk, a network and user data.
pub fn vm(namespace: &str, name: &str) -> Value {
    let spec = json!({
        "providerRef": {"name": "hypervisor"},
        "classRef": {"name": "small"},
        "imageRef": {"name": "debian-12"},
        "powerState": "On",
        "networks": [{"name": "eth0", "networkRef": {"name": "lan"}}],
        "disks": [{"name": "data", "sizeGiB": 10}],
        "userData": {"cloudInit": {"inline": format!("#cloud-config\nhostname: {name}\npackages: [nginx]\n")}},
    });
    let mut vm = object("VirtualMachine", name, &spec);
    vm["metadata"]["namespace"] = json!(namespace);
    vm["metadata"]["labels"] = json!({"app": "web", "team": "bench"});
    vm
}

/// An object of the bench's own namespace.
pub fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use polyvirt_api::infra::{Provider, VMClass, VMImage, VMNetworkAttachment, VirtualMachine};

    use super::*;

    #[test]
    fn the_objects_are_of_their_types() {
        let [provider, class, image, network] =
            surroundings("127.0.0.1:1").map(|(_, object)| object);
        serde_json::from_value::<Provider>(provider).expect("a Provider");
        serde_json::from_value::<VMClass>(class).expect("a VMClass");
        serde_json::from_value::<VMImage>(image).expect("a VMImage");
        serde_json::from_value::<VMNetworkAttachment>(network).expect("a VMNetworkAttachment");
        serde_json::from_value::<VirtualMachine>(vm(NAMESPACE, &vm_name(7)))
            .expect("a VirtualMachine");
    }
}
