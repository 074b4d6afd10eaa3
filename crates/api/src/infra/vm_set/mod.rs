//! VMSet: a number of VMs made from one template.

mod status;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cel::rule;
use crate::infra::VirtualMachineSpec;

pub use status::*;

/// A number of virtual machines made from one template.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VMSet",
    plural = "vmsets",
    shortname = "vmset",
    category = "polyvirt",
    category = "virt",
    namespaced,
    status = "VMSetStatus",
    derive = "PartialEq",
    doc = "A number of virtual machines made from one template.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(
        name = "Updated",
        type_ = "integer",
        json_path = ".status.updatedReplicas"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
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
        "self.selector == oldSelf.selector",
        "The selector is fixed: make another VMSet",
    ),
    rule(
        "has(self.selector.matchLabels) && self.selector.matchLabels.size() > 0 \
         || has(self.selector.matchExpressions) && self.selector.matchExpressions.size() > 0",
        "The selector must name at least one label",
    ),
    rule(
        "!has(self.selector.matchLabels) || !has(self.template.metadata) \
         || !has(self.template.metadata.labels) \
         || self.template.metadata.labels.all(k, !(k in self.selector.matchLabels) \
         || self.selector.matchLabels[k] == self.template.metadata.labels[k])",
        "The labels of the template must match the selector",
    ),
]))]
pub struct VMSetSpec {
    /// Number of virtual machines. Defaults to 1.
    #[serde(default = "crate::schema::int::<1>")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,
    /// Labels by which the set knows its virtual machines; those of the template must not
    /// contradict them.
    pub selector: LabelSelector,
    /// What each virtual machine is made from.
    pub template: VMTemplate,
    /// The Service that gives the virtual machines their names in DNS.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub service_name: Option<String>,
    /// How the virtual machines are numbered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinals: Option<SetOrdinals>,
    /// Seconds that a virtual machine must be ready to count as available. Absent means 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub min_ready_seconds: Option<i32>,
    /// How a change of the template reaches the virtual machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<SetUpdateStrategy>,
    /// Old revisions of the template that are kept. Defaults to 10.
    #[serde(default = "crate::schema::int::<10>")]
    #[schemars(range(min = 0, max = 100))]
    pub revision_history_limit: i32,
    /// What becomes of the volume claims of virtual machines that go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_retention_policy: Option<ClaimRetention>,
    /// Volume claims that each virtual machine gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub volume_claim_templates: Vec<VolumeClaimTemplate>,
}

/// What the virtual machines of a set are made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VMTemplate {
    /// Labels and annotations of the virtual machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// The virtual machine.
    pub spec: VirtualMachineSpec,
}

/// Labels and annotations of objects that are made from a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateMetadata {
    /// Name of the object; only volume claims use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::schema::labels")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// How the virtual machines of a set are numbered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SetOrdinals {
    /// Number of the first one. Defaults to 0.
    #[schemars(range(min = 0, max = 999_999))]
    pub start: i32,
}

/// How a change of the template reaches the virtual machines of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SetUpdateStrategy {
    /// How: RollingUpdate (few at a time), OnDelete (as they are deleted) or Recreate (all at
    /// once). Defaults to RollingUpdate.
    #[serde(rename = "type")]
    pub type_: SetUpdateType,
    /// Pace of a rolling update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
}

/// Pace of a rolling update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "type(self.maxUnavailable) == int ? self.maxUnavailable >= 0 \
         : self.maxUnavailable.matches('^[0-9]{1,3}%$')",
        "maxUnavailable is a number or a percentage such as 25%",
    ),
    rule(
        "type(self.maxSurge) == int ? self.maxSurge >= 0 : self.maxSurge.matches('^[0-9]{1,3}%$')",
        "maxSurge is a number or a percentage such as 25%",
    ),
    rule(
        "!(self.maxUnavailable in [dyn(0), dyn('0%')] && self.maxSurge in [dyn(0), dyn('0%')])",
        "maxUnavailable and maxSurge cannot both be 0: nothing could be updated",
    ),
]))]
pub struct RollingUpdate {
    /// Virtual machines that may be missing meanwhile, as a number or a percentage. Defaults to
    /// 25%.
    pub max_unavailable: IntOrString,
    /// Virtual machines that may be there beyond replicas, as a number or a percentage.
    /// Defaults to 25%.
    pub max_surge: IntOrString,
    /// Virtual machines with a lower number keep the old template. Absent means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub partition: Option<i32>,
    /// Whether virtual machines are handled one after another (OrderedReady) or at once
    /// (Parallel). Defaults to OrderedReady.
    pub pod_management_policy: PodManagementPolicy,
}

impl Default for RollingUpdate {
    fn default() -> Self {
        Self {
            max_unavailable: IntOrString::String("25%".to_owned()),
            max_surge: IntOrString::String("25%".to_owned()),
            partition: None,
            pod_management_policy: PodManagementPolicy::default(),
        }
    }
}

/// What becomes of volume claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimRetention {
    /// When the set is deleted: Retain or Delete them. Defaults to Retain.
    pub when_deleted: ClaimFate,
    /// When the set is made smaller: Retain or Delete them. Defaults to Retain.
    pub when_scaled: ClaimFate,
}

/// A volume claim that each virtual machine of a set gets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeClaimTemplate {
    /// Name, labels and annotations of the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// The claim.
    pub spec: PersistentVolumeClaimSpec,
}

/// How a change of the template reaches the virtual machines of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SetUpdateType {
    /// Few at a time.
    #[default]
    RollingUpdate,
    /// As they are deleted by somebody.
    OnDelete,
    /// All at once.
    Recreate,
}

/// Whether virtual machines are handled one after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::enum_in_all_of)]
pub enum PodManagementPolicy {
    /// One after another.
    #[default]
    OrderedReady,
    /// At once.
    Parallel,
}

/// What becomes of a volume claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::enum_in_all_of)]
pub enum ClaimFate {
    /// It is kept.
    #[default]
    Retain,
    /// It is deleted.
    Delete,
}
