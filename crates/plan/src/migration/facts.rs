//! Everything that the planner of moves may know.

use std::time::Duration;

use jiff::Timestamp;
use polyvirt_api::infra::{HostVerdict, MoveResult};
use polyvirt_contract::model::{MigrateVm, MigrationProgress, VmState};
use polyvirt_contract::{ProviderError, RequestId, TaskId};

use crate::problem::Problem;
use crate::snapshot::{Life, VmPlace};
use crate::virtual_machine::{Attention, Claim, Force, ProviderFacts};

/// All inputs of one decision.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The time of the decision.
    pub now: Timestamp,
    /// The life of the Kubernetes object.
    pub object: Object,
    /// What earlier passes have written down.
    pub record: &'a Record,
    /// How the VM should move, or why that cannot be told.
    pub desired: Result<&'a Desired, &'a Problem>,
    /// How the VirtualMachine stands.
    pub vm: VmFacts,
    /// Another object whose move of the same VM has begun and has not ended.
    pub rival: Option<&'a str>,
    /// How to reach the hypervisor.
    pub provider: ProviderFacts<'a>,
    /// Since when the provider is connected.
    pub connected: Option<Timestamp>,
    /// What the hypervisor said last.
    pub observed: Observed<'a>,
    /// Whether the beginning was written by this very pass.
    pub intent: Intent,
    /// Why the last try, in this pass, came to nothing.
    pub failure: Option<&'a ProviderError>,
    /// Whether the provider has said, in this pass, that no move of this request is going on.
    pub quiet: Quiet,
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
    /// Whether it may go while the VM moves.
    pub force: Force,
    /// Whether the move is to be stopped.
    pub wish: Wish,
}

/// What the user wants of the move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// That it is made.
    #[default]
    Move,
    /// That it is stopped.
    Cancel,
}

/// Whether the beginning was written by this pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Intent {
    /// By an earlier one, or not at all.
    #[default]
    Earlier,
    /// By this one: no request was sent since.
    JustWritten,
}

/// Whether the provider is known not to be at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quiet {
    /// It is not known.
    #[default]
    Unknown,
    /// It has said so.
    Told,
}

/// How the VirtualMachine stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VmFacts {
    /// There is none, or it is another one by now.
    #[default]
    Missing,
    /// It has no VM yet.
    NotMade,
    /// It is being deleted.
    Leaving,
    /// Something else is being done to it.
    Busy,
    /// Its VM is there.
    Made,
}

/// What earlier passes have written into the status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The VM that moves; written before anything is sent.
    pub vm: Option<VmPlace>,
    /// The host that it leaves.
    pub source: String,
    /// The host that it goes to. Empty where the provider chooses.
    pub target: String,
    /// What was for or against each host when one was chosen.
    pub hosts: Vec<HostVerdict>,
    /// When it began.
    pub begun: Option<Timestamp>,
    /// The provider's task.
    pub task: Option<TaskId>,
    /// How often it was tried again.
    pub retries: u32,
    /// When the last try failed.
    pub failed: Option<Timestamp>,
    /// When the provider was asked to stop.
    pub cancelled: Option<Timestamp>,
    /// How far it is.
    pub progress: Option<Progress>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// How it ended.
    pub result: Option<MoveResult>,
}

impl Record {
    /// Whether it has begun and has not ended.
    pub const fn is_open(&self) -> bool {
        self.vm.is_some() && self.result.is_none()
    }
}

/// How far a move is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Part that is done, in percent.
    pub percent: Option<u8>,
    /// The provider's figures.
    pub figures: MigrationProgress,
    /// When they were read.
    pub at: Timestamp,
}

/// How the VM should move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// The request for the provider; its host is the one that the user names, if any.
    pub request: MigrateVm,
    /// How long the whole may take.
    pub timeout: Duration,
    /// How often a failure is followed by another try.
    pub retries: u32,
    /// The pause before the first of them.
    pub pause: Duration,
    /// What the pause grows by.
    pub growth: u32,
    /// Fields that are set and mean nothing for a move between hosts.
    pub ignored: Vec<&'static str>,
}

/// What the hypervisor said last about the VM.
#[derive(Clone, Copy, Debug, Default)]
pub enum Observed<'a> {
    /// Nothing that can be relied on: ask.
    #[default]
    Unknown,
    /// It has looked, and the VM is not there.
    NoVm,
    /// The VM.
    Vm(&'a VmState),
}

impl Facts<'_> {
    /// The id of the one request of this object.
    pub fn request(&self) -> Option<&RequestId> {
        self.desired.ok().and_then(|d| d.request.request.as_ref())
    }

    /// Whether the VM is where it was to go.
    pub fn has_arrived(&self, vm: &VmState) -> bool {
        let Record { source, target, .. } = self.record;
        let served = self.request().is_some() && vm.last_request.as_ref() == self.request();
        let elsewhere = target.is_empty() && !source.is_empty() && vm.host != *source;
        let there = !target.is_empty() && vm.host == *target;
        served || there || (elsewhere && !vm.host.is_empty())
    }
}
