//! How a VM is moved between hosts of one provider, and how far that is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::infra::{HostVerdict, ObjectRef};

/// How a VM is moved between hosts of one Provider. What its provider cannot do is refused, never left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LiveMigration {
    /// Whether the guest goes on while it moves: Live or Cold. Defaults to Live.
    pub mode: MoveMode,
    /// Whether memory is compressed on its way. Defaults to false.
    pub compression: bool,
    /// Whether memory is encrypted on its way. Defaults to false.
    pub encrypted: bool,
    /// The most that the move may take of the network: bits a second such as 10Gbps, or bytes a second such as 100Mi or
    /// 1Gi/s. Absent means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub bandwidth: Option<String>,
    /// Whether a guest that writes faster than it can be moved is slowed down. Defaults to false.
    pub auto_converge: bool,
    /// Whether a guest that cannot be moved otherwise is started on the target and fetches what is missing. If a host or the
    /// network fails meanwhile, the VM is lost. Defaults to false.
    pub post_copy: bool,
}

/// Whether the guest goes on while it moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MoveMode {
    /// It does.
    #[default]
    Live,
    /// It is off, or is stopped for the move.
    Cold,
}

/// A move between hosts of one Provider, from the moment that it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostMove {
    /// The VM that moves, written down before anything is asked of its provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<MovedVm>,
    /// The host that it leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_host: Option<String>,
    /// The host that it goes to. Absent where its provider chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_host: Option<String>,
    /// Hosts that were looked at when one was chosen, and what is for or against each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub hosts: Vec<HostVerdict>,
    /// Bytes that are left to move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_bytes: Option<i64>,
    /// How long the guest is expected to stand still, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_downtime_ms: Option<i64>,
    /// How long the guest stood still, in milliseconds, as its provider measured it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downtime_ms: Option<i64>,
    /// When the figures were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<Time>,
    /// When its provider was asked to stop it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<Time>,
    /// How it ended: Moved, Failed or Cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<MoveResult>,
}

/// The VM on the hypervisor that moves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MovedVm {
    /// Namespace and name of its Provider.
    pub provider_ref: ObjectRef,
    /// Id on the hypervisor.
    pub id: String,
    /// Identity on the hypervisor.
    pub identity: String,
}

/// How a move between hosts ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MoveResult {
    /// The VM is on the target.
    Moved,
    /// It is not.
    Failed,
    /// It was stopped before.
    Cancelled,
}
