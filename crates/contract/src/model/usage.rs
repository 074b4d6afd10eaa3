//! What VMs use.

use std::time::Duration;

use crate::ids::VmId;

/// What a running VM uses. VMs that are off use nothing and are not told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmUsage {
    /// The VM.
    pub id: VmId,
    /// Processor time since it started: a rate is the difference of two answers. Less than before means that it started anew.
    pub cpu_time: Duration,
    /// Memory of the host that it occupies, in bytes; `None` if unknown.
    pub memory_bytes: Option<u64>,
}
