//! What is done around start and stop of a VM.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is done around start and stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Lifecycle {
    /// Before the VM is started. There is no guest yet: httpGet needs a host, exec is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_start: Option<Hook>,
    /// After the VM has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_start: Option<Hook>,
    /// Before the VM is stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_stop: Option<Hook>,
}

/// One action: a command in the guest, or an HTTP request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Hook {
    /// Runs a command in the guest, through its agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecHook>,
    /// Calls an HTTP server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_get: Option<HttpGetHook>,
    /// How long the action may take, in seconds. Defaults to 30.
    #[serde(default = "crate::schema::int::<30>")]
    pub timeout_seconds: i32,
}

/// A command in the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecHook {
    /// The program and its arguments; no shell is involved.
    pub command: Vec<String>,
    /// How long the command may take, in seconds. Wins over timeoutSeconds of the action; absent means that one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
}

/// An HTTP request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpGetHook {
    /// Path of the request, such as /drain.
    pub path: String,
    /// Port of the server.
    pub port: i32,
    /// Name or address to call. Absent means the first address of the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// HTTP or HTTPS. Absent means HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
}
