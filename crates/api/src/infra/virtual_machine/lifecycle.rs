//! Actions around start and stop of a VM.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::GoDuration;
use crate::cel::exactly_one;

/// Actions around start and stop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VMLifecycle {
    /// What to do before the VM is started. It cannot be a command: the guest does not run yet. The
    /// VM stays off if it fails, unless failurePolicy says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_start: Option<LifecycleHandler>,
    /// What to do after the VM has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_start: Option<LifecycleHandler>,
    /// What to do before the VM is stopped or deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_stop: Option<LifecycleHandler>,
    /// How long the guest may take to shut down before its power is cut. Defaults to 60s.
    pub graceful_shutdown_timeout: GoDuration,
}

impl Default for VMLifecycle {
    fn default() -> Self {
        Self {
            pre_start: None,
            post_start: None,
            pre_stop: None,
            graceful_shutdown_timeout: GoDuration::literal("60s"),
        }
    }
}

/// One action; give exactly one of its members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    exactly_one(&["exec", "httpGet", "snapshot"]),
]))]
pub struct LifecycleHandler {
    /// Runs a command in the guest, through its agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecAction>,
    /// Calls an HTTP server in the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_get: Option<HttpGetAction>,
    /// Takes a snapshot of the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotAction>,
    /// How many seconds it may take. Absent means 30, and 300 for a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 300))]
    pub timeout_seconds: Option<i32>,
    /// What happens when it fails three times: Fail keeps the VM as it is, Ignore tells and goes on.
    /// Absent means Fail for preStart and Ignore for the others. A VM that is deleted is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<HookFailurePolicy>,
}

/// What the failure of an action means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HookFailurePolicy {
    /// The VM stays as it is.
    Fail,
    /// It is told, and work goes on.
    Ignore,
}

/// A command in the guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecAction {
    /// The program and its arguments; no shell is involved.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
}

/// An HTTP request to the guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpGetAction {
    /// Path of the request. Absent means /.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Port of the server.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: i32,
    /// Name or address to call. Absent means the first address of the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// HTTP or HTTPS. Defaults to HTTP.
    #[serde(default)]
    pub scheme: UriScheme,
}

/// A snapshot to take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotAction {
    /// Name of the snapshot. The VMSnapshot has this name between that of the VM and the time.
    pub name: String,
    /// Whether the snapshot holds the memory of the VM, too. Defaults to false.
    #[serde(default, skip_serializing_if = "crate::schema::is_false")]
    pub include_memory: bool,
    /// What the snapshot is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// How to speak to an HTTP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum UriScheme {
    /// In the clear.
    #[default]
    Http,
    /// With TLS.
    Https,
}
