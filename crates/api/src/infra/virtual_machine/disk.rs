//! Disks of a VM.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::infra::LocalRef;
use crate::schema::LABEL;

/// One disk of a VM.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskSpec {
    /// Name of the disk, unique in the VM.
    #[schemars(length(max = 63), regex(pattern = LABEL))]
    pub name: String,
    /// Size in GiB. It can grow, never shrink.
    #[serde(rename = "sizeGiB")]
    #[schemars(range(min = 1, max = 65_536))]
    pub size_gib: i32,
    /// How the space is provided: thin, thick, eagerzeroedthick, ssd, hdd or nvme. Defaults to
    /// thin.
    #[serde(rename = "type", default)]
    pub type_: DiskType,
    /// Storage class or policy of the disk, as the provider names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// Whether the disk may grow while the VM runs (Online) or only while it is off (Offline).
    /// Defaults to Offline.
    #[serde(default)]
    pub expand_policy: ExpandPolicy,
    /// Where the disk sits on the SCSI buses. Absent means that the provider chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scsi: Option<ScsiConfig>,
}

/// Where a disk sits on the SCSI buses of the VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScsiConfig {
    /// Number of the controller, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3))]
    pub controller: Option<i32>,
    /// Model of the controller: lsilogic, buslogic, lsilogic-sas or pvscsi. Defaults to pvscsi.
    pub controller_type: ScsiControllerType,
    /// Whether other VMs may use the bus too: noSharing, virtualSharing (on one host) or
    /// physicalSharing (on any host). Defaults to noSharing.
    pub shared_bus: ScsiSharing,
}

/// A disk that exists on the provider before the VM does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportedDisk {
    /// Id of the disk on the provider.
    #[serde(rename = "diskID")]
    #[schemars(length(min = 1, max = 253))]
    pub disk_id: String,
    /// Path of the disk on the provider, where the id alone does not tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Format of the disk: qcow2, vmdk, raw, vdi or vhdx. Defaults to qcow2.
    #[serde(default)]
    pub format: ImportedDiskFormat,
    /// How the disk came there: migration, clone, import, snapshot or manual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ImportedDiskSource>,
    /// The VMMigration that brought the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration_ref: Option<LocalRef>,
    /// Size of the disk in GiB, as far as known.
    #[serde(rename = "sizeGiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub size_gib: Option<i32>,
}

/// How the space of a disk is provided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskType {
    /// Space is taken as it is written.
    #[default]
    Thin,
    /// Space is reserved at once and zeroed when first used.
    Thick,
    /// Space is reserved and zeroed at once.
    EagerZeroedThick,
    /// On solid-state storage.
    Ssd,
    /// On rotating storage.
    Hdd,
    /// On NVMe storage.
    Nvme,
}

/// When a disk may grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExpandPolicy {
    /// Only while the VM is off.
    #[default]
    Offline,
    /// While the VM runs, too.
    Online,
}

/// Model of a SCSI controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScsiControllerType {
    /// LSI Logic parallel.
    LsiLogic,
    /// BusLogic parallel.
    BusLogic,
    /// LSI Logic SAS.
    #[serde(rename = "lsilogic-sas")]
    LsiLogicSas,
    /// Paravirtual.
    #[default]
    PvScsi,
}

/// Whether several VMs may use one SCSI bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ScsiSharing {
    /// One VM only.
    #[default]
    NoSharing,
    /// VMs on the same host.
    VirtualSharing,
    /// VMs on any host.
    PhysicalSharing,
}

/// Format of a disk that exists already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImportedDiskFormat {
    /// QEMU copy-on-write.
    #[default]
    Qcow2,
    /// VMware.
    Vmdk,
    /// Plain bytes.
    Raw,
    /// VirtualBox.
    Vdi,
    /// Hyper-V.
    Vhdx,
}

/// How an imported disk came to the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImportedDiskSource {
    /// A VMMigration brought it.
    Migration,
    /// A VMClone made it.
    Clone,
    /// It was uploaded.
    Import,
    /// It was made from a snapshot.
    Snapshot,
    /// It was there before, for example as part of an adopted VM.
    Manual,
}
