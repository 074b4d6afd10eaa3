//! VMPlacementPolicy: where VMs may run.

mod affinity;
mod status;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cel::rule;

pub use affinity::*;
pub use status::*;

/// Where virtual machines that name this policy may run.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VMPlacementPolicy",
    plural = "vmplacementpolicies",
    shortname = "vmpp",
    category = "polyvirt",
    category = "virt",
    namespaced,
    status = "VMPlacementPolicyStatus",
    derive = "PartialEq",
    doc = "Where virtual machines that name this policy may run.",
    printcolumn(
        name = "Used By VMs",
        type_ = "integer",
        json_path = ".status.usedByCount"
    ),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority"),
    printcolumn(
        name = "Successful",
        type_ = "integer",
        json_path = ".status.placementStats.successfulPlacements"
    ),
    printcolumn(
        name = "Failed",
        type_ = "integer",
        json_path = ".status.placementStats.failedPlacements"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct VMPlacementPolicySpec {
    /// What a place must meet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard: Option<PlacementConstraints>,
    /// What a place should meet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft: Option<PlacementConstraints>,
    /// What virtual machines should be near to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Box<PlacementAffinity>>,
    /// What virtual machines should be away from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<Box<PlacementAntiAffinity>>,
    /// What a host must have free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_constraints: Option<ResourceConstraints>,
    /// What a host must offer for safety.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_constraints: Option<SecurityConstraints>,
    /// Rank of the policy against others; the highest wins. Absent means 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub priority: Option<i32>,
    /// Weight of the soft wishes against those of other policies. Absent means 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub weight: Option<i32>,
}

/// Places, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlacementConstraints {
    /// Clusters to use. Absent means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub clusters: Vec<String>,
    /// Clusters not to use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub excluded_clusters: Vec<String>,
    /// Hosts to use. Absent means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200))]
    pub hosts: Vec<String>,
    /// Hosts not to use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200))]
    pub excluded_hosts: Vec<String>,
    /// Datastores or storage pools to use. Absent means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub datastores: Vec<String>,
    /// Datastores or storage pools not to use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub excluded_datastores: Vec<String>,
    /// Folders to use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub folders: Vec<String>,
    /// Resource pools to use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub resource_pools: Vec<String>,
    /// Networks that a host must be on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub networks: Vec<String>,
    /// Zones to use. Absent means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub zones: Vec<String>,
    /// Regions to use. Absent means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub regions: Vec<String>,
    /// Labels that a host must carry.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of hosts that virtual machines bear.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub tolerations: Vec<PlacementToleration>,
}

/// Taints that a virtual machine bears.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "self.operator != 'Exists' || !has(self.value)",
        "Operator Exists compares no value: leave value out",
    ),
]))]
pub struct PlacementToleration {
    /// Key of the taint. Absent means every key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub key: Option<String>,
    /// How value is compared: Exists (not at all) or Equal. Defaults to Equal.
    pub operator: TolerationOperator,
    /// Value of the taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub value: Option<String>,
    /// Effect of the taint: NoSchedule, PreferNoSchedule or NoExecute. Absent means every
    /// effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// How long a taint with effect NoExecute is borne, in seconds. Absent means for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub toleration_seconds: Option<i64>,
}

/// What a host must have free.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceConstraints {
    /// Free CPUs.
    #[serde(rename = "minCPUPerHost", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_cpu_per_host: Option<i32>,
    /// Free memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub min_memory_per_host: Option<Quantity>,
    /// Free disk space.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub min_disk_space_per_host: Option<Quantity>,
    /// CPU that may be in use, in percent.
    #[serde(rename = "maxCPUUtilization", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub max_cpu_utilization: Option<i32>,
    /// Memory that may be in use, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub max_memory_utilization: Option<i32>,
    /// Disk space that may be in use, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub max_disk_utilization: Option<i32>,
    /// Features that a host must have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub required_features: Vec<String>,
    /// Features that a host should have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub preferred_features: Vec<String>,
}

/// What a host must offer for safety.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SecurityConstraints {
    /// Whether it must have booted securely. Defaults to false.
    #[serde(skip_serializing_if = "crate::schema::is_false")]
    pub require_secure_boot: bool,
    /// Whether it must have a TPM. Defaults to false.
    #[serde(rename = "requireTPM", skip_serializing_if = "crate::schema::is_false")]
    pub require_tpm: bool,
    /// Whether its storage must be encrypted. Defaults to false.
    #[serde(skip_serializing_if = "crate::schema::is_false")]
    pub require_encrypted_storage: bool,
    /// Whether it must show its NUMA nodes to guests. Defaults to false.
    #[serde(
        rename = "requireNUMATopology",
        skip_serializing_if = "crate::schema::is_false"
    )]
    pub require_numa_topology: bool,
    /// How far VMs must be kept apart: none, basic, strict or maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation_level: Option<IsolationLevel>,
    /// How far the host must be trusted: untrusted, basic, trusted or highly-trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust_level: Option<TrustLevel>,
    /// Security groups that may share the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub allowed_security_groups: Vec<String>,
    /// Security groups that may not share the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub denied_security_groups: Vec<String>,
}

/// How the value of a taint is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::enum_in_all_of)]
pub enum TolerationOperator {
    /// It must be the same.
    #[default]
    Equal,
    /// It does not matter.
    Exists,
}

/// Effect of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// Nothing new is put there.
    NoSchedule,
    /// Nothing new is put there if there is another place.
    PreferNoSchedule,
    /// What is there must leave.
    NoExecute,
}

/// How far VMs are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IsolationLevel {
    /// Not at all.
    None,
    /// By the hypervisor.
    Basic,
    /// By hosts of one owner.
    Strict,
    /// By hosts of their own.
    Maximum,
}

/// How far a host is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrustLevel {
    /// Not at all.
    Untrusted,
    /// A little.
    Basic,
    /// Well.
    Trusted,
    /// As far as can be.
    HighlyTrusted,
}
