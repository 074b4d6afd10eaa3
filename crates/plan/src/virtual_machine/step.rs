//! What the planner can want. One step at a time; the next decision sees its effect.

use std::time::Duration;

use polyvirt_contract::model::{PowerOp, PowerRequest};
use polyvirt_contract::{RequestId, SnapshotId, TaskId};

use crate::problem::Problem;
use crate::virtual_machine::correction::Found;
use crate::virtual_machine::facts::OperationKind;
use crate::virtual_machine::hooks::Moment;

/// The one next step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The VM is as declared, or as far as policy lets us go.
    Done(Done),
    /// Write finalizer and identity.
    Claim,
    /// Write down that a VM is about to be created (providers without identity).
    RecordIntent,
    /// Write down that what was applied is about to change, so that our own change is never taken for somebody else's.
    RecordChange(OperationKind),
    /// Write down that a change made outside Kubernetes is about to be corrected, so that the correction is reported even if
    /// the manager restarts meanwhile.
    RecordDrift(Found),
    /// Ask the provider for the VM: by id, by identity, or by name.
    Look,
    /// Ask how the task stands.
    CheckTask(TaskId),
    /// Choose a host and write it down.
    Place,
    /// Create the VM.
    Create,
    /// Change the power state.
    Power(PowerRequest),
    /// Bring size, disks and networks to what is desired.
    Reconfigure,
    /// Take the VM back to a snapshot.
    Revert(SnapshotId),
    /// Write down that a hook is tried.
    BeginHook(Moment),
    /// Write down that the start is to be followed by a hook.
    OweHook,
    /// Run a hook.
    RunHook(Moment),
    /// Delete the VM.
    Delete,
    /// Take our finalizer off.
    Release(Release),
    /// Nothing to do until something happens.
    Wait(Wait),
    /// Cannot go on until the object, or what it refers to, changes.
    Stop(Problem),
}

/// How a pass can end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// As declared.
    Converged,
    /// Somebody changed the VM, and policy says to tell only. The text says what.
    Drifted(Vec<Drift>),
    /// As declared, once somebody restarts it.
    RestartNeeded(Vec<String>),
    /// The user has paused us.
    Paused,
    /// The object is going and nothing of ours is on it.
    NothingToRelease,
}

/// A difference that nobody declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The field that says otherwise.
    pub field: &'static str,
    /// What was declared.
    pub declared: String,
    /// What is there.
    pub found: String,
}

/// Why the finalizer may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The provider has looked and the VM is not there.
    Proved,
    /// The policy is to keep the VM.
    Retained,
    /// The user forced it; the VM may still be there.
    Forced,
    /// The VM under our name or id is somebody else's.
    NotOurs,
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
    /// Its provider does not answer.
    ProviderUnavailable,
    /// There is no such Provider.
    ProviderMissing,
    /// Its image is on its way.
    Image(String),
    /// A change was sent; its effect is not there yet.
    Effect(OperationKind),
    /// A change was sent and not answered, or with an error that leaves it open. What was told of that stays told.
    Answer,
    /// A create may still be on its way to the provider.
    LateCreate,
    /// The guest was asked to stop.
    GuestShutdown,
    /// The provider does not say whether the VM runs.
    PowerUnknown,
    /// An adopted VM whose id is not written yet.
    AdoptionId,
    /// A hook that is under way, or is tried again.
    Hook(Moment),
    /// A hook that failed, and is tried again after a long pause.
    NextTry(Moment),
    /// The VMMigration of that name moves it; nothing is changed meanwhile.
    Moving(String),
    /// The VMSnapshot of that name is not to go with the VM, which is to be deleted.
    Keeper(String),
}

impl Step {
    /// A change of power that serves no single request.
    pub fn power(op: PowerOp) -> Self {
        Self::Power(op.into())
    }

    /// A restart that must happen once.
    pub fn reboot(request: RequestId) -> Self {
        Self::Power(PowerRequest {
            op: PowerOp::Reboot,
            request: Some(request),
        })
    }

    /// A wait that something will end.
    pub const fn wait(on: WaitFor) -> Self {
        Self::Wait(Wait { on, recheck: None })
    }

    /// A wait with a limit.
    pub const fn wait_at_most(on: WaitFor, recheck: Duration) -> Self {
        Self::Wait(Wait {
            on,
            recheck: Some(recheck),
        })
    }

    /// The operation on the hypervisor that the step begins; `None` for steps that change nothing there.
    pub fn operation(&self) -> Option<OperationKind> {
        Some(match self {
            Self::Create => OperationKind::Create,
            Self::Reconfigure => OperationKind::Reconfigure,
            Self::Revert(_) => OperationKind::Revert,
            Self::Delete => OperationKind::Delete,
            Self::Power(request) => match request.op {
                PowerOp::On => OperationKind::PowerOn,
                PowerOp::Off => OperationKind::PowerOff,
                PowerOp::Reboot => OperationKind::Reboot,
                PowerOp::ShutdownGraceful { .. } => OperationKind::GracefulStop,
                PowerOp::Pause => OperationKind::Pause,
            },
            _ => return None,
        })
    }
}
