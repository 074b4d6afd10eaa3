//! The table of fields.

/// A field, or a group of fields that act together, which needs a provider's help.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its path.
    pub path: &'static str,
    /// When it is in use.
    pub counts: Counts,
}

/// When a field is in use.
#[derive(Clone, Copy, Debug)]
pub enum Counts {
    /// Whenever it has a value.
    WhenSet,
    /// When it has a value other than these, which are what it does by default.
    Unless(&'static [&'static str]),
    /// When its member `enabled` is true.
    WhenEnabled,
}

const fn set(path: &'static str) -> Field {
    Field {
        path,
        counts: Counts::WhenSet,
    }
}

const fn unless(path: &'static str, words: &'static [&'static str]) -> Field {
    Field {
        path,
        counts: Counts::Unless(words),
    }
}

const fn enabled(path: &'static str) -> Field {
    Field {
        path,
        counts: Counts::WhenEnabled,
    }
}

const OFF: &[&str] = &["false"];
const ON: &[&str] = &["true"];

/// All fields that do nothing unless a provider acts on them.
pub const FIELDS: &[Field] = &[
    unless("spec.imagePullPolicy", &["IfNotPresent"]),
    set("spec.resources.gpu"),
    set("spec.resources.devices"),
    unless("spec.disks[].type", &["thin"]),
    set("spec.disks[].storageClass"),
    unless("spec.disks[].expandPolicy", &["Offline"]),
    set("spec.disks[].scsi"),
    set("spec.networks[].macAddress"),
    set("spec.networks[].ipAddress"),
    set("spec.networks[].gateway"),
    set("spec.networks[].dns"),
    set("spec.userData.cloudInit"),
    set("spec.userData.ignition"),
    set("spec.metaData.cloudInit"),
    set("spec.networkData.cloudInit"),
    set("spec.placement.cluster"),
    set("spec.placement.host"),
    set("spec.placement.datastore"),
    set("spec.placement.storagePod"),
    set("spec.placement.folder"),
    set("spec.placement.resourcePool"),
    set("spec.tags"),
    set("spec.snapshot.revertToRef"),
    unless("class.firmware", &["BIOS"]),
    unless("class.diskDefaults.type", &["thin"]),
    unless("class.diskDefaults.size", &["40Gi"]),
    set("class.diskDefaults.storageClass"),
    set("class.diskDefaults.iops"),
    unless("class.guestToolsPolicy", &["install"]),
    set("class.extraConfig"),
    set("class.resourceLimits.cpuLimit"),
    set("class.resourceLimits.cpuReservation"),
    set("class.resourceLimits.cpuShares"),
    set("class.resourceLimits.memoryLimit"),
    set("class.resourceLimits.memoryReservation"),
    unless("class.performanceProfile.cpuHotAddEnabled", OFF),
    unless("class.performanceProfile.memoryHotAddEnabled", OFF),
    unless("class.performanceProfile.nestedVirtualization", OFF),
    unless("class.performanceProfile.virtualizationBasedSecurity", OFF),
    unless("class.performanceProfile.latencySensitivity", &["normal"]),
    unless("class.performanceProfile.hyperThreadingPolicy", &["auto"]),
    unless("class.securityProfile.secureBoot", OFF),
    unless("class.securityProfile.tpmEnabled", OFF),
    set("class.securityProfile.tpmVersion"),
    unless("class.securityProfile.vtdEnabled", OFF),
    unless("class.securityProfile.encryptionPolicy.enabled", OFF),
    set("class.securityProfile.encryptionPolicy.keyProvider"),
    unless(
        "class.securityProfile.encryptionPolicy.requireEncryption",
        OFF,
    ),
    unless("network.type", &["bridged"]),
    unless("network.mtu", &["1500"]),
    set("network.vsphere.portgroup"),
    set("network.vsphere.distributedSwitch"),
    // With `vlan`, vlanID says it all.
    unless("network.vsphere.vlan.type", &["none", "vlan"]),
    set("network.vsphere.vlan.vlanID"),
    set("network.vsphere.vlan.primaryVlanID"),
    set("network.vsphere.vlan.secondaryVlanID"),
    set("network.vsphere.vlan.trunkVlanIDs"),
    unless("network.vsphere.adapterType", &["vmxnet3"]),
    set("network.vsphere.pciSlotNumber"),
    unless("network.vsphere.security.allowPromiscuous", OFF),
    unless("network.vsphere.security.allowMACChanges", ON),
    unless("network.vsphere.security.allowForgedTransmits", ON),
    enabled("network.vsphere.trafficShaping"),
    set("network.libvirt.networkName"),
    set("network.libvirt.bridge.name"),
    unless("network.libvirt.bridge.stp", OFF),
    set("network.libvirt.bridge.delay"),
    unless("network.libvirt.model", &["virtio"]),
    set("network.libvirt.driver"),
    set("network.libvirt.filterRef"),
    set("network.proxmox.bridge"),
    unless("network.proxmox.model", &["virtio"]),
    set("network.proxmox.vlanTag"),
    unless("network.proxmox.firewall", OFF),
    set("network.proxmox.rateLimit"),
    set("network.proxmox.mtu"),
    // With `Static`, staticConfig says it all.
    unless("network.ipAllocation.type", &["DHCP", "Static"]),
    set("network.ipAllocation.staticConfig.address"),
    set("network.ipAllocation.staticConfig.gateway"),
    set("network.ipAllocation.staticConfig.routes"),
    set("network.ipAllocation.poolConfig"),
    set("network.ipAllocation.dhcpConfig"),
    set("network.ipAllocation.dnsConfig.servers"),
    set("network.ipAllocation.dnsConfig.searchDomains"),
    set("network.ipAllocation.dnsConfig.options"),
    enabled("network.security.firewall"),
    unless("network.security.isolation.mode", &["none"]),
    set("network.security.isolation.allowedNetworks"),
    set("network.security.isolation.deniedNetworks"),
    enabled("network.security.encryption"),
    set("network.qos.ingressLimit"),
    set("network.qos.egressLimit"),
    set("network.qos.priority"),
    set("network.qos.dscp"),
];

/// Fields that act without a provider's consent: the engine does what they say, or refuses the object; or they are the size
/// and the names, which every provider takes by contract.
pub const ENGINE_FIELDS: &[&str] = &[
    "spec.providerRef",
    "spec.classRef",
    // Judged as `class`.
    "spec.class",
    // Judged where it is named.
    "class.consumerNamespaceSelector",
    "spec.imageRef",
    "spec.image",
    "spec.importedDisk",
    "spec.powerState",
    "spec.resources.cpu",
    "spec.resources.memoryMiB",
    "spec.disks[].name",
    "spec.disks[].sizeGiB",
    "spec.networks[].name",
    "spec.networks[].networkRef",
    // A part of the address.
    "spec.networks[].prefix",
    // The scheduler acts on them, where the provider tells of its hosts.
    "spec.placement.nodeSelector",
    "spec.placement.affinity",
    "spec.placementRef",
    "spec.lifecycle.gracefulShutdownTimeout",
    "spec.lifecycle.preStart.exec",
    "spec.lifecycle.preStart.httpGet",
    "spec.lifecycle.preStart.snapshot",
    "spec.lifecycle.preStart.timeoutSeconds",
    "spec.lifecycle.preStart.failurePolicy",
    "spec.lifecycle.postStart.exec",
    "spec.lifecycle.postStart.httpGet",
    "spec.lifecycle.postStart.snapshot",
    "spec.lifecycle.postStart.timeoutSeconds",
    "spec.lifecycle.postStart.failurePolicy",
    "spec.lifecycle.preStop.exec",
    "spec.lifecycle.preStop.httpGet",
    "spec.lifecycle.preStop.snapshot",
    "spec.lifecycle.preStop.timeoutSeconds",
    "spec.lifecycle.preStop.failurePolicy",
    "spec.deletionPolicy",
    "spec.driftPolicy",
    "spec.reconfigurePolicy",
    "class.cpu",
    "class.memory",
    // For people.
    "network.metadata",
];
