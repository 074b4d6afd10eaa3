//! What the planner of snapshots can want.

use std::time::Duration;

use jiff::Timestamp;
use polyvirt_contract::TaskId;

use crate::problem::Problem;
use crate::virtual_machine::OperationKind;

/// The one next step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing to do.
    Done(Done),
    /// Write our finalizer.
    Claim,
    /// Write down the VM and that a snapshot of it is about to be taken.
    RecordIntent,
    /// Ask the provider for the VM and its snapshots.
    Look,
    /// Ask how the task stands.
    CheckTask(TaskId),
    /// Take the snapshot.
    Create,
    /// Delete the snapshot.
    Delete,
    /// Delete the Kubernetes object; its snapshot goes with it.
    DeleteObject(EndOfLife),
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
    /// It can be gone back to.
    Ready,
    /// It can still be gone back to, until then.
    Expired(Timestamp),
    /// It was taken, and is not there any more.
    Lost(Lost),
    /// The user has paused us.
    Paused,
    /// The object is going and nothing of ours is on it.
    NothingToRelease,
}

/// How a snapshot was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Somebody deleted it on the hypervisor.
    Alone,
    /// Its VM is gone from the hypervisor.
    WithItsVm,
}

/// Why an object is deleted by us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndOfLife {
    /// `spec.retentionPolicy.maxAge` and `gracePeriod` are over.
    Expired,
    /// Its VM is gone, and `deleteOnVMDelete` says that it goes, too.
    VmGone,
    /// The schedule that made it is gone.
    ScheduleGone,
}

/// Why the finalizer may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The snapshot is not there.
    Proved,
    /// Nothing was ever sent.
    NeverTaken,
    /// The VM is not there, and so no snapshot of it.
    VmGone,
    /// The user forced it; the snapshot may still be there.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// A request was sent; its effect is not there yet.
    Effect(OperationKind),
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
