//! What only KubeVirt knows of a VM: one entry of `class.extraConfig`, as JSON.
//!
//! The Viti Stack API says things that no other hypervisor has a word for (which PersistentVolumeClaim is a disk, what a
//! VirtualMachine is called in its cluster). They travel with the class, like all that one hypervisor alone understands.
//! A user of the infra API may write them too.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the provider tells of a VM beside what every hypervisor knows: keys of `VirtualMachine.status.provider`.
pub mod details {
    /// The word of KubeVirt for the state of the VM.
    pub const PRINTABLE_STATUS: &str = "kubevirt.printableStatus";
    /// The phase of the running instance.
    pub const PHASE: &str = "kubevirt.phase";
    /// The claim of the first disk.
    pub const ROOT_CLAIM: &str = "kubevirt.rootClaim";
    /// The StorageClass of that claim.
    pub const ROOT_STORAGE_CLASS: &str = "kubevirt.rootStorageClass";
    /// The operating system that the guest names.
    pub const GUEST_OS: &str = "guest.os";
    /// The kernel that the guest names.
    pub const GUEST_KERNEL: &str = "guest.kernel";
    /// With the name of a network card behind it: the card's addresses, separated by commas.
    pub const IPS_OF_CARD: &str = "kubevirt.ips.";
}

/// Which KubeVirt a cluster has: what `Provider.status.version` says of it, as in `v1.8.0 (kubevirt.io v1, v1alpha3)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubevirtVersion {
    /// Of KubeVirt itself, as its own object tells.
    pub version: String,
    /// Of its kinds, as the cluster serves them.
    pub api_versions: Vec<String>,
}

impl KubevirtVersion {
    /// `None` for the version of something else: KubeVirt's begin with a v.
    pub fn parse(text: &str) -> Option<Self> {
        let (version, apis) = text.split_once(" (kubevirt.io ").unwrap_or((text, ""));
        let apis = apis.trim_end_matches(')').split(", ");
        let apis = apis.filter(|api| !api.is_empty()).map(str::to_owned);
        version.starts_with('v').then(|| Self {
            version: version.to_owned(),
            api_versions: apis.collect(),
        })
    }
}

impl std::fmt::Display for KubevirtVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.version)?;
        match self.api_versions.as_slice() {
            [] => Ok(()),
            apis => write!(f, " (kubevirt.io {})", apis.join(", ")),
        }
    }
}

/// The key of the entry in `class.extraConfig`.
pub const OPTIONS_KEY: &str = "kubevirt.polyvirt.io/options";

/// Settings of a KubeVirt VirtualMachine. Whatever is absent is chosen by the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct KubevirtOptions {
    /// Name of the VirtualMachine in its cluster. Absent: the VM's own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_name: Option<String>,
    /// Names under which the VM may already be there, made by another operator; it is taken over in place if
    /// [`KubevirtOptions::adopt_labels`] prove that it is this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub adopt_names: Vec<String>,
    /// What the other operator wrote on its VMs. A VM is taken over if it carries at least one of these and none with another
    /// value, or if `owner` owns it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub adopt_labels: BTreeMap<String, String>,
    /// Namespace in the cluster; made if it is not there. Absent: the namespace of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Labels of the VirtualMachine, of its template, its claims and its Secrets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The object that owns the VirtualMachine, if both are in one cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerOption>,
    /// Sockets, cores and threads, where the number of CPUs alone does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Model of the CPU, such as host-model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Memory in bytes, where MiB are too coarse.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Machine type, such as pc-q35.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_type: Option<String>,
    /// ACPI, APIC and Hyper-V.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Features>,
    /// The first disk: its name, claim and so on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_disk: Option<DiskOption>,
    /// Further disks, by their names in the VM.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub disks: BTreeMap<String, DiskOption>,
    /// Network cards, by their names in the VM.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub networks: BTreeMap<String, NetworkOption>,
    /// What is tried for boot, the first first: disk, network, cdrom.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub boot_order: Vec<BootDevice>,
    /// An installation medium.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cdrom: Option<Cdrom>,
    /// How cloud-init data reach the guest. Absent: NoCloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<CloudInitOption>,
    /// Several queues for network cards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_multiqueue: Option<bool>,
    /// An instancetype in place of CPU and memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instancetype: Option<NamedKind>,
    /// Preferences for all that is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preference: Option<NamedKind>,
    /// Labels that the node must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// core/v1 tolerations, as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<serde_json::Value>,
    /// core/v1 affinity, as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<serde_json::Value>,
    /// GPUs, by their deviceName.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Device>,
    /// Other host devices, by their deviceName.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host_devices: Vec<Device>,
}

/// An object in the same cluster that owns the VirtualMachine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerOption {
    /// UID of the kube-system namespace of the owner's cluster: elsewhere the reference would make the VM garbage.
    pub cluster: String,
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

