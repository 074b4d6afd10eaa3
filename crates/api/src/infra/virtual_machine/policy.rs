//! What the engine may do to a VM on its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to do when the hypervisor shows something else than what was last applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DriftPolicy {
    /// The power state was changed: Report it in a condition, or Correct it. Absent means
    /// Report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<DriftAction>,
    /// CPU, memory or a disk was changed: Report it in a condition, or Correct it. Absent means
    /// Report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<DriftAction>,
    /// The VM was deleted: Report it in a condition, or Recreate it from its image (what was on
    /// its disks is lost). Absent means Report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<DriftDeletion>,
}

/// What to do about a change that was made on the hypervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriftAction {
    /// Say so in a condition and leave it.
    #[default]
    Report,
    /// Put it back to what the spec says.
    Correct,
}

/// What to do about a VM that was deleted on the hypervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriftDeletion {
    /// Say so in a condition and leave it.
    #[default]
    Report,
    /// Make it again from its image.
    Recreate,
}

/// How changes of a running VM are carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReconfigurePolicy {
    /// Whether the engine may restart the VM when a change needs that: Never (the change waits
    /// in status.restartRequired) or WhenNeeded. Absent means Never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartPolicy>,
}

/// Whether a VM may be restarted for a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RestartPolicy {
    /// The change waits for the next restart that somebody else causes.
    #[default]
    Never,
    /// The VM is restarted when the change cannot be made while it runs.
    WhenNeeded,
}

/// When the image of a VM is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DiskImagePull {
    /// When the provider lacks it.
    #[default]
    IfNotPresent,
    /// Its origin is looked at for each new VM, and what has changed there is fetched.
    Always,
    /// Never: the provider must have it.
    Never,
}
