//! What VMs should be near to, or away from.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cel::rule;

/// What virtual machines should be near to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlacementAffinity {
    /// Other virtual machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_affinity: Option<VMAffinity>,
    /// Hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_affinity: Option<HostAffinity>,
    /// Clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Datastores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datastore_affinity: Option<DatastoreAffinity>,
    /// Zones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_affinity: Option<ZoneAffinity>,
    /// Virtual machines of the same application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application_affinity: Option<ApplicationAffinity>,
}

/// What virtual machines should be away from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlacementAntiAffinity {
    /// Other virtual machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_anti_affinity: Option<VMAffinity>,
    /// Each other, by host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_anti_affinity: Option<HostAntiAffinity>,
    /// Each other, by cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_anti_affinity: Option<ClusterAntiAffinity>,
    /// Each other, by datastore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datastore_anti_affinity: Option<DatastoreAntiAffinity>,
    /// Each other, by zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_anti_affinity: Option<ZoneAntiAffinity>,
    /// Virtual machines of the same application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application_anti_affinity: Option<ApplicationAffinity>,
}

/// Other virtual machines to be near to, or away from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VMAffinity {
    /// What must be met when a place is chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub required_during_scheduling: Vec<VMAffinityTerm>,
    /// What should be met when a place is chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub preferred_during_scheduling: Vec<WeightedVMAffinityTerm>,
}

/// A wish with a weight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WeightedVMAffinityTerm {
    /// Weight against other wishes.
    #[schemars(range(min = 1, max = 100))]
    pub weight: i32,
    /// The wish.
    pub vm_affinity_term: VMAffinityTerm,
}

/// Virtual machines, and what being near them means.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VMAffinityTerm {
    /// Labels of the virtual machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Further demands on their labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub match_expressions: Vec<VMLabelRequirement>,
    /// Their namespaces. Absent means that of the policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub namespaces: Vec<String>,
    /// Labels of their namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// What two of them share when they are near: a label of hosts, or host, cluster, datastore
    /// or zone.
    #[schemars(length(max = 253))]
    pub topology_key: String,
}

/// A demand on a label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
        "Operators In and NotIn need values, Exists and DoesNotExist take none",
    ),
]))]
pub struct VMLabelRequirement {
    /// Key of the label.
    #[schemars(length(max = 253))]
    pub key: String,
    /// How it is compared: In, NotIn, Exists or DoesNotExist.
    pub operator: LabelOperator,
    /// Values to compare with, for In and NotIn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub values: Vec<String>,
}

/// Hosts to be near to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostAffinity {
    /// Whether the rule is in force.
    pub enabled: bool,
    /// The hosts. Absent means the host of the others that name this policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub preferred_hosts: Vec<String>,
    /// Whether the rule must be met (strict) or should be (preferred). Absent means preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<AffinityScope>,
}

/// Clusters to be near to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// Whether the rule is in force.
    pub enabled: bool,
    /// The clusters. Absent means the cluster of the others that name this policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub preferred_clusters: Vec<String>,
    /// Whether the rule must be met (strict) or should be (preferred). Absent means preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<AffinityScope>,
}

/// Datastores to be near to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatastoreAffinity {
    /// Whether the rule is in force.
    pub enabled: bool,
    /// The datastores. Absent means the datastore of the others that name this policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub preferred_datastores: Vec<String>,
    /// Whether the rule must be met (strict) or should be (preferred). Absent means preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<AffinityScope>,
}

/// Zones to be near to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneAffinity {
    /// Whether the rule is in force.
    pub enabled: bool,
    /// The zones. Absent means the zone of the others that name this policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub preferred_zones: Vec<String>,
    /// Whether the rule must be met (strict) or should be (preferred). Absent means preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<AffinityScope>,
}

/// Virtual machines of the same application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationAffinity {
    /// Whether the rule is in force.
    pub enabled: bool,
    /// The label whose value names the application. Defaults to app.
    #[serde(default = "default_app")]
    pub application_label: String,
    /// Whether the rule must be met (strict) or should be (preferred). Absent means preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<AffinityScope>,
}

/// How many may share a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostAntiAffinity {
    /// Whether the rule is in force.
    pub enabled: bool,
    /// The most virtual machines on one host. Absent means 1.
    #[serde(rename = "maxVMsPerHost", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_vms_per_host: Option<i32>,
    /// Whether the rule must be met (strict) or should be (preferred). Absent means preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<AffinityScope>,
}

/// How many may share a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAntiAffinity {
    /// Whether the rule is in force.
    pub enabled: bool,
    /// The most virtual machines in one cluster. Absent means 1.
    #[serde(rename = "maxVMsPerCluster", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_vms_per_cluster: Option<i32>,
    /// Whether the rule must be met (strict) or should be (preferred). Absent means preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<AffinityScope>,
}

/// How many may share a datastore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatastoreAntiAffinity {
    /// Whether the rule is in force.
    pub enabled: bool,
    /// The most virtual machines on one datastore. Absent means 1.
    #[serde(rename = "maxVMsPerDatastore", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_vms_per_datastore: Option<i32>,
    /// Whether the rule must be met (strict) or should be (preferred). Absent means preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<AffinityScope>,
}

/// How many may share a zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneAntiAffinity {
    /// Whether the rule is in force.
    pub enabled: bool,
    /// The most virtual machines in one zone. Absent means 1.
    #[serde(rename = "maxVMsPerZone", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_vms_per_zone: Option<i32>,
    /// Whether the rule must be met (strict) or should be (preferred). Absent means preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<AffinityScope>,
}

/// How binding a rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AffinityScope {
    /// It must be met.
    Strict,
    /// It should be met.
    Preferred,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::enum_in_all_of)]
pub enum LabelOperator {
    /// Its value is one of the values.
    In,
    /// Its value is none of the values.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}

fn default_app() -> String {
    "app".to_owned()
}
