//! Everything that the planner of snapshots may know.

use std::time::Duration;

use jiff::Timestamp;
use polyvirt_contract::model::{SnapshotRequest, SnapshotState};
use polyvirt_contract::{Identity, SnapshotId, VmId};

use crate::problem::Problem;
use crate::snapshot::schedule::Hold;
use crate::virtual_machine::{Attention, Claim, Force, Operation, ProviderFacts};

/// All inputs of one decision.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The time of the decision.
    pub now: Timestamp,
    /// The life of the Kubernetes object.
    pub object: Object,
    /// The name on the hypervisor. No other object has the same.
    pub name: &'a str,
    /// What earlier passes have written down.
    pub record: &'a Record,
    /// What the snapshot should be, or why that cannot be told.
    pub desired: Result<&'a Desired, &'a Problem>,
    /// How the VirtualMachine stands.
    pub vm: VmFacts,
    /// Whether it is pinned, its VM is told to go back to it, or it is the newest of its schedule.
    pub hold: Hold,
    /// How the schedule that made it stands.
    pub maker: Maker,
    /// How to reach the hypervisor.
    pub provider: ProviderFacts<'a>,
    /// What the hypervisor said last.
    pub observed: Observed<'a>,
    /// Whether the intent to take it was written by this very pass.
    pub intent: Intent,
}

/// The life of the Kubernetes object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// Whether our finalizer is on it.
    pub claim: Claim,
    /// Whether the user has deleted it.
    pub life: Life,
    /// Whether a user has asked us to keep our hands off.
    pub attention: Attention,
    /// Whether deletion may leave the snapshot behind.
    pub force: Force,
}

/// Whether the user has deleted the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    /// It is to stay.
    #[default]
    Alive,
    /// It is to go, and its snapshot with it.
    Deleting,
}

/// Whether the intent to take a snapshot was written by this pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Intent {
    /// By an earlier one, or not at all.
    #[default]
    Earlier,
    /// By this one: no request was sent since.
    JustWritten,
}

/// What earlier passes have written into the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The VM that it is of; written before anything is sent.
    pub vm: Option<VmPlace>,
    /// The snapshot, once the provider gave it an id.
    pub id: Option<SnapshotId>,
    /// When it was begun.
    pub begun: Option<Timestamp>,
    /// When it was first seen to be whole.
    pub completed: Option<Timestamp>,
    /// What is in flight; without a task: what was about to be sent.
    pub operation: Option<Operation>,
}

/// A VM on a hypervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmPlace {
    /// Namespace of its Provider.
    pub provider_namespace: String,
    /// Name of its Provider.
    pub provider: String,
    /// Its id there.
    pub id: VmId,
    /// Its identity there.
    pub identity: Identity,
}

/// What the snapshot should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// The request for the provider.
    pub request: SnapshotRequest,
    /// The age at which its life ends; `None` for never.
    pub max_age: Option<Duration>,
    /// From the end of its life to its deletion.
    pub grace: Duration,
    /// What becomes of the object when its VM is gone.
    pub on_vm_gone: OnVmGone,
    /// Fields that are set and do nothing on any provider.
    pub ignored: Vec<&'static str>,
}

/// What becomes of the object when its VM is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnVmGone {
    /// It goes, too.
    #[default]
    Delete,
    /// It stays, and tells.
    Keep,
}

/// Who made the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Maker {
    /// No schedule.
    #[default]
    User,
    /// A schedule, which is there.
    Schedule,
    /// A schedule that is gone.
    Gone,
}

/// How the VirtualMachine that the snapshot names stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VmFacts {
    /// There is none, or another one than when the snapshot was taken.
    #[default]
    Missing,
    /// Its VM was not made yet.
    NotMade,
    /// It is being deleted.
    Leaving,
    /// Its VM is there.
    Made,
}

/// What the hypervisor said last about the VM and its snapshots.
#[derive(Clone, Copy, Debug, Default)]
pub enum Observed<'a> {
    /// Nothing that can be relied on.
    #[default]
    Unknown,
    /// The stream knows no such VM. Enough to tell, not enough to act on.
    Silent,
    /// It was asked, and the VM is not there.
    NoVm,
    /// It was asked, and said that the snapshot is not there.
    Gone,
    /// The VM is there; the provider tells nothing of its snapshots.
    Untold,
    /// All snapshots of the VM.
    Listed(&'a [SnapshotState]),
}

impl Facts<'_> {
    /// Ours, in the provider's list.
    pub fn found(&self) -> Option<&SnapshotState> {
        let Observed::Listed(list) = self.observed else {
            return None;
        };
        let ours =
            |s: &&SnapshotState| self.record.id.as_ref() == Some(&s.id) || s.name == self.name;
        list.iter().find(ours)
    }
}
