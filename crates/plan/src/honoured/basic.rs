//! What `provider.v1` can carry.

/// The fields that a server of `provider.v1` without extensions gets to see, and so may act on. A provider that does not tell
/// which fields it honours is taken to honour these.
///
/// Not among them: Ignition and network configurations (it takes user data and metadata only), storage classes and growth of
/// disks, resource pools, GPUs, packet sizes, and everything of a network beyond where to plug in and a fixed address.
pub const BASIC_PROVIDER: &[&str] = &[
    "spec.disks[].type",
    "spec.disks[].scsi",
    "spec.networks[].macAddress",
    "spec.networks[].ipAddress",
    "spec.networks[].gateway",
    "spec.networks[].dns",
    "spec.userData.cloudInit",
    "spec.metaData.cloudInit",
    "spec.placement.cluster",
    "spec.placement.host",
    "spec.placement.datastore",
    "spec.placement.storagePod",
    "spec.placement.folder",
    "spec.tags",
    "spec.snapshot.revertToRef",
    "class.firmware",
    "class.diskDefaults.type",
    "class.diskDefaults.size",
    "class.guestToolsPolicy",
    "class.extraConfig",
    "class.resourceLimits.*",
    "class.performanceProfile.*",
    "class.securityProfile.*",
    "network.vsphere.portgroup",
    "network.vsphere.vlan.vlanID",
    "network.vsphere.adapterType",
    "network.vsphere.pciSlotNumber",
    "network.libvirt.networkName",
    "network.libvirt.bridge.name",
    "network.libvirt.model",
    "network.proxmox.bridge",
    "network.proxmox.model",
    "network.proxmox.vlanTag",
    "network.ipAllocation.staticConfig.address",
    "network.ipAllocation.staticConfig.gateway",
    "network.ipAllocation.dnsConfig.servers",
];
