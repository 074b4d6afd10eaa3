//! What is known of a policy.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::infra::LocalRef;

/// What is known of the policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct VMPlacementPolicyStatus {
    /// Virtual machines that name the policy, the first thousand.
    #[serde(rename = "usedByVMs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub used_by_vms: Vec<LocalRef>,
    /// Number of virtual machines that name the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_by_count: Option<i32>,
    /// What choosing places came to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_stats: Option<PlacementStats>,
    /// Policies that contradict this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub conflicting_policies: Vec<PolicyConflict>,
    /// Whether each Provider can follow the policy, by the name of the Provider.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub validation_results: BTreeMap<String, PolicyValidation>,
    /// What is true of the policy, such as Ready, one entry a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = crate::schema::keyed_by_type)]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// What choosing places came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlacementStats {
    /// How often a place was looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_placements: Option<i32>,
    /// How often one was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successful_placements: Option<i32>,
    /// How often none was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_placements: Option<i32>,
    /// How often a wish had to be given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint_violations: Option<i32>,
    /// How long it took on average, as a duration such as 12ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_placement_time: Option<String>,
    /// When a place was looked for last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_placement_time: Option<Time>,
    /// Virtual machines by place.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub placement_distribution: BTreeMap<String, i32>,
}

/// A policy that contradicts this one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyConflict {
    /// Name of the policy.
    pub policy_name: String,
    /// What they contradict each other in: hard, soft, resource, security or affinity.
    pub conflict_type: ConflictType,
    /// How bad it is: low, medium, high or critical.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<ConflictSeverity>,
    /// How they contradict each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution_suggestion: Option<String>,
}

/// Whether one Provider can follow a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyValidation {
    /// Whether it can.
    pub valid: bool,
    /// Why it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it cannot follow at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub errors: Vec<String>,
    /// What it can follow in part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub warnings: Vec<String>,
    /// Rules that it can follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub supported_features: Vec<String>,
    /// Rules that it cannot follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub unsupported_features: Vec<String>,
    /// When this was found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_validated: Option<Time>,
}

/// What two policies contradict each other in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConflictType {
    /// Their demands.
    Hard,
    /// Their wishes.
    Soft,
    /// What a host must have free.
    Resource,
    /// What a host must offer.
    Security,
    /// Near and away.
    Affinity,
}

/// How bad a contradiction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConflictSeverity {
    /// It seldom matters.
    Low,
    /// It may matter.
    Medium,
    /// It often matters.
    High,
    /// No place meets both.
    Critical,
}
