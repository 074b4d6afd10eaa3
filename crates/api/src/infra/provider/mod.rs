//! Provider: a hypervisor and the code that speaks to it.

mod runtime;
mod status;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::GoDuration;
use crate::cel::rule;
use crate::infra::ObjectRef;
use crate::schema::ENDPOINT;

pub use runtime::*;
pub use status::*;

/// How to reach a hypervisor, and where the code runs that speaks to it.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "Provider",
    plural = "providers",
    shortname = "prov",
    category = "polyvirt",
    category = "virt",
    namespaced,
    status = "ProviderStatus",
    derive = "PartialEq",
    doc = "A hypervisor, and the code that speaks to it.",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".spec.endpoint"),
    printcolumn(name = "Healthy", type_ = "boolean", json_path = ".status.healthy"),
    printcolumn(
        name = "Connected VMs",
        type_ = "integer",
        json_path = ".status.connectedVMs"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Mode",
        type_ = "string",
        json_path = ".status.runtime.mode",
        priority = 1
    ),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.version",
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
    rule(
        "!has(self.runtime) || self.runtime.mode != 'External' || has(self.endpoint)",
        "Mode External needs endpoint, the address of the provider, such as grpc://host:9443",
    ),
    rule(
        "!(self.type in ['vsphere', 'proxmox']) || has(self.endpoint)",
        "This type needs endpoint, such as https://vcenter.example.com",
    ),
]))]
pub struct ProviderSpec {
    /// Kind of hypervisor: vsphere, libvirt, firecracker, qemu, proxmox, mock, kubevirt, aws or
    /// azure.
    #[serde(rename = "type")]
    pub type_: ProviderType,
    /// Address of the hypervisor, such as https://vcenter.example.com or
    /// qemu+ssh://host/system; in mode External the address of the provider itself, such as
    /// grpc://host:9443. Absent where the kind needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ENDPOINT))]
    pub endpoint: Option<String>,
    /// The Secret with the credentials for the hypervisor. Absent where the kind needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential_secret_ref: Option<ObjectRef>,
    /// Whether to accept any certificate of the hypervisor. Defaults to false.
    #[serde(default)]
    pub insecure_skip_verify: bool,
    /// Where VMs go that do not say so themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defaults: Option<ProviderDefaults>,
    /// Namespaces beside its own whose objects may use this Provider. Absent means none (all with the manager's flag
    /// --sharing=open); an empty selector means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_namespace_selector: Option<LabelSelector>,
    /// Whether VMs are scheduled over the hosts that the provider reports (cluster) or the provider chooses the host itself
    /// (single). Absent means that VMs are scheduled wherever the provider reports hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<ProviderTopology>,
    /// How much more than they have the hosts may promise to VMs for which the scheduler chooses
    /// a host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overcommit: Option<Overcommit>,
    /// Hosts that the scheduler puts no more VMs on. Those that are there stay; `polyvirt host drain` moves them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "set"))]
    pub cordoned_hosts: Vec<String>,
    /// How many calls a second the provider gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// How the health of the provider is watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
    /// Connections between the provider and the hypervisor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_pooling: Option<ConnectionPooling>,
    /// Where the provider's code runs. Absent means mode Remote with all defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Box<ProviderRuntime>>,
}

impl ProviderSpec {
    /// A provider of this kind with nothing else said.
    pub fn new(type_: ProviderType) -> Self {
        Self {
            type_,
            endpoint: None,
            credential_secret_ref: None,
            insecure_skip_verify: false,
            defaults: None,
            consumer_namespace_selector: None,
            topology: None,
            overcommit: None,
            cordoned_hosts: Vec::new(),
            rate_limit: None,
            health_check: None,
            connection_pooling: None,
            runtime: None,
        }
    }
}

/// Who chooses the host of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderTopology {
    /// The provider chooses the host.
    Single,
    /// The scheduler chooses the host.
    Cluster,
}

/// How much more than they have hosts may promise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Overcommit {
    /// CPUs that may be promised, in percent of those that are there. Absent means 400.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 10_000))]
    pub cpu_percent: Option<i32>,
    /// Memory that may be promised, in percent of that which is there. Absent means 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 10_000))]
    pub memory_percent: Option<i32>,
}

/// Where VMs go that do not say so themselves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderDefaults {
    /// Datastore or storage pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub datastore: Option<String>,
    /// Group of datastores, from which the provider picks one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub storage_pod: Option<String>,
    /// Cluster of hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub cluster: Option<String>,
    /// Folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub folder: Option<String>,
    /// Resource pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub resource_pool: Option<String>,
    /// Network.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub network: Option<String>,
}

/// How many calls a provider gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimit {
    /// Calls a second, on average. Defaults to 10.
    #[schemars(range(min = 1, max = 1000))]
    pub qps: i32,
    /// Calls at once after a pause. Defaults to 20.
    #[schemars(range(min = 1, max = 2000))]
    pub burst: i32,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { qps: 10, burst: 20 }
    }
}

/// How the health of a provider is watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthCheck {
    /// Whether to ask at all. Defaults to true.
    pub enabled: bool,
    /// Time between two questions. Defaults to 30s.
    pub interval: GoDuration,
    /// How long an answer may take. Defaults to 10s.
    pub timeout: GoDuration,
    /// Failures in a row that make a provider unhealthy. Defaults to 3.
    #[schemars(range(min = 1, max = 10))]
    pub failure_threshold: i32,
    /// Successes in a row that make it healthy again. Defaults to 1.
    #[schemars(range(min = 1, max = 10))]
    pub success_threshold: i32,
}

impl Default for HealthCheck {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: GoDuration::literal("30s"),
            timeout: GoDuration::literal("10s"),
            failure_threshold: 3,
            success_threshold: 1,
        }
    }
}

/// Connections between a provider and its hypervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectionPooling {
    /// The most connections. Defaults to 10.
    #[schemars(range(min = 1, max = 100))]
    pub max_connections: i32,
    /// The most connections that are kept open unused. Defaults to 5.
    #[schemars(range(min = 1))]
    pub max_idle_connections: i32,
    /// How long connecting may take. Defaults to 30s.
    pub connection_timeout: GoDuration,
    /// How long an unused connection is kept. Defaults to 5m.
    pub idle_timeout: GoDuration,
}

impl Default for ConnectionPooling {
    fn default() -> Self {
        Self {
            max_connections: 10,
            max_idle_connections: 5,
            connection_timeout: GoDuration::literal("30s"),
            idle_timeout: GoDuration::literal("5m"),
        }
    }
}

/// Kind of hypervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderType {
    /// VMware vSphere.
    Vsphere,
    /// libvirt with KVM or QEMU.
    Libvirt,
    /// Firecracker.
    Firecracker,
    /// QEMU, driven directly.
    Qemu,
    /// Proxmox VE.
    Proxmox,
    /// A hypervisor that is only imagined, for tests and trials.
    Mock,
    /// KubeVirt, in this or another cluster.
    Kubevirt,
    /// Amazon EC2.
    Aws,
    /// Microsoft Azure.
    Azure,
}
