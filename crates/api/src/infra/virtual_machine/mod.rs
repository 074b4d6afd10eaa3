//! VirtualMachine: one VM on one provider.

mod disk;
mod guest_data;
mod lifecycle;
mod network;
mod placement;
mod policy;
mod status;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cel::exactly_one;
use crate::infra::{LocalRef, ObjectRef, VMClassSpec, VMImageSource};

pub use disk::*;
pub use guest_data::*;
pub use lifecycle::*;
pub use network::*;
pub use placement::*;
pub use policy::*;
pub use status::*;

/// Until the VM exists, all may change.
const PROVIDER_IS_FIXED: &str = "!has(oldSelf.status) || !has(oldSelf.status.id) \
    || oldSelf.status.id == '' || self.spec.providerRef == oldSelf.spec.providerRef";
const DISKS_ONLY_GROW: &str = "!has(oldSelf.status) || !has(oldSelf.status.id) \
    || oldSelf.status.id == '' || !has(oldSelf.spec.disks) || !has(self.spec.disks) \
    || self.spec.disks.all(new, !oldSelf.spec.disks.exists(old, \
        old.name == new.name && old.sizeGiB > new.sizeGiB))";

/// What the virtual machine is made of and how it is to be run.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VirtualMachine",
    plural = "virtualmachines",
    shortname = "vm",
    category = "polyvirt",
    category = "virt",
    namespaced,
    status = "VirtualMachineStatus",
    derive = "PartialEq",
    doc = "A virtual machine on a hypervisor.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas"
    ),
    selectable = ".spec.providerRef.name",
    validation = Rule::new(PROVIDER_IS_FIXED)
        .message("The VM exists on its provider: use a VMMigration to move it"),
    validation = Rule::new(DISKS_ONLY_GROW)
        .message("A disk can grow, never shrink: make another one and copy the data"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Power", type_ = "string", json_path = ".status.powerState"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Provider",
        type_ = "string",
        json_path = ".spec.providerRef.name"
    ),
    printcolumn(name = "Class", type_ = "string", json_path = ".spec.classRef.name"),
    printcolumn(name = "Image", type_ = "string", json_path = ".status.applied.image"),
    printcolumn(name = "IPs", type_ = "string", json_path = ".status.ips[*]"),
    printcolumn(
        name = "Host",
        type_ = "string",
        json_path = ".status.host",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.message",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::kubernetes_style)]
#[schemars(extend("x-kubernetes-validations" = [
    exactly_one(&["classRef", "class"]),
    exactly_one(&["imageRef", "image", "importedDisk"]),
]))]
pub struct VirtualMachineSpec {
    /// The Provider on which the VM runs. Fixed once the VM exists; use a VMMigration to move
    /// it.
    pub provider_ref: ObjectRef,
    /// The VMClass that gives CPU, memory and firmware. Exactly one of classRef and class is
    /// needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_ref: Option<ObjectRef>,
    /// CPU, memory and firmware written in place, for a VM that shares its class with no other.
    /// Exactly one of classRef and class is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Box<VMClassSpec>>,
    /// The VMImage that the system disk is made from. Exactly one of imageRef, image and
    /// importedDisk is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_ref: Option<ObjectRef>,
    /// An image source written in place, for an image that no other VM uses. Exactly one of
    /// imageRef, image and importedDisk is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Box<VMImageSource>>,
    /// A disk that exists on the provider already and becomes the system disk. Exactly one of
    /// imageRef, image and importedDisk is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported_disk: Option<Box<ImportedDisk>>,
    /// When the image is fetched: IfNotPresent, Always (its origin is looked at again for each new VM, and fetched if it has
    /// changed) or Never (the provider must have it). Says nothing to a VM that exists. Defaults to IfNotPresent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<DiskImagePull>,
    /// The power state to hold: On, Off (at once), OffGraceful (the guest shuts down, and is
    /// cut off after lifecycle.gracefulShutdownTimeout) or Paused (it stays in memory and its
    /// processors stop; needs a provider with the feature Pause). Absent means On.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<PowerState>,
    /// CPU, memory and GPU of this one VM; each value given here wins over the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<VMResources>,
    /// Disks beside the system disk. A disk can grow, never shrink.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), transform = crate::schema::keyed_by_name)]
    pub disks: Vec<DiskSpec>,
    /// Network interfaces, in the order in which the guest sees them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), transform = crate::schema::keyed_by_name)]
    pub networks: Vec<VMNetwork>,
    /// What the guest reads at its first boot to configure itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<Box<UserData>>,
    /// Instance metadata that is handed to the guest beside the user data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<Box<MetaData>>,
    /// Network configuration that is handed to the guest beside the user data; it wins over
    /// what networks imply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<Box<NetworkData>>,
    /// Where on the provider to put the VM; an absent value is chosen by placementRef or the
    /// provider's defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// The VMPlacementPolicy that chooses where the VM goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_ref: Option<LocalRef>,
    /// Tags to put on the VM at the hypervisor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub tags: Vec<String>,
    /// Brings the VM back to an earlier snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotOperation>,
    /// Actions after a start and before a stop, and how long a graceful stop may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Box<VMLifecycle>>,
    /// What becomes of the VM when this object is deleted: Delete removes it, Retain leaves it
    /// running and unmanaged. Absent means Delete, or Retain for an adopted VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// What to do about changes made on the hypervisor behind our back. Absent means to report
    /// them only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_policy: Option<DriftPolicy>,
    /// Whether the VM may be restarted to bring a change into effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconfigure_policy: Option<ReconfigurePolicy>,
}

/// CPU, memory and GPU of one VM.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VMResources {
    /// Number of virtual CPUs. Absent means that of the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 128))]
    pub cpu: Option<i32>,
    /// Memory in MiB. Absent means that of the class.
    #[serde(rename = "memoryMiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 128, max = 1_048_576))]
    pub memory_mib: Option<i64>,
    /// GPUs to pass to the VM. Absent means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuConfig>,
    /// Devices of the host to pass to the VM: GPUs, virtual functions of network cards.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), transform = crate::schema::keyed_by_name)]
    pub devices: Vec<DeviceRequest>,
}

/// GPUs passed to one VM.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuConfig {
    /// Number of GPUs.
    #[schemars(range(min = 1, max = 8))]
    pub count: i32,
    /// Model or profile of the GPU, as the provider names it. Absent means any.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[a-zA-Z0-9-_]+$"))]
    pub type_: Option<String>,
    /// Least memory of each GPU in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 512))]
    pub memory: Option<i64>,
}

/// A wish about the snapshots of the VM.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotOperation {
    /// The VMSnapshot to go back to. Each new value is carried out once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revert_to_ref: Option<LocalRef>,
}

/// A power state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PowerState {
    /// Running.
    #[default]
    On,
    /// Not running; going there cuts the power.
    Off,
    /// Not running; going there asks the guest to shut down first.
    OffGraceful,
    /// In memory, with its processors stopped; needs a provider with the feature Pause.
    Paused,
}

/// What becomes of the VM when its object is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// The VM and its disks are removed.
    #[default]
    Delete,
    /// The VM stays as it is and is no longer managed.
    Retain,
}
