//! What the planner of moves can want.

use std::time::Duration;

use polyvirt_api::infra::MoveResult;
use polyvirt_contract::{ProviderError, TaskId};

use crate::problem::Problem;

/// The one next step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing to do.
    Done(Done),
    /// Write our finalizer.
    Claim,
    /// Choose a host, and write down the VM and that it is about to move.
    RecordIntent,
    /// Take back that it is about to move: another object was first.
    Yield(String),
    /// Ask the provider for the VM.
    Look,
    /// Ask the provider to move it.
    Send,
    /// Ask how the task stands.
    CheckTask(TaskId),
    /// Ask the provider to stop.
    Cancel(Stop),
    /// Write down that it failed, and when it is tried again.
    Retry(ProviderError),
    /// Write down how it ended.
    Finish(End),
    /// Take our finalizer off.
    Release(Release),
    /// Nothing to do until something happens.
    Wait(Wait),
    /// Cannot go on until the object, or what it refers to, changes.
    Stop(Problem),
}

/// How a pass can end well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The move is over; what was told of it stays.
    Over(MoveResult),
    /// The user has paused us.
    Paused,
    /// The object is going and nothing of ours is on it.
    NothingToRelease,
}

/// Why a move is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The user asked for it.
    Asked,
    /// The object was deleted.
    Deleted,
    /// The VirtualMachine is being deleted, or is gone.
    VmLeaving,
    /// `spec.options.timeout` is over.
    TimedOut,
}

/// How a move ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The VM is on the target.
    Moved,
    /// It was there before it was asked for.
    WasThere,
    /// It is not, for this reason.
    Failed(ProviderError),
    /// It was stopped.
    Stopped(Stop),
    /// The VM is gone from the hypervisor.
    VmGone,
}

impl End {
    /// The word in the status.
    pub const fn result(&self) -> MoveResult {
        match self {
            Self::Moved | Self::WasThere => MoveResult::Moved,
            Self::Failed(_) | Self::VmGone | Self::Stopped(Stop::TimedOut) => MoveResult::Failed,
            Self::Stopped(_) => MoveResult::Cancelled,
        }
    }
}

/// Why the finalizer may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Nothing is under way.
    AtRest,
    /// The user forced it; the VM may still move.
    Forced,
}

/// What a pass waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The reason, which is also the condition's.
    pub on: WaitFor,
    /// Look again after this time even if nothing wakes us.
    pub recheck: Option<Duration>,
}

/// What can be waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// This process has just begun and is connecting.
    ProviderConnecting,
    /// The provider does not answer.
    ProviderUnavailable,
    /// There is no such Provider.
    ProviderMissing,
    /// There is no such VirtualMachine.
    VmMissing,
    /// Its VM was not made yet.
    VmNotMade,
    /// It is being deleted.
    VmLeaving,
    /// Something else is being done to it.
    VmBusy,
    /// It is off, and a live move was asked for.
    VmOff,
    /// Another object moves it.
    Behind(String),
    /// The pause before the next try.
    Pause,
    /// A request that nobody answered may still be on its way.
    LateRequest,
}

impl Step {
    pub(super) const fn wait(on: WaitFor) -> Self {
        Self::Wait(Wait { on, recheck: None })
    }

    pub(super) const fn wait_at_most(on: WaitFor, recheck: Duration) -> Self {
        Self::Wait(Wait {
            on,
            recheck: Some(recheck),
        })
    }
}
