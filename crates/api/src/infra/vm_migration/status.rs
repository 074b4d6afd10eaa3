//! What is known of a migration.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::infra::{HostMove, LocalRef};

/// What is known of the migration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct VMMigrationStatus {
    /// Where the migration stands: Pending, Validating, Snapshotting, Exporting, Transferring,
    /// Converting, Importing, Creating, Validating-Target, Ready, Failed or Cancelled. A move between
    /// hosts is Pending, Transferring, then Ready, Failed or Cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<MigrationPhase>,
    /// One sentence about the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The move between hosts of one Provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_move: Option<Box<HostMove>>,
    /// Where the VM goes: the host of a migration between hosts, else the VirtualMachine that is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The VirtualMachine that was made.
    #[serde(rename = "targetVMRef", skip_serializing_if = "Option::is_none")]
    pub target_vm_ref: Option<LocalRef>,
    /// Id of the target on its provider.
    #[serde(rename = "targetVMID", skip_serializing_if = "Option::is_none")]
    pub target_vm_id: Option<String>,
    /// Id of the snapshot that is copied.
    #[serde(rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// Name of the VMSnapshot that is copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_ref: Option<String>,
    /// Id of the export on the source.
    #[serde(rename = "exportID", skip_serializing_if = "Option::is_none")]
    pub export_id: Option<String>,
    /// Id of the import on the target.
    #[serde(rename = "importID", skip_serializing_if = "Option::is_none")]
    pub import_id: Option<String>,
    /// The provider's task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_ref: Option<String>,
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<MigrationProgress>,
    /// The disk that is being moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_info: Option<MigratedDisk>,
    /// What is staged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_info: Option<StagedData>,
    /// The volume claim that disks are staged on.
    #[serde(rename = "storagePVCName", skip_serializing_if = "Option::is_none")]
    pub storage_pvc_name: Option<String>,
    /// What the checks at the end found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_results: Option<MigrationCheckResults>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// How often it was tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<i32>,
    /// When it was tried again last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_retry_time: Option<Time>,
    /// What is true of the migration, such as Ready, one entry a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = crate::schema::keyed_by_type)]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// How far a migration is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MigrationProgress {
    /// The phase that this speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_phase: Option<MigrationPhase>,
    /// When the phase began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase_start_time: Option<Time>,
    /// Part that is done, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub percentage: Option<i32>,
    /// Bytes transferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transferred_bytes: Option<i64>,
    /// Bytes to transfer in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<i64>,
    /// Speed in bytes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_rate: Option<i64>,
    /// How long it will still take, as a duration such as 5m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<String>,
}

/// A disk on its way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MigratedDisk {
    /// Id on the source.
    #[serde(rename = "sourceDiskID", skip_serializing_if = "Option::is_none")]
    pub source_disk_id: Option<String>,
    /// Format on the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_format: Option<String>,
    /// Size on the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub source_size: Option<Quantity>,
    /// Checksum on the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_checksum: Option<String>,
    /// Id on the target.
    #[serde(rename = "targetDiskID", skip_serializing_if = "Option::is_none")]
    pub target_disk_id: Option<String>,
    /// Format on the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_format: Option<String>,
    /// Size on the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub target_size: Option<Quantity>,
    /// Checksum on the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_checksum: Option<String>,
    /// Path on the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_path: Option<String>,
    /// Checksum that both sides agree on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

/// What a migration has staged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StagedData {
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// How much it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub size: Option<Quantity>,
    /// When it was complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uploaded_at: Option<Time>,
    /// Whether it was removed again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleaned_up: Option<bool>,
}

/// What the checks at the end of a migration found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MigrationCheckResults {
    /// Whether the sizes of the disks agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_size_match: Option<bool>,
    /// Whether the checksums of the disks agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum_match: Option<bool>,
    /// Whether the target booted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_success: Option<bool>,
    /// Whether the target got an address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connectivity_success: Option<bool>,
    /// What did not agree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub validation_errors: Vec<String>,
}

/// Where a migration stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MigrationPhase {
    /// Nothing was done yet.
    #[default]
    Pending,
    /// Source, target and storage are being checked.
    Validating,
    /// A snapshot of the source is being taken.
    Snapshotting,
    /// Disks are being read out.
    Exporting,
    /// Disks are on their way.
    Transferring,
    /// Disks are being converted.
    Converting,
    /// Disks are being brought in.
    Importing,
    /// The target is being made.
    Creating,
    /// The target is being checked.
    #[serde(rename = "Validating-Target")]
    ValidatingTarget,
    /// The target can be used.
    Ready,
    /// It could not be done.
    Failed,
    /// It was stopped.
    Cancelled,
}
