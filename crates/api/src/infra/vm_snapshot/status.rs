//! What is known of a snapshot.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::infra::{ObjectRef, Operation};

/// What is known of the snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct VMSnapshotStatus {
    /// Id of the snapshot on the provider.
    #[serde(rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// Where the snapshot stands: Pending, Creating, Ready, Deleting, Failed or Expired. A schedule
    /// is Scheduled or Suspended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<SnapshotPhase>,
    /// One sentence about the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    /// When it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// When it will be deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry_time: Option<Time>,
    /// Space that it takes, rounded up to three digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub size: Option<Quantity>,
    /// Size of the disks that it holds. Always absent: no provider tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub virtual_size: Option<Quantity>,
    /// The snapshot that it is based on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SnapshotRef>,
    /// Snapshots that are based on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<SnapshotRef>,
    /// How far it is. Always absent: no provider tells it of snapshots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<SnapshotProgress>,
    /// The provider's task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_ref: Option<String>,
    /// The VM on the hypervisor that the snapshot is of. Written before it is taken: what becomes of
    /// the VirtualMachine later does not change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<SnapshotVm>,
    /// The operation in flight. Absent when nothing is being done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Box<Operation>>,
    /// How the schedule stands. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Box<SnapshotScheduleStatus>>,
    /// How the snapshot stands on the Provider, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub provider_status: BTreeMap<String, SnapshotProviderStatus>,
    /// What is true of the snapshot, such as Ready, one entry a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = crate::schema::keyed_by_type)]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The VM on the hypervisor that a snapshot is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotVm {
    /// Namespace and name of its Provider.
    pub provider_ref: ObjectRef,
    /// Id on the hypervisor.
    pub id: String,
    /// Identity on the hypervisor.
    pub identity: String,
}

/// How a schedule stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotScheduleStatus {
    /// The times and the time zone that the rest is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Times of the schedule after this moment count. Absent while it rests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The time of the schedule that the last snapshot was made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// When the last snapshot that is whole was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_successful_time: Option<Time>,
    /// When the next snapshot is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_schedule_time: Option<Time>,
    /// Snapshots that are being taken, ten at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<SnapshotRef>,
    /// How many of its snapshots are there and whole.
    pub snapshots: i32,
    /// How many of its snapshots could not be taken, or are lost.
    pub failed: i32,
}

/// Points at a VMSnapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotRef {
    /// Name of the object.
    pub name: String,
    /// Namespace of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// UID of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// How far a snapshot is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotProgress {
    /// Part that is done, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub percentage: Option<i32>,
    /// Bytes written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_bytes: Option<i64>,
    /// Bytes to write in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<i64>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// How long it will still take, as a duration such as 5m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<String>,
}

/// How a snapshot stands on a provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotProviderStatus {
    /// Whether it can be used there.
    pub available: bool,
    /// Id on the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Path on the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// State, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// One sentence about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When this entry changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
}

/// Where a snapshot stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SnapshotPhase {
    /// Nothing was done yet.
    #[default]
    Pending,
    /// It is being taken.
    Creating,
    /// It can be used.
    Ready,
    /// It is being removed.
    Deleting,
    /// It could not be taken.
    Failed,
    /// Its time is over and it will be removed.
    Expired,
    /// It is a schedule, in force.
    Scheduled,
    /// It is a schedule, and rests.
    Suspended,
}
