//! What is known of a provider.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::infra::{CoreRef, RuntimeMode};

/// What is known of the provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct ProviderStatus {
    /// Whether the provider answered the last questions about its health.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// When health changed last, or was asked for last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_health_check: Option<Time>,
    /// Since when the provider is reached without a break.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected_since: Option<Time>,
    /// How long the last answer took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<i64>,
    /// The last failure to reach the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<ProviderError>,
    /// Whether calls are let through: Closed (yes), Open (no, after failures) or HalfOpen (one
    /// try).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circuit: Option<CircuitState>,
    /// How much is asked of the provider at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ProviderLimits>,
    /// Version of the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How the provider's code runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<ProviderRuntimeStatus>,
    /// What the provider can do, in broad terms.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<ProviderCapability>,
    /// What the provider says it can do, in detail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported_capabilities: Option<ReportedCapabilities>,
    /// Extensions that the provider offers: Watch, Inventory, GuestExec, Console, Identity or
    /// Migrate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<ProviderFeature>,
    /// Paths of the spec fields that the provider acts upon.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub honoured_fields: Vec<String>,
    /// Number of virtual machines on this provider.
    #[serde(rename = "connectedVMs", skip_serializing_if = "Option::is_none")]
    pub connected_vms: Option<i32>,
    /// How full the hypervisor is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_usage: Option<Box<ResourceUsage>>,
    /// Hosts of the provider's inventory, 256 at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<ProviderHost>,
    /// What became of VMs that existed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adoption: Option<Box<AdoptionStatus>>,
    /// What is true of the provider, such as Ready, one entry a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = crate::schema::keyed_by_type)]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// How much is asked of a provider at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderLimits {
    /// Objects that are worked on at once; the others wait in the queue of this provider.
    pub concurrency: i32,
    /// Calls a second, from spec.rateLimit. Absent means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_per_second: Option<i32>,
    /// Calls at once after a pause, from spec.rateLimit. Absent means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<i32>,
}

/// A failure to reach a provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderError {
    /// When it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// What happened.
    pub message: String,
}

/// How a provider's code runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderRuntimeStatus {
    /// Where it runs: Remote, External, Process or InProcess.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<RuntimeMode>,
    /// Where it stands: Pending, Starting, Running, Stopping or Failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<RuntimePhase>,
    /// One sentence about the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Address at which the manager reaches it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The Service in front of its pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_ref: Option<CoreRef>,
    /// Pods that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Pods that have been ready for a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
}

/// What a provider says it can do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedCapabilities {
    /// Whether a running VM can be changed.
    #[serde(skip_serializing_if = "crate::schema::is_false")]
    pub supports_reconfigure_online: bool,
    /// Whether a disk of a running VM can grow.
    #[serde(skip_serializing_if = "crate::schema::is_false")]
    pub supports_disk_expansion_online: bool,
    /// Whether snapshots can be taken.
    #[serde(skip_serializing_if = "crate::schema::is_false")]
    pub supports_snapshots: bool,
    /// Whether snapshots can hold memory.
    #[serde(skip_serializing_if = "crate::schema::is_false")]
    pub supports_memory_snapshots: bool,
    /// Whether clones can share the disks of their source.
    #[serde(skip_serializing_if = "crate::schema::is_false")]
    pub supports_linked_clones: bool,
    /// Whether images can be brought in.
    #[serde(skip_serializing_if = "crate::schema::is_false")]
    pub supports_image_import: bool,
    /// Whether disks can be read out.
    #[serde(skip_serializing_if = "crate::schema::is_false")]
    pub supports_disk_export: bool,
    /// Whether disks can be brought in.
    #[serde(skip_serializing_if = "crate::schema::is_false")]
    pub supports_disk_import: bool,
    /// Whether disks can be read out compressed.
    #[serde(skip_serializing_if = "crate::schema::is_false")]
    pub supports_export_compression: bool,
    /// Whether the provider reports several hosts and creates a VM on the one that is named.
    #[serde(skip_serializing_if = "crate::schema::is_false")]
    pub supports_clustering: bool,
    /// Whether an imported image is found by the UID of its VMImage and a digest of its source, never by its name.
    #[serde(skip_serializing_if = "crate::schema::is_false")]
    pub supports_image_artifact_identity: bool,
    /// Whether the answer to a change states if it needs a restart.
    #[serde(skip_serializing_if = "crate::schema::is_false")]
    pub supports_honest_reconfigure: bool,
    /// Kinds of disks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported_disk_types: Vec<String>,
    /// Kinds of networks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported_network_types: Vec<String>,
    /// Formats in which disks are read out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported_export_formats: Vec<String>,
    /// Formats in which disks are brought in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported_import_formats: Vec<String>,
    /// Places to which disks are read out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported_export_backends: Vec<String>,
    /// Places from which disks are brought in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported_import_backends: Vec<String>,
    /// Ways in which disks move between providers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported_transfer_modes: Vec<String>,
}

