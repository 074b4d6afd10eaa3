//! Host: one host of a Provider, as an object of its own.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cel::rule;
use crate::infra::CoreRef;

/// A host of a Provider: which one, and whether it takes VMs.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "Host",
    plural = "hosts",
    shortname = "hvh",
    category = "polyvirt",
    category = "virt",
    namespaced,
    status = "HostStatus",
    derive = "PartialEq",
    doc = "One host of a Provider. The name of the object is the name of the host in the Provider's inventory.",
    printcolumn(name = "Health", type_ = "string", json_path = ".status.health"),
    printcolumn(
        name = "Provider",
        type_ = "string",
        json_path = ".spec.providerRef.name"
    ),
    printcolumn(name = "Pool", type_ = "string", json_path = ".spec.poolRef.name"),
    printcolumn(
        name = "Schedulable",
        type_ = "boolean",
        json_path = ".spec.schedulable"
    ),
    printcolumn(name = "VMs", type_ = "integer", json_path = ".status.boundVMs"),
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
        "has(self.providerRef)",
        "Give providerRef.name, the Provider in this namespace that the host belongs to",
    ),
]))]
pub struct HostSpec {
    /// The Provider that the host belongs to, in the namespace of the Host. Required by a rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<CoreRef>,
    /// The HostPool that the host belongs to, in the namespace of the Host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool_ref: Option<CoreRef>,
    /// Address of the host. It has no effect: a provider connects to the hosts of its own configuration. Reported in
    /// FieldsHonoured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Secret with credentials for this host alone. It has no effect: a provider uses the credentials of the Provider.
    /// Reported in FieldsHonoured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential_secret_ref: Option<CoreRef>,
    /// Labels that nodeSelector, affinity and placement policies match, beside those that the provider reports. A label given
    /// here wins.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Whether the scheduler may put VMs on the host. false is the same as naming it in the Provider's cordonedHosts: VMs that
    /// are there stay. Absent means true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedulable: Option<bool>,
}

/// What the provider reports of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct HostStatus {
    /// Whether the host takes VMs as far as the provider can tell: Ready, NotReady or Unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HostHealth>,
    /// CPUs that VMs may use.
    #[serde(rename = "allocatableCPU", skip_serializing_if = "Option::is_none")]
    pub allocatable_cpu: Option<i32>,
    /// Memory that VMs may use, in MiB.
    #[serde(
        rename = "allocatableMemoryMiB",
        skip_serializing_if = "Option::is_none"
    )]
    pub allocatable_memory_mib: Option<i64>,
    /// Capacity of the datastores that the host has, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable_storage_bytes: Option<i64>,
    /// Model of the host's processors. Absent where the provider does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Features of the host's processors. Absent where the provider does not report them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpu_features: Vec<String>,
    /// Machine types that the host can run. Absent where the provider does not report them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machine_types: Vec<String>,
    /// Version of the emulator. Absent where the provider does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulator_version: Option<String>,
    /// VirtualMachines that run on the host or were assigned to it.
    #[serde(rename = "boundVMs", skip_serializing_if = "Option::is_none")]
    pub bound_vms: Option<i32>,
    /// When this status last changed. It does not advance while nothing changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
    /// What is true of the host, such as Ready, one entry a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = crate::schema::open_items)]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Whether a host takes VMs as far as its provider can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HostHealth {
    /// The provider reaches it.
    Ready,
    /// The provider knows it and does not reach it.
    NotReady,
    /// The provider does not know it, or does not answer.
    #[default]
    Unknown,
}
