//! What a VM should be.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::ids::Identity;
use crate::model::Pull;

/// The Kubernetes object that a VM belongs to; stored with the VM on the hypervisor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// Decides whether a VM is ours.
    pub identity: Identity,
    /// For people who look at the hypervisor.
    pub namespace: String,
    /// For people who look at the hypervisor.
    pub name: String,
}

/// The whole desired VM: the request of `create` and of `reconfigure`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreateVm {
    /// Whom it belongs to; `None` if a manager without identities asks.
    pub owner: Option<Owner>,
    /// The name on the hypervisor.
    pub name: String,
    /// Size and hardware.
    pub class: ClassSpec,
    /// What the first disk is made from.
    pub image: ImageSource,
    /// Network cards, in order.
    pub networks: Vec<NicSpec>,
    /// Disks beyond the first, in order.
    pub disks: Vec<DiskSpec>,
    /// What the guest reads at first boot.
    pub user_data: Option<UserData>,
    /// cloud-init meta-data (YAML); empty if none.
    pub meta_data: Bytes,
    /// cloud-init network-config (YAML) given by the user; empty if it is to be made from `networks`.
    pub network_data: Bytes,
    /// Where on the hypervisor.
    pub placement: Option<Placement>,
    /// Words put on the VM for people and tools.
    pub tags: Vec<String>,
}

/// First-boot configuration, already rendered. It may hold secrets, so its debug form tells the size only.
#[derive(Clone, PartialEq, Eq)]
pub enum UserData {
    /// cloud-init user data: `#cloud-config`, a script, or MIME multipart.
    CloudInit(Bytes),
    /// An Ignition configuration (JSON).
    Ignition(Bytes),
}

impl std::fmt::Debug for UserData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Self::CloudInit(_) => "CloudInit",
            Self::Ignition(_) => "Ignition",
        };
        write!(f, "{kind}({} bytes)", self.bytes().len())
    }
}

impl UserData {
    /// The bytes, whichever kind they are.
    pub const fn bytes(&self) -> &Bytes {
        match self {
            Self::CloudInit(bytes) | Self::Ignition(bytes) => bytes,
        }
    }
}

/// How the machine starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Firmware {
    /// PC BIOS.
    #[default]
    Bios,
    /// UEFI; secure boot is in the security profile.
    Uefi,
}

/// Size and hardware, from the class and the overrides of the VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassSpec {
    /// Virtual CPUs.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// How the machine starts.
    pub firmware: Firmware,
    /// Applied to the first disk.
    pub disk_defaults: Option<DiskDefaults>,
    /// `install`, `skip`, `upgrade`, `uninstall`; empty if not said.
    pub guest_tools_policy: String,
    /// Settings that only one hypervisor knows.
    pub extra_config: BTreeMap<String, String>,
    /// Tuning.
    pub performance: Option<PerformanceProfile>,
    /// Hardening.
    pub security: Option<SecurityProfile>,
    /// Reservations and limits.
    pub limits: Option<ResourceLimits>,
}

/// The first disk, where the image does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskDefaults {
    /// Provisioning or medium.
    pub disk_type: String,
    /// Size in GiB; 0 leaves the size of the image.
    pub size_gib: u32,
}

/// Tuning of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each flag is one field of the wire contract"
)]
pub struct PerformanceProfile {
    /// `low`, `normal`, `high`.
    pub latency_sensitivity: String,
    /// CPUs can be added while it runs.
    pub cpu_hot_add: bool,
    /// Memory can be added while it runs.
    pub memory_hot_add: bool,
    /// Virtualization-based security of the guest.
    pub virtualization_based_security: bool,
    /// VMs inside the VM.
    pub nested_virtualization: bool,
    /// `auto`, `prefer`, `avoid`, `require`.
    pub hyper_threading_policy: String,
}

/// Hardening of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each flag is one field of the wire contract"
)]
pub struct SecurityProfile {
    /// Only signed boot loaders.
    pub secure_boot: bool,
    /// A virtual TPM.
    pub tpm: bool,
    /// `1.2` or `2.0`; empty for the provider's choice.
    pub tpm_version: String,
    /// A virtual IOMMU.
    pub vtd: bool,
    /// Disks are encrypted.
    pub encryption: bool,
    /// `standard`, `hardware`, `external`; empty if not said.
    pub key_provider: String,
    /// Refuse to run unencrypted.
    pub require_encryption: bool,
}

/// Reservations, limits and shares. `None` is the hypervisor's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// MHz or thousandths of a CPU, as the hypervisor counts.
    pub cpu_limit: Option<i32>,
    /// In the unit of `cpu_limit`.
    pub cpu_reservation: Option<i32>,
    /// MiB.
    pub memory_limit_mib: Option<i64>,
    /// MiB.
    pub memory_reservation_mib: Option<i64>,
    /// Relative weight.
    pub cpu_shares: Option<i32>,
}

