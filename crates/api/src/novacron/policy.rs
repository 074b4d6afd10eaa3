//! Migration, snapshots and updates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether and how a VM may move between nodes while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MigrationPolicy {
    /// Whether the VM may move while it runs. Defaults to false.
    pub allow_live_migration: bool,
    /// Whether what is sent is compressed. Defaults to false.
    pub compression: bool,
    /// Whether what is sent is encrypted. Defaults to false.
    pub encrypted: bool,
    /// The most that is sent: bits a second such as 10Gbps, or bytes a second such as 500MB/s or
    /// 1Gi. Absent means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<String>,
}

/// When snapshots are taken, and how many are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotPolicy {
    /// When to take one: five fields of cron such as 0 2 * * *, or a word such as @daily. In UTC, or
    /// in the time zone that stands before it, such as TZ=Europe/Oslo. Absent means that none is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// How many are kept, from 1 to 100; the oldest go first. Absent or 0 means all, up to 500, when
    /// no more are taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<i32>,
}

/// How a change is brought to a VM that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// Recreate: the VM is restarted where a change needs that. RollingUpdate: only if
    /// rollingUpdate.maxUnavailable is 1 or more. Its disks are kept in any case.
    #[serde(rename = "type")]
    pub type_: String,
    /// Settings of RollingUpdate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
}

/// Settings of a rolling update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// How many VMs may be down at once. This object is one VM: 0 forbids a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<i32>,
}
