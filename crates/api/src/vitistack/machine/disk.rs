//! Disks of a Machine.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cel::rule;

/// One disk of a Machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "!has(self.size) || !has(self.sizeGB)",
        "Give size or sizeGB, not both",
    ),
]))]
pub struct MachineDisk {
    /// Name of the disk, unique in the machine. Absent means one made from its place in the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Size, such as 20Gi. Absent means sizeGB, or the size of the template's disk of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub size: Option<Quantity>,
    /// Size in GiB.
    #[serde(rename = "sizeGB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_536))]
    pub size_gb: Option<i64>,
    /// Whether the machine boots from this disk. Without one, it is the disk named root, or the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<bool>,
    /// How the disk is attached: virtio, sata, scsi or nvme (the same as virtio). Absent means virtio.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// StorageClass of the claim. Absent or default means the cluster's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
    /// Who may use the claim: ReadWriteOnce, ReadWriteMany or ReadOnlyMany.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<MachineAccessMode>,
    /// What the claim holds: Filesystem or Block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<MachineVolumeMode>,
    /// Name of the device in the guest; it does nothing on KubeVirt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Whether the disk is encrypted; it does nothing on KubeVirt, where the StorageClass decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// I/O operations a second; it does nothing on KubeVirt, where the StorageClass decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 64_000))]
    pub iops: Option<i64>,
    /// Throughput in MiB a second; it does nothing on KubeVirt, where the StorageClass decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 125, max = 4000))]
    pub throughput: Option<i64>,
}

/// Who may use a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MachineAccessMode {
    /// One node.
    ReadWriteOnce,
    /// Many nodes.
    ReadWriteMany,
    /// Many nodes, to read.
    ReadOnlyMany,
}

impl MachineAccessMode {
    /// The word in a claim.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadWriteMany => "ReadWriteMany",
            Self::ReadOnlyMany => "ReadOnlyMany",
        }
    }
}

/// What a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MachineVolumeMode {
    /// A file system, with the disk in a file.
    Filesystem,
    /// The disk itself.
    Block,
}

impl MachineVolumeMode {
    /// The word in a claim.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Filesystem => "Filesystem",
            Self::Block => "Block",
        }
    }
}