/// What the first disk is made from. Empty strings are "not given"; a provider takes the first that it understands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageSource {
    /// A template or prepared image that the hypervisor knows by name.
    pub template_name: String,
    /// A path or volume on the hypervisor.
    pub path: String,
    /// A URL to fetch from.
    pub url: String,
    /// `qcow2`, `raw`, `vmdk`, `template`, …; `blank` for an empty disk of the class's size.
    pub format: String,
    /// Hex digest of the source.
    pub checksum: String,
    /// `md5`, `sha1`, `sha256`, `sha512`.
    pub checksum_type: String,
    /// When the URL is asked.
    pub pull: Pull,
    /// The namespace in whose name storage of a cluster is read: that of the VMImage; empty for that of the VM.
    pub reader: String,
}

/// A network card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicSpec {
    /// The name in the VirtualMachine; unique in it.
    pub name: String,
    /// A network or port group that the hypervisor knows.
    pub network: String,
    /// A bridge on the host.
    pub bridge: String,
    /// VLAN id, 0 for none.
    pub vlan: u16,
    /// `virtio`, `e1000`, `vmxnet3`, …; empty for the provider's choice.
    pub model: String,
    /// Fixed MAC address; empty for a generated one.
    pub mac: String,
    /// Fixed address; `None` for DHCP.
    pub address: Option<StaticAddress>,
    /// PCI slot (vSphere).
    pub pci_slot: Option<i32>,
    /// Maximum transmission unit, 0 for the default.
    pub mtu: u32,
}

/// A fixed IPv4 or IPv6 address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaticAddress {
    /// The address without prefix.
    pub ip: String,
    /// Prefix length.
    pub prefix: u8,
    /// Default route; empty for none.
    pub gateway: String,
    /// Name servers.
    pub dns: Vec<String>,
}

/// Provisioning or medium of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskType {
    /// Blocks are allocated when written.
    #[default]
    Thin,
    /// Blocks are allocated at once.
    Thick,
    /// Blocks are allocated and zeroed at once.
    EagerZeroedThick,
    /// On flash.
    Ssd,
    /// On spinning disks.
    Hdd,
}

/// When a disk may grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpandPolicy {
    /// While the VM runs.
    Online,
    /// While it is off.
    #[default]
    Offline,
}

/// A disk beyond the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskSpec {
    /// The name in the VirtualMachine; unique in it.
    pub name: String,
    /// Size in GiB; it only grows.
    pub size_gib: u32,
    /// Provisioning or medium.
    pub disk_type: DiskType,
    /// When it may grow.
    pub expand_policy: ExpandPolicy,
    /// A pool, datastore or storage class; empty for the provider's choice.
    pub storage_class: String,
    /// SCSI attachment (vSphere).
    pub scsi: Option<ScsiSpec>,
}

/// SCSI attachment of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScsiSpec {
    /// Bus number.
    pub controller: i32,
    /// `noSharing`, `virtualSharing`, `physicalSharing`.
    pub shared_bus: String,
    /// `lsilogic`, `buslogic`, `lsilogic-sas`, `pvscsi`.
    pub controller_type: String,
}

/// Where on the hypervisor a VM goes. Empty strings are "not given".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Storage.
    pub datastore: String,
    /// A group of storages.
    pub storage_pod: String,
    /// A group of hosts.
    pub cluster: String,
    /// A folder in the inventory.
    pub folder: String,
    /// One host.
    pub host: String,
    /// A resource pool.
    pub resource_pool: String,
    /// Devices of the host that are passed to the VM, by the names of its inventory.
    pub devices: BTreeMap<String, u32>,
    /// That the manager chose the host out of several, and what whatever host runs the VM must meet. `None`: the host is named by
    /// whoever declares the VM, and no other will do.
    pub chosen: Option<Chosen>,
}

/// What a host was chosen by. A hypervisor with a scheduler of its own may take another host that meets it, now or later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// The host meets one of these at least; without any, every host will do.
    pub terms: Vec<HostTerm>,
}

/// Demands on a host, all of which it meets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTerm {
    /// On its labels.
    pub labels: Vec<HostDemand>,
    /// On its name.
    pub name: Vec<HostDemand>,
}

/// A demand on a label, or on the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostDemand {
    /// The label; `metadata.name` for the name.
    pub key: String,
    /// How it is compared, as Kubernetes calls it: `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`.
    pub operator: String,
    /// What it is compared with.
    pub values: Vec<String>,
}
