//! What the mock says it can do. It says no more than it does.

use std::collections::BTreeSet;

use polyvirt_contract::{Capabilities, Extension, Features};

use crate::config::{Offer, Resize};

/// Fields of the VirtualMachine, its class and its networks that change something one can see in the mock.
const HONOURED: &[&str] = &[
    "spec.disks[].expandPolicy",
    "spec.disks[].name",
    "spec.disks[].sizeGiB",
    "spec.imageRef",
    "spec.imageRef.*",
    "spec.imagePullPolicy",
    "spec.importedDisk.path",
    "spec.metaData.*",
    "spec.networkData.*",
    "spec.networks[].dns",
    "spec.networks[].gateway",
    "spec.networks[].ipAddress",
    "spec.networks[].macAddress",
    "spec.networks[].name",
    "spec.networks[].networkRef",
    "spec.networks[].networkRef.*",
    "spec.networks[].prefix",
    "spec.placement.host",
    "spec.powerState",
    "spec.resources.cpu",
    "spec.resources.devices",
    "spec.resources.gpu",
    "spec.resources.memoryMiB",
    "spec.snapshot.revertToRef",
    "spec.tags",
    "spec.tags[]",
    "spec.userData.*",
    "class.cpu",
    "class.diskDefaults.size",
    "class.firmware",
    "class.memory",
    "class.performanceProfile.cpuHotAddEnabled",
    "class.performanceProfile.memoryHotAddEnabled",
    "network.ipAllocation.dnsConfig.servers",
    "network.ipAllocation.staticConfig.address",
    "network.ipAllocation.staticConfig.gateway",
    "network.libvirt.bridge.name",
    "network.libvirt.model",
    "network.libvirt.networkName",
    "network.mtu",
    "network.proxmox.bridge",
    "network.proxmox.model",
    "network.proxmox.vlanTag",
    "network.vsphere.adapterType",
    "network.vsphere.pciSlotNumber",
    "network.vsphere.portgroup",
    "network.vsphere.vlan.vlanID",
];

/// The fields that act here, as the provider reports them.
pub fn honoured_fields() -> Vec<&'static str> {
    HONOURED.to_vec()
}

pub(crate) fn features(offer: Offer) -> Features {
    match offer {
        Offer::Basic => Features::default(),
        Offer::Full => Features {
            provider_type: "mock".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            extensions: BTreeSet::from(Extension::ALL),
            honoured_fields: Some(HONOURED.iter().map(ToString::to_string).collect()),
        },
    }
}

pub(crate) fn capabilities(resize: Resize) -> Capabilities {
    let words = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    Capabilities {
        reconfigure_online: resize == Resize::Online,
        disk_expansion_online: true,
        snapshots: true,
        memory_snapshots: true,
        linked_clones: true,
        image_import: true,
        disk_types: words(&["thin"]),
        network_types: words(&["mock"]),
        disk_export: true,
        disk_import: true,
        export_formats: words(&["raw"]),
        import_formats: words(&["raw"]),
        export_compression: false,
        export_backends: words(&["pvc"]),
        import_backends: words(&["pvc"]),
        transfer_modes: words(&["relay"]),
    }
}
