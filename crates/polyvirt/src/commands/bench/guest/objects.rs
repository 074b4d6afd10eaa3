//! The objects of the guests.

use std::path::Path;

use serde_json::{Value, json};

use crate::commands::bench::objects::object;

/// What the guests refer to, with the plural of each kind: one image that boots and one that is blank.
pub fn surroundings(provider: &str, guest: &Path, blank: &Path) -> [(&'static str, Value); 6] {
    let provider = json!({
        "type": "qemu",
        "endpoint": provider,
        "runtime": {"mode": "External", "service": {"tls": {"enabled": false}}},
    });
    let class = |memory: &str| json!({"cpu": 1, "memory": memory});
    let image = |path: &Path| json!({"source": {"libvirt": {"path": path, "format": "qcow2"}}});
    let network = json!({"network": {"libvirt": {"networkName": "user"}}});
    [
        ("providers", object("Provider", "qemu", &provider)),
        ("vmclasses", object("VMClass", "guest", &class("256Mi"))),
        ("vmclasses", object("VMClass", "blank", &class("128Mi"))),
        ("vmimages", object("VMImage", "guest", &image(guest))),
        ("vmimages", object("VMImage", "blank", &image(blank))),
        (
            "vmnetworkattachments",
            object("VMNetworkAttachment", "user", &network),
        ),
    ]
}

/// A VM whose class and image have this name.
pub fn vm(kind: &str, name: &str) -> Value {
    let spec = json!({
        "providerRef": {"name": "qemu"},
        "classRef": {"name": kind},
        "imageRef": {"name": kind},
        "powerState": "On",
        "networks": [{"name": "eth0", "networkRef": {"name": "user"}}],
        "userData": {"cloudInit": {"inline": "#cloud-config\nhostname: bench\n"}},
    });
    object("VirtualMachine", name, &spec)
}

#[cfg(test)]
mod tests {
    use polyvirt_api::infra::{Provider, VMClass, VMImage, VMNetworkAttachment, VirtualMachine};

    use super::*;

    #[test]
    fn the_objects_are_of_their_types() {
        let [provider, class, _, image, _, network] =
            surroundings("127.0.0.1:1", Path::new("/a"), Path::new("/b")).map(|(_, o)| o);
        serde_json::from_value::<Provider>(provider).expect("a Provider");
        serde_json::from_value::<VMClass>(class).expect("a VMClass");
        serde_json::from_value::<VMImage>(image).expect("a VMImage");
        serde_json::from_value::<VMNetworkAttachment>(network).expect("a VMNetworkAttachment");
        serde_json::from_value::<VirtualMachine>(vm("guest", "a")).expect("a VirtualMachine");
    }
}
