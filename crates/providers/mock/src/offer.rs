//! What the mock says it can do. It says no more than it does.

use std::collections::BTreeSet;

use polyvirt_contract::{Capabilities, Extension, Features};

use crate::config::{Offer, Resize};

/// Fields of the VirtualMachine and its class that change something one can see in the mock.
const HONOURED: &[&str] = &[
    "spec.powerState",
    "spec.imageRef",
    "spec.imageRef.*",
    "spec.importedDisk.path",
    "spec.resources.cpu",
    "spec.resources.memoryMiB",
    "spec.disks[].name",
    "spec.disks[].sizeGiB",
    "spec.disks[].expandPolicy",
    "spec.networks[].name",
    "spec.networks[].networkRef",
    "spec.networks[].networkRef.*",
    "spec.networks[].macAddress",
    "spec.networks[].ipAddress",
    "spec.placement.host",
    "spec.tags",
    "spec.tags[]",
    "spec.userData.*",
    "spec.metaData.*",
    "spec.networkData.*",
    "class.cpu",
    "class.memory",
    "class.firmware",
    "class.diskDefaults.size",
    "class.performanceProfile.cpuHotAddEnabled",
    "class.performanceProfile.memoryHotAddEnabled",
];

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
