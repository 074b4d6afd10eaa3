//! What is known of a VM.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::infra::{GpuConfig, PlacementStatus, PowerState};

/// What is known of the VM.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct VirtualMachineStatus {
    /// Id of the VM on the provider. Empty until it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Where the VM stands: Pending, Provisioning, Running, Stopped, Reconfiguring, Migrating, Deleting or
    /// Failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<VMPhase>,
    /// One sentence about the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The power state that the provider reported last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<PowerState>,
    /// Addresses of the guest, the most useful one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
    /// Where to open the console of the VM.
    #[serde(rename = "consoleURL", skip_serializing_if = "Option::is_none")]
    pub console_url: Option<String>,
    /// The host on which the VM runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Where the scheduler put the VM. Absent where the provider chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Box<PlacementStatus>>,
    /// Details that only this kind of provider has.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub provider: BTreeMap<String, String>,
    /// What is true of the VM, such as Ready, one entry a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = crate::schema::keyed_by_type)]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// CPU, memory and GPU that the VM has now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_resources: Option<CurrentResources>,
    /// Snapshots of the VM on the provider.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<VMSnapshotInfo>,
    /// The provider's task that is running or ran last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_task_ref: Option<String>,
    /// The provider's task that changes the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconfigure_task_ref: Option<String>,
    /// When the VM was changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_reconfigure_time: Option<Time>,
    /// What was last seen to be reached on the hypervisor; the base for telling a change of the
    /// spec from drift.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied: Option<Box<AppliedState>>,
    /// The operation in flight. Absent when nothing is being done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Box<Operation>>,
    /// When creation was decided, written before the call where the provider cannot find a VM
    /// by its identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_intent: Option<Time>,
    /// The last value of the reboot annotation that was carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reboot_handled: Option<String>,
    /// Paths of fields whose change takes effect at the next restart only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restart_required: Vec<String>,
    /// What became of the last wish to go back to a snapshot. Absent while spec.snapshot names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revert: Option<Box<RevertStatus>>,
    /// What became of the actions of spec.lifecycle, while the VM is being started or stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Box<HooksStatus>>,
}

/// What became of the actions around a start or a stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HooksStatus {
    /// Before the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_start: Option<HookStatus>,
    /// After the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_start: Option<HookStatus>,
    /// Before the stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_stop: Option<HookStatus>,
}

/// How far an action is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookStatus {
    /// How far it is: Due, Running, Waiting, Done or Failed.
    pub state: HookState,
    /// How often it was tried.
    pub tries: i32,
    /// When it was last begun.
    pub since: Time,
    /// The generation of the spec that it was run for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Why it failed, or waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it is tried again, if it failed because somebody was not there. Absent if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_try: Option<Time>,
}

/// How far an action around a start or a stop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HookState {
    /// It comes after the start that is under way.
    Due,
    /// It was begun.
    Running,
    /// It was begun, and waits for the guest or for a snapshot.
    Waiting,
    /// It ended well.
    Done,
    /// It failed.
    Failed,
}

/// What became of a wish to go back to a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevertStatus {
    /// Name of the VMSnapshot.
    pub name: String,
    /// UID of the VMSnapshot.
    pub uid: String,
    /// How far it is: Begun, Done or Refused.
    pub state: RevertState,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How far a wish to go back to a snapshot is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RevertState {
    /// It was sent, or was about to be.
    #[default]
    Begun,
    /// The VM is back at the snapshot.
    Done,
    /// The provider will not do it.
    Refused,
}

/// What was last seen to be reached on the hypervisor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AppliedState {
    /// The generation of the spec that was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The power state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<PowerState>,
    /// Number of virtual CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<i32>,
    /// Memory in MiB.
    #[serde(rename = "memoryMiB", skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<i64>,
    /// The disks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = crate::schema::keyed_by_name)]
    pub disks: Vec<AppliedDisk>,
    /// Names of the network interfaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// The tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// A digest of the options that only the hypervisor understands (class.extraConfig, and the firmware beside them).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<String>,
    /// What the disk of the VM was created from: the name of the VMImage, or the source in spec.image or spec.importedDisk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Digests of the fields that are read when the VM is created or first boots, by path. An edit of such a field is reported
    /// in condition FieldsHonoured until it is reverted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub created: BTreeMap<String, String>,
}

/// A disk as it was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedDisk {
    /// Name of the disk.
    pub name: String,
    /// Size in GiB.
    #[serde(rename = "sizeGiB")]
    pub size_gib: i32,
}

/// An operation in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// What is being done: Create, PowerOn, PowerOff, GracefulStop, Reboot, Pause, Reconfigure,
    /// Revert or Delete.
    pub kind: OperationKind,
    /// When it began.
    pub since: Time,
    /// How often it was tried, the running try included.
    #[serde(default)]
    pub attempt: i32,
    /// The provider's task, where it gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_ref: Option<String>,
    /// Id under which the provider knows the request, so that a repeated one is not carried out
    /// twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// What is being done to a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OperationKind {
    /// It is being made.
    Create,
    /// It is being started.
    PowerOn,
    /// Its power is being cut.
    PowerOff,
    /// Its guest is shutting down.
    GracefulStop,
    /// It is being rebooted.
    Reboot,
    /// It is being paused.
    Pause,
    /// Its shape is being changed.
    Reconfigure,
    /// It goes back to a snapshot.
    Revert,
    /// It is being removed.
    Delete,
}

/// A snapshot of the VM on the provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VMSnapshotInfo {
    /// Id of the snapshot.
    pub id: String,
    /// Name of the snapshot.
    pub name: String,
    /// When it was taken.
    pub creation_time: Time,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Space that it takes in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<i64>,
    /// Whether it holds the memory of the VM, too.
    #[serde(default, skip_serializing_if = "crate::schema::is_false")]
    pub has_memory: bool,
}

/// Where a VM stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VMPhase {
    /// Nothing was done yet: something that it needs is missing.
    #[default]
    Pending,
    /// It is being made.
    Provisioning,
    /// It runs.
    Running,
    /// It exists and is off.
    Stopped,
    /// It is being changed.
    Reconfiguring,
    /// It moves to another host.
    Migrating,
    /// It is being removed.
    Deleting,
    /// It needs a change of the spec, or help.
    Failed,
}

/// CPU, memory and GPU that one VM has. Whatever it is, it can be told: limits are for what is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CurrentResources {
    /// Number of virtual CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<i32>,
    /// Memory in MiB.
    #[serde(rename = "memoryMiB", skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<i64>,
    /// GPUs that are passed to the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuConfig>,
}
