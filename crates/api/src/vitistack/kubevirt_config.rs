//! KubevirtConfig: the way to a cluster with KubeVirt.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The way to a cluster with KubeVirt.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "vitistack.io",
    version = "v1alpha1",
    kind = "KubevirtConfig",
    plural = "kubevirtconfigs",
    shortname = "kvc",
    category = "polyvirt",
    namespaced,
    status = "KubevirtConfigStatus",
    derive = "PartialEq",
    doc = "A cluster with KubeVirt, in which the VMs of Machines run.",
    printcolumn(name = "Name", type_ = "string", json_path = ".spec.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.status"),
    printcolumn(
        name = "KubeVirt",
        type_ = "string",
        json_path = ".status.kubevirtVersion",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.message",
        priority = 1
    ),
    printcolumn(name = "Created", type_ = "string", json_path = ".status.created")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct KubevirtConfigSpec {
    /// Name of the cluster, for people.
    pub name: String,
    /// Name of the Secret that holds the kubeconfig of the cluster under the key kubeconfig.
    pub kubeconfig_secret_ref: String,
    /// Namespace of that Secret. Absent means the namespace of this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_namespace: Option<String>,
}

/// What is known of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct KubevirtConfigStatus {
    /// Pending until the cluster was asked, Ready if VMs can be made in it, Failed if not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Connected or Disconnected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// One sentence about the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Name of the cluster, as spec.name has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When this object was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Version of KubeVirt in the cluster, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubevirt_version: Option<String>,
    /// Versions of the group kubevirt.io that the cluster serves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_versions: Vec<String>,
    /// The last failure to reach the cluster. It stays when the cluster is reached again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error_time: Option<Time>,
    /// How long the last answer of the cluster took, in milliseconds, when something else changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<i64>,
    /// Name of the Provider that was made of this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<String>,
    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
