//! The stream by which a provider tells what changed, so that nobody has to ask.

use crate::error::ProviderError;
use crate::ids::{Identity, TaskId, VmId};
use crate::model::VmState;

/// More VMs than one provider can have. What tells of more is not believed at all.
pub const MOST_VMS: usize = 100_000;

/// How a task stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Still at work; `percent` where the provider knows it.
    Running {
        /// From 0 to 100.
        percent: Option<u8>,
    },
    /// Finished well.
    Succeeded,
    /// Finished badly. The VM may be in any state: look before the next step.
    Failed(ProviderError),
}

/// One message of the watch stream.
///
/// A stream begins with one `State` for each VM, then `Synced`, then changes. Messages may come late, twice or out of order:
/// [`VmState::revision`] tells which of two is newer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all events are states: a box would cost more than it saves"
)]
pub enum VmEvent {
    /// A VM as it is.
    State(VmState),
    /// A VM is gone from the hypervisor.
    Gone {
        /// The VM.
        id: VmId,
        /// Its identity, where it had one.
        identity: Option<Identity>,
        /// Newer than every `State` of the VM that it follows.
        revision: u64,
    },
    /// All VMs that were there when the stream began have been told.
    Synced,
    /// A task moved on.
    Task {
        /// The task.
        id: TaskId,
        /// How it stands now.
        state: TaskState,
    },
    /// Nothing happened; the stream is alive.
    Heartbeat,
}
