//! What the provider says it can do. It says no more than it does.

use polyvirt_contract::{Capabilities, Extension, Features};

/// Fields of the VirtualMachine, its class and its networks that act here.
///
/// Not among them: where on a hypervisor (there is one host and one datastore), reservations and limits, TPM and encryption,
/// and everything of other hypervisors' networks beyond bridge, VLAN and model.
const HONOURED: &[&str] = &[
    "spec.disks[].expandPolicy",
    "spec.disks[].name",
    "spec.disks[].sizeGiB",
    "spec.disks[].type",
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
    "class.securityProfile.secureBoot",
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

/// The fields that act here, as the provider reports them.
pub fn honoured_fields() -> Vec<&'static str> {
    HONOURED.to_vec()
}

/// VMs are processes of this machine, and there is no other that they could be moved to.
pub(crate) fn features() -> Features {
    let can = |extension: &Extension| *extension != Extension::Migrate;
    Features {
        provider_type: "qemu".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        extensions: Extension::ALL.into_iter().filter(can).collect(),
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
        network_types: words(&["user", "bridge"]),
        ..Capabilities::default()
    }
}
