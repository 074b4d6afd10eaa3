//! What the provider says it can do. It says no more than it does.

use std::collections::BTreeSet;

use polyvirt_contract::{Capabilities, Extension, Features};

/// Fields of the VirtualMachine, its class and its networks that act here.
const HONOURED: &[&str] = &[
    "spec.disks[].expandPolicy",
    "spec.disks[].name",
    "spec.disks[].sizeGiB",
    "spec.disks[].storageClass",
    "spec.disks[].type",
    "spec.imageRef",
    "spec.imageRef.*",
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
    "spec.placement.datastore",
    "spec.placement.host",
    "spec.powerState",
    "spec.resources.cpu",
    "spec.resources.memoryMiB",
    "spec.snapshot.revertToRef",
    "spec.tags",
    "spec.tags[]",
    "spec.userData.*",
    "class.cpu",
    "class.diskDefaults.size",
    "class.extraConfig",
    "class.firmware",
    "class.memory",
    "class.performanceProfile.cpuHotAddEnabled",
    "class.performanceProfile.memoryHotAddEnabled",
    "class.performanceProfile.nestedVirtualization",
    "class.resourceLimits.cpuLimit",
    "class.resourceLimits.cpuShares",
    "class.resourceLimits.memoryLimit",
    "class.securityProfile.secureBoot",
    "class.securityProfile.tpmEnabled",
    "class.securityProfile.tpmVersion",
    "class.securityProfile.vtdEnabled",
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
    "network.vsphere.vlan.vlanID",
];

pub(crate) fn features() -> Features {
    Features {
        provider_type: "libvirt".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        extensions: BTreeSet::from(Extension::ALL),
        honoured_fields: Some(HONOURED.iter().map(ToString::to_string).collect()),
    }
}

pub(crate) fn capabilities() -> Capabilities {
    let words = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    Capabilities {
        reconfigure_online: true,
        disk_expansion_online: true,
        snapshots: true,
        memory_snapshots: true,
        linked_clones: true,
        image_import: true,
        disk_types: words(&["thin", "thick"]),
        network_types: words(&["user", "bridge", "network"]),
        ..Capabilities::default()
    }
}
