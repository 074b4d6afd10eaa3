//! What is known of a set.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::infra::VMPhase;

/// What is known of the set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct VMSetStatus {
    /// Virtual machines that exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Virtual machines that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Virtual machines that have been ready for minReadySeconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Virtual machines made from the current revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_replicas: Option<i32>,
    /// Virtual machines made from the newest revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// The selector as text, for autoscalers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The revision that a running update leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_revision: Option<String>,
    /// The newest revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_revision: Option<String>,
    /// How often the name of a revision was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// How far a running update is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_status: Option<SetUpdateStatus>,
    /// The virtual machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), transform = crate::schema::keyed_by_name)]
    pub vm_status: Vec<SetMember>,
    /// What is true of the set, such as Ready, one entry a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = crate::schema::keyed_by_type)]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// How far an update of a set is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SetUpdateStatus {
    /// Where it stands: Pending, InProgress, Paused, Completed or Failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<SetUpdatePhase>,
    /// One sentence about the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Names of the virtual machines that are done.
    #[serde(rename = "updatedVMs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub updated_vms: Vec<String>,
    /// Names of the virtual machines that wait.
    #[serde(rename = "pendingVMs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub pending_vms: Vec<String>,
    /// The virtual machines that failed.
    #[serde(rename = "failedVMs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub failed_vms: Vec<FailedMember>,
}

/// A virtual machine whose update failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedMember {
    /// Name of the virtual machine.
    pub name: String,
    /// Why, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How often it was tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<i32>,
    /// When it was tried last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<Time>,
}

/// A virtual machine of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetMember {
    /// Name of the virtual machine.
    pub name: String,
    /// Where it stands: Pending, Provisioning, Running, Stopped, Reconfiguring, Migrating, Deleting or
    /// Failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<VMPhase>,
    /// Whether it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Revision that it is made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    /// When it was updated last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// One sentence about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Where an update of a set stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SetUpdatePhase {
    /// It has not begun.
    #[default]
    Pending,
    /// It goes on.
    InProgress,
    /// It rests.
    Paused,
    /// It is done.
    Completed,
    /// It cannot go on.
    Failed,
}
