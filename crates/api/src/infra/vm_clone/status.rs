//! What is known of a clone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::infra::{CloneType, LocalRef};

/// What is known of the clone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct VMCloneStatus {
    /// Where the clone stands: Pending, Preparing, Cloning, Customizing, Powering-On, Ready or
    /// Failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ClonePhase>,
    /// One sentence about the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The VirtualMachine that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<LocalRef>,
    /// Id of the copy on the provider.
    #[serde(rename = "targetVMID", skip_serializing_if = "Option::is_none")]
    pub target_vm_id: Option<String>,
    /// How disks were copied: FullClone, LinkedClone or InstantClone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual_clone_type: Option<CloneType>,
    /// The provider's task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_ref: Option<String>,
    /// How far the copy is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<CloneProgress>,
    /// How far the changes in the guest are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customization_status: Option<CustomizationStatus>,
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
    /// What is true of the clone, such as Ready, one entry a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = crate::schema::keyed_by_type)]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// How far a copy is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CloneProgress {
    /// Part that is done, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub overall_percentage: Option<i32>,
    /// Disks that are copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_disks: Option<i32>,
    /// Disks to copy in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_disks: Option<i32>,
    /// The disk that is being copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_disk: Option<DiskProgress>,
    /// How long it will still take, as a duration such as 5m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<String>,
}

/// How far the copy of a disk is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskProgress {
    /// Name of the disk.
    pub name: String,
    /// Part that is done, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub percentage: Option<i32>,
    /// Bytes copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_bytes: Option<i64>,
    /// Bytes to copy in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<i64>,
    /// Speed in bytes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_rate: Option<i64>,
}

/// How far the changes in a guest are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomizationStatus {
    /// Whether they have begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<bool>,
    /// Whether all are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<bool>,
    /// The step that is being done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_step: Option<String>,
    /// Steps that are done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub completed_steps: Vec<String>,
    /// Steps that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_steps: Vec<String>,
    /// One sentence about them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Where a clone stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClonePhase {
    /// Nothing was done yet.
    #[default]
    Pending,
    /// Its source is being made ready.
    Preparing,
    /// Disks are being copied.
    Cloning,
    /// The guest is being changed.
    Customizing,
    /// The copy is being started.
    #[serde(rename = "Powering-On")]
    PoweringOn,
    /// The copy can be used.
    Ready,
    /// It could not be made.
    Failed,
}
