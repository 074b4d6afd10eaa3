//! What the provider says it can do. It says no more than it does.

use polyvirt_contract::{Capabilities, Extension, Features};

/// Fields of the VirtualMachine, its class and its networks that act here.
const HONOURED: &[&str] = &[
    "spec.disks[].expandPolicy",
    "spec.disks[].name",
    "spec.disks[].sizeGiB",
    "spec.disks[].storageClass",
    "spec.disks[].type",
    "spec.imagePullPolicy",
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
    "spec.resources.devices",
    "spec.resources.gpu",
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

/// The fields that act here, as the provider reports them.
pub fn honoured_fields() -> Vec<&'static str> {
    HONOURED.to_vec()
}

/// What can be done with VMs depends on how many hosts there are: one alone has nowhere to move them to.
pub(crate) fn features(hosts: usize) -> Features {
    let can = |extension: &Extension| hosts > 1 || *extension != Extension::Migrate;
    Features {
        provider_type: "libvirt".to_owned(),
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
        network_types: words(&["user", "bridge", "network"]),
        ..Capabilities::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list of all fields. As text, for the crate would bring half the program along.
    const LIST: &str = include_str!("../../../plan/src/honoured/fields.rs");

    /// Paths between these two words.
    fn paths(begin: &str, end: &str) -> Vec<&'static str> {
        let (_, rest) = LIST.split_once(begin).expect("the list");
        let (list, _) = rest.split_once(end).expect("its end");
        let known = ["spec.", "class.", "network."];
        let quoted = list.split('"').skip(1).step_by(2);
        quoted
            .filter(|text| known.iter().any(|k| text.starts_with(k)))
            .collect()
    }

    /// Fields that do nothing here, by what they belong to. A field that is new must be put on one of the two lists.
    const NOT_HONOURED: &[&str] = &[
        // Hosts without clusters and folders.
        "spec.placement.cluster",
        "spec.placement.folder",
        "spec.placement.resourcePool",
        "spec.placement.storagePod",
        // libvirt has no reservations for QEMU, and no guest tools to install.
        "class.resourceLimits.cpuReservation",
        "class.resourceLimits.memoryReservation",
        "class.guestToolsPolicy",
        "class.performanceProfile.hyperThreadingPolicy",
        "class.performanceProfile.latencySensitivity",
        "class.performanceProfile.virtualizationBasedSecurity",
        "class.securityProfile.encryptionPolicy.enabled",
        "class.securityProfile.encryptionPolicy.keyProvider",
        "class.securityProfile.encryptionPolicy.requireEncryption",
        // The contract carries only size for the first disk, and no SCSI places for libvirt.
        "class.diskDefaults.iops",
        "class.diskDefaults.storageClass",
        "class.diskDefaults.type",
        "spec.disks[].scsi",
        // The contract does not carry them.
        "spec.lifecycle.",
        "network.type",
        "network.libvirt.bridge.delay",
        "network.libvirt.bridge.stp",
        "network.libvirt.driver",
        "network.libvirt.filterRef",
        "network.ipAllocation.dhcpConfig",
        "network.ipAllocation.dnsConfig.options",
        "network.ipAllocation.dnsConfig.searchDomains",
        "network.ipAllocation.poolConfig",
        "network.ipAllocation.staticConfig.routes",
        "network.ipAllocation.type",
        "network.qos.",
        "network.security.",
        // Of other hypervisors.
        "network.proxmox.firewall",
        "network.proxmox.mtu",
        "network.proxmox.rateLimit",
        "network.vsphere.distributedSwitch",
        "network.vsphere.pciSlotNumber",
        "network.vsphere.portgroup",
        "network.vsphere.security.",
        "network.vsphere.trafficShaping",
        "network.vsphere.vlan.primaryVlanID",
        "network.vsphere.vlan.secondaryVlanID",
        "network.vsphere.vlan.trunkVlanIDs",
        "network.vsphere.vlan.type",
    ];

    #[test]
    fn one_host_alone_moves_nothing() {
        assert!(!features(1).has(Extension::Migrate));
        assert!(features(2).has(Extension::Migrate));
    }

    #[test]
    fn every_field_acts_or_is_said_not_to() {
        let features = features(1);
        let listed = |path: &str| {
            let named = |entry: &&&str| {
                **entry == path || entry.ends_with('.') && path.starts_with(**entry)
            };
            NOT_HONOURED.iter().any(|entry| named(&entry))
        };
        let fields = paths("const FIELDS", "\n];");
        assert!(fields.len() > 80, "the list has another form now");
        for path in &fields {
            let (acts, not) = (features.honours(path), listed(path));
            assert!(acts != not, "{path}: acts {acts}, said not to {not}");
        }
        let engine = paths("const ENGINE_FIELDS", "\n];");
        for entry in HONOURED {
            let path = entry.trim_end_matches(".*").trim_end_matches("[]");
            let known = fields.iter().any(|field| field.starts_with(path))
                || engine.iter().any(|field| path.starts_with(field));
            assert!(known, "{entry} is no field");
        }
    }
}
