//! HostPool: hosts of one Provider that are scheduled by the same rules.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cel::rule;
use crate::infra::CoreRef;

/// How VMs are spread over a group of hosts, and how they migrate there.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "HostPool",
    plural = "hostpools",
    shortname = "hp",
    category = "polyvirt",
    category = "virt",
    namespaced,
    status = "HostPoolStatus",
    derive = "PartialEq",
    doc = "Hosts of one Provider that are scheduled by the same rules. Hosts join it by their spec.poolRef.",
    printcolumn(name = "Strategy", type_ = "string", json_path = ".spec.strategy"),
    printcolumn(
        name = "Provider",
        type_ = "string",
        json_path = ".spec.providerRef.name"
    ),
    printcolumn(name = "Hosts", type_ = "integer", json_path = ".status.totalHosts"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyHosts"),
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
        "Give providerRef.name, the Provider in this namespace whose hosts the pool groups",
    ),
]))]
pub struct HostPoolSpec {
    /// The Provider whose hosts the pool groups, in the namespace of the HostPool. Required by a rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<CoreRef>,
    /// Which of several hosts that fit is chosen: Spread (the one with the most free capacity) or BinPack (the one with the
    /// least). Absent means Spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<PoolStrategy>,
    /// How much more than it has a host of the pool may promise to VMs. It wins over the Provider's overcommit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overcommit: Option<OvercommitRatios>,
    /// Storage pools of the hosts. It has no effect: the provider reports its datastores. Reported in FieldsHonoured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage_pools: Vec<PoolMember>,
    /// Networks of the hosts. It has no effect: the provider reports its networks. Reported in FieldsHonoured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<PoolMember>,
    /// Defaults for VMMigrations to other hosts that do not say so themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration: Option<PoolMigration>,
}

/// Which of several hosts that fit is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PoolStrategy {
    /// The one with the most free capacity.
    #[default]
    Spread,
    /// The one with the least free capacity.
    BinPack,
}

/// How much more than it has a host may promise, as ratios.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OvercommitRatios {
    /// Virtual CPUs for each CPU, such as 4.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Memory for VMs by memory of the host, such as 1.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

/// A storage pool or a network, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolMember {
    /// Its name.
    pub name: String,
}

/// How VMs migrate between hosts of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolMigration {
    /// Whether a VM keeps running while it migrates. Absent means true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_live: Option<bool>,
    /// What becomes of the disks: shared (both hosts have them), block_all (all of them are copied), block_inc (what differs
    /// from the image is copied) or stage_copy (copied while the VM is off). It has no effect: the provider decides by where
    /// the disks are. Reported in FieldsHonoured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_storage_mode: Option<PoolStorageMode>,
    /// Limit of the transfer, in megabits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_mbps: Option<i32>,
    /// The longest downtime at the switch-over, in milliseconds. It has no effect. Reported in FieldsHonoured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_downtime_ms: Option<i32>,
    /// Whether the transfer must be encrypted. Absent means false.
    #[serde(rename = "requireTLS", skip_serializing_if = "Option::is_none")]
    pub require_tls: Option<bool>,
}

/// What becomes of the disks of a VM that migrates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PoolStorageMode {
    /// Both hosts have them.
    Shared,
    /// All of them are copied.
    BlockAll,
    /// What differs from the image is copied.
    BlockInc,
    /// They are copied while the VM is off.
    StageCopy,
}

/// How many hosts the pool has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct HostPoolStatus {
    /// Hosts whose poolRef names this pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_hosts: Option<i32>,
    /// Those of them that are Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_hosts: Option<i32>,
    /// Those of them that are Ready and schedulable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedulable_hosts: Option<i32>,
    /// What is true of the pool, such as Ready, one entry a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = crate::schema::open_items)]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