/// A host of a provider's inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderHost {
    /// Its name.
    pub name: String,
    /// Whether it takes VMs: Ready, Cordoned or Down.
    pub state: HostState,
}

/// Whether a host takes VMs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HostState {
    /// It takes VMs.
    #[default]
    Ready,
    /// It keeps its VMs and takes no others.
    Cordoned,
    /// It does not answer.
    Down,
}

/// How full a hypervisor is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceUsage {
    /// CPUs: those of the hosts, and those given to VMs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<UsageStats>,
    /// Memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<UsageStats>,
    /// Storage in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<UsageStats>,
    /// Traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStats>,
}

/// How much there is of something, and how much is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UsageStats {
    /// All of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// What is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<i64>,
    /// What is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<i64>,
    /// What is used, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_percent: Option<i32>,
}

/// Traffic of a hypervisor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkStats {
    /// Bytes received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_received: Option<i64>,
    /// Bytes sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<i64>,
    /// Packets received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_received: Option<i64>,
    /// Packets sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_sent: Option<i64>,
}

/// What became of VMs that existed before they were managed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AdoptionStatus {
    /// VMs found that no object stands for.
    #[serde(rename = "discoveredVMs", skip_serializing_if = "Option::is_none")]
    pub discovered_vms: Option<i32>,
    /// VMs for which an object was made.
    #[serde(rename = "adoptedVMs", skip_serializing_if = "Option::is_none")]
    pub adopted_vms: Option<i32>,
    /// VMs for which that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_adoptions: Option<i32>,
    /// When the provider was searched last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_discovery_time: Option<Time>,
    /// One sentence about the last search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Whether calls to a provider are let through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CircuitState {
    /// Yes.
    #[default]
    Closed,
    /// No, after failures in a row.
    Open,
    /// One, to see whether it works again.
    HalfOpen,
}

/// Where a provider's runtime stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RuntimePhase {
    /// Nothing runs yet.
    #[default]
    Pending,
    /// It is being started.
    Starting,
    /// It runs.
    Running,
    /// It is being stopped.
    Stopping,
    /// It cannot be started.
    Failed,
}

/// Something that a provider can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProviderCapability {
    /// Run VMs.
    VirtualMachines,
    /// Take snapshots.
    Snapshots,
    /// Clone VMs.
    Cloning,
    /// Move running VMs.
    LiveMigration,
    /// Show consoles.
    ConsoleAccess,
    /// Add and grow disks.
    DiskManagement,
    /// Connect networks.
    NetworkManagement,
    /// Pass GPUs to VMs.
    #[serde(rename = "GPUPassthrough")]
    GpuPassthrough,
    /// Restart VMs elsewhere when a host fails.
    HighAvailability,
    /// Back VMs up.
    Backup,
    /// Make VMs from templates.
    Templates,
}

/// An extension of the provider contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProviderFeature {
    /// Events of VMs as they happen.
    Watch,
    /// Hosts, datastores and networks with their capacity.
    Inventory,
    /// Commands in the guest.
    GuestExec,
    /// A console stream.
    Console,
    /// VMs found by our own identity.
    Identity,
    /// VMs moved to another host.
    Migrate,
    /// What VMs use.
    Usage,
    /// VMs paused and let go on.
    Pause,
}
