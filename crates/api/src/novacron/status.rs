//! What is known of a VM.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is known of the VM.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct VirtualMachineStatus {
    /// Where the VM stands: Pending, Running, Stopped, Migrating or Failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The node, or host, that runs the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Id of the VM on its provider.
    #[serde(rename = "vmID", skip_serializing_if = "Option::is_none")]
    pub vm_id: Option<String>,
    /// Addresses of the guest, the most useful one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses: Vec<String>,
    /// CPU, memory and disk that the VM has and uses, as far as they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceUsage>,
    /// What is true of the VM, such as Ready, one entry a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = crate::schema::keyed_by_type)]
    pub conditions: Vec<VmCondition>,
    /// The migration that is going on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration: Option<MigrationStatus>,
    /// Snapshots of the VM on the provider.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<SnapshotStatus>,
    /// Why no Provider takes the VM. Absent once one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Unplaced>,
    /// When this status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Why no Provider takes a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Unplaced {
    /// In one sentence.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// What is against each host, the first of them, and against each Provider whose hosts were not looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub hosts: Vec<Obstacle>,
}

/// What is against a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Obstacle {
    /// Namespace and name of its Provider.
    pub provider: String,
    /// Name of the host. Absent where the whole Provider is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What is against it.
    pub message: String,
}

/// Something that is true, or not, of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VmCondition {
    /// What: Ready, LiveMigratable or FieldsHonoured.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// Why, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When this was looked at last. Not written here, for it would change all the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// When status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// CPU, memory and disk of a VM.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceUsage {
    /// CPU, in cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Usage>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Usage>,
    /// Disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<Usage>,
}

/// How much of something a VM has and uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// What it uses. Always absent: it changes all the time, and is told by the metrics
    /// novacron_vm_cpu_usage_cores and novacron_vm_memory_usage_bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<String>,
    /// What it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<String>,
    /// The part of it that is used, in percent. Always absent, as used is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "plain_number")]
    pub percentage: Option<f64>,
}

/// NovaCron states no format.
fn plain_number(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "number"})
}

/// A migration that is going on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MigrationStatus {
    /// How far it is, in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The node that the VM goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_node: Option<String>,
    /// How far it is, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<i32>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
}

/// A snapshot of a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotStatus {
    /// Name of the snapshot.
    pub name: String,
    /// When it was taken.
    pub created_at: Time,
    /// Space that it takes, such as 2Gi.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
}