/// The shape of the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Topology {
    /// Sockets.
    pub sockets: u32,
    /// Cores of a socket.
    pub cores: u32,
    /// Threads of a core.
    pub threads: u32,
}

/// Features of the machine; absent ones are left to KubeVirt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Features {
    /// ACPI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acpi: Option<bool>,
    /// APIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apic: Option<bool>,
    /// What Windows guests like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hyperv: Option<bool>,
}

/// A disk in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskOption {
    /// Name of the volume, for the first disk; the others have theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of the claim. Absent: the VirtualMachine's name and the disk's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// StorageClass; absent or `default`: the cluster's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// ReadWriteOnce, ReadWriteMany or ReadOnlyMany. Absent: the StorageProfile's, else the next but one, else ReadWriteOnce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<String>,
    /// Filesystem or Block. Absent: the StorageProfile's, else the next but one, else Filesystem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<String>,
    /// The access mode if neither accessMode nor the StorageProfile says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsaid_access_mode: Option<String>,
    /// The volume mode if neither volumeMode nor the StorageProfile says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsaid_volume_mode: Option<String>,
    /// virtio, sata, scsi or usb. Absent: virtio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    /// Size in bytes, where GiB are too coarse.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// A network card in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkOption {
    /// What it is attached to. Absent: the pod network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachment: Option<Attachment>,
    /// bridge, masquerade or sriov. Absent: masquerade on the pod network, else bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    /// virtio, e1000, e1000e, rtl8139, ne2k_pci or pcnet. Absent: virtio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A NetworkAttachmentDefinition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Attachment {
    /// Its name.
    pub name: String,
    /// Its CNI configuration if the provider is to make it. Absent: it must be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Labels of a definition that the provider makes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A place to boot from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BootDevice {
    /// The first disk.
    Disk,
    /// The first network card.
    Network,
    /// The installation medium.
    Cdrom,
}

/// An installation medium that CDI fetches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cdrom {
    /// Name of the volume.
    pub name: String,
    /// Name of the DataVolume.
    pub claim: String,
    /// http(s):// or docker://.
    pub url: String,
    /// Size in bytes.
    pub size_bytes: u64,
}

/// How cloud-init data reach the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CloudInitOption {
    /// The kind of medium.
    pub medium: CloudInitMedium,
    /// Whether the data stand in the VirtualMachine itself, as far as KubeVirt takes them, or in a Secret beside it.
    pub keep: CloudInitPlace,
}

/// The kind of medium with cloud-init data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CloudInitMedium {
    /// NoCloud.
    #[default]
    NoCloud,
    /// A config drive.
    ConfigDrive,
}

/// Where cloud-init data stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CloudInitPlace {
    /// In a Secret beside the VirtualMachine.
    #[default]
    Secret,
    /// In the VirtualMachine, if they are short enough for KubeVirt (2048 bytes).
    Inline,
}

/// An object by name and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamedKind {
    /// Name.
    pub name: String,
    /// Kind; empty for the cluster-wide one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

/// A device of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Name in the VirtualMachine.
    pub name: String,
    /// The resource that the device plugin offers.
    pub device_name: String,
}

impl KubevirtOptions {
    /// Reads the entry of a class; the default if it has none.
    pub fn of(extra_config: &BTreeMap<String, String>) -> Result<Self, serde_json::Error> {
        extra_config
            .get(OPTIONS_KEY)
            .map_or_else(|| Ok(Self::default()), |text| serde_json::from_str(text))
    }

    /// The entry's text: the same options always give the same text.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_survive_the_way_through_the_class() {
        let options = KubevirtOptions {
            vm_name: Some("vm-web".into()),
            boot_order: vec![BootDevice::Disk, BootDevice::Network],
            root_disk: Some(DiskOption {
                claim: Some("web-root".into()),
                ..DiskOption::default()
            }),
            ..KubevirtOptions::default()
        };
        let class = BTreeMap::from([(OPTIONS_KEY.to_owned(), options.to_text())]);
        assert_eq!(KubevirtOptions::of(&class).unwrap(), options);
        assert_eq!(KubevirtOptions::default().to_text(), "{}");
    }

    #[test]
    fn a_version_survives_the_way_through_the_status() {
        for text in [
            "v1.8.0",
            "v1.8.0 (kubevirt.io v1)",
            "v1.8.0 (kubevirt.io v1, v1alpha3)",
        ] {
            let read = KubevirtVersion::parse(text).unwrap();
            assert_eq!(read.version, "v1.8.0");
            assert_eq!(read.to_string(), text);
        }
        assert_eq!(KubevirtVersion::parse("0.1.0"), None);
        assert_eq!(KubevirtVersion::parse(""), None);
    }

    #[test]
    fn a_misspelt_option_is_refused() {
        let class = BTreeMap::from([(OPTIONS_KEY.to_owned(), r#"{"vmname":"x"}"#.to_owned())]);
        assert!(KubevirtOptions::of(&class).is_err());
    }
}
