//! Everything that the planner may know. It sees no client, no clock and no raw manifest.

use std::time::Duration;

use jiff::Timestamp;
use polyvirt_api::infra::PlacementStatus;
use polyvirt_contract::model::{CreateVm, VmState};
use polyvirt_contract::{Capabilities, Extension, Features, Identity, RequestId, TaskId, VmId};

use crate::honoured::once::Declared;
use crate::problem::Problem;
use crate::virtual_machine::hooks::{Hooks, Runs};
use crate::virtual_machine::revert::{RevertWish, Reverted};

/// All inputs of one decision.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The time of the decision.
    pub now: Timestamp,
    /// What the Kubernetes object says apart from what the VM should be.
    pub object: Object<'a>,
    /// What earlier passes have written down.
    pub record: &'a Record,
    /// What the VM should be, or why that cannot be told.
    pub desired: Result<&'a Desired, &'a Problem>,
    /// How to reach the hypervisor.
    pub provider: ProviderFacts<'a>,
    /// What the hypervisor said last.
    pub observed: Observed<'a>,
    /// When it was asked for that. Its answer may have been long on its way.
    pub asked: Timestamp,
    /// Since when the provider is connected and heard without a break.
    pub connected: Option<Timestamp>,
    /// The last change sent by this process, if no newer word of the VM has come since.
    pub sent: Option<&'a Sent>,
    /// Whether a create may be in flight whose answer nobody heard.
    pub intent: Intent,
    /// What the VM is to go back to.
    pub revert: Option<&'a RevertWish>,
    /// Whether a host has to be chosen before the VM is made.
    pub placing: Placing,
    /// The VMMigration that moves the VM now.
    pub moving: Option<&'a str>,
    /// The VMSnapshot that is not to go with the VM.
    pub keeper: Option<&'a str>,
}

/// Whether a host has to be chosen before the VM is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placing {
    /// The provider chooses, or the user has.
    #[default]
    NotOurs,
    /// It has.
    Open,
    /// It was, and that is written down.
    Decided,
}

/// Whether the intent to create is written down: before each create where create is not find-or-create, elsewhere after a
/// create that went unanswered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Intent {
    /// It is not: no create was sent, or all were answered.
    #[default]
    Missing,
    /// This pass wrote it then: no create was sent yet.
    JustWritten(Timestamp),
    /// An earlier pass wrote it: a create may have been sent.
    Older(Timestamp),
}

impl Intent {
    /// A create was sent on it: the next one needs another.
    #[must_use]
    pub const fn spent(self) -> Self {
        match self {
            Self::JustWritten(at) => Self::Older(at),
            other => other,
        }
    }
}

/// The life of the Kubernetes object.
#[derive(Clone, Copy, Debug, Default)]
pub struct Object<'a> {
    /// Whether our finalizer and identity are on it.
    pub claim: Claim,
    /// Whether the user has deleted it.
    pub life: Life,
    /// Whether a user has asked us to keep our hands off.
    pub attention: Attention,
    /// Whether deletion may leave the VM behind.
    pub force: Force,
    /// The value of the reboot annotation; empty if none.
    pub reboot: &'a str,
    /// Whether the VM was there before the object.
    pub origin: Origin,
}

/// Whether our finalizer and identity are on the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Claim {
    /// Not yet.
    #[default]
    Missing,
    /// Both are there.
    Held,
    /// Another object carries the same identity and has the better right to it.
    Disputed,
}

/// Whether the user has deleted the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    /// It is to stay.
    #[default]
    Alive,
    /// It is to go, and what to do with the VM then.
    Deleting(DeletionPolicy),
}

/// What becomes of the VM when its object goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionPolicy {
    /// It goes too, and the object stays until that is proved.
    #[default]
    Delete,
    /// It stays as it is.
    Retain,
}

/// Whether we may act.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attention {
    /// We act.
    #[default]
    Active,
    /// The pause annotation is set: report nothing, change nothing.
    Paused,
}

/// Whether deletion may leave the VM behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Force {
    /// It may not.
    #[default]
    No,
    /// The user has accepted it.
    Yes,
}

/// Where the VM comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// We create it.
    #[default]
    Created,
    /// It was there before: bind to it, never create it.
    Adopted,
}

/// What earlier passes have written into the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The VM, once known.
    pub id: Option<VmId>,
    /// Ours for ever, written with the finalizer.
    pub identity: Option<Identity>,
    /// What was last confirmed on the hypervisor. Tells an edit from drift.
    pub applied: Applied,
    /// What is in flight.
    pub operation: Option<Operation>,
    /// The last reboot that was carried out.
    pub reboot_handled: String,
    /// Fields whose change waits for a restart, as told in the status.
    pub restart_required: Vec<String>,
    /// What became of the last wish to go back to a snapshot.
    pub revert: Option<Reverted>,
    /// The host that was chosen, or why there is none.
    pub placement: Option<Box<PlacementStatus>>,
    /// What became of the hooks of the start or stop under way.
    pub hooks: Runs,
}

/// What the VM was last brought to. It is what tells an edit from drift, so it never claims more than is sure: before a
/// change is sent, what it changes is forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The generation whose declaration the VM was last seen to meet. A VM that never met one is not missed when it is gone.
    pub reached: Option<i64>,
    /// The power state, in the user's word; `None` while it is not known whose doing it is.
    pub power: Option<DesiredPower>,
    /// Size, disks and networks; `None` while it is not known whose doing they are.
    pub shape: Option<Shape>,
    /// A digest of the options that only the hypervisor understands, as they were sent last. The VM does not show them, so this is
    /// kept while a change is under way, and what is not sure is sent again.
    pub options: Option<String>,
    /// What its disk was created from, for people.
    pub image: Option<String>,
    /// Digests of the fields that are read once, as they were then: see [`crate::honoured::once`].
    pub created: Declared,
}

/// The parts of a VM that can be changed after it was created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Virtual CPUs.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Disks beyond the first: name and GiB, in the order of the manifest.
    pub disks: Vec<(String, u32)>,
    /// Names of the network cards, in the order of the manifest.
    pub networks: Vec<String>,
}

/// The power state that the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DesiredPower {
    /// Running.
    #[default]
    On,
    /// Off, without asking the guest.
    Off,
    /// Off; the guest is asked first.
    OffGraceful,
    /// In memory, and not running.
    Paused,
}

/// An operation in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it is.
    pub kind: OperationKind,
    /// The provider's task; `None` if the provider answered at once and we wait for the effect.
    pub task: Option<TaskId>,
    /// When it began.
    pub since: Timestamp,
    /// How often it has failed in a row.
    pub attempt: u32,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Creates the VM.
    Create,
    /// Starts it.
    PowerOn,
    /// Stops it hard.
    PowerOff,
    /// Asks the guest to stop.
    GracefulStop,
    /// Starts it again.
    Reboot,
    /// Stops its processors.
    Pause,
    /// Changes size, disks or networks.
    Reconfigure,
    /// Takes it back to a snapshot.
    Revert,
    /// Deletes it.
    Delete,
}

/// What to do about a change that somebody else made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDrift {
    /// Tell.
    #[default]
    Report,
    /// Tell, and bring it back.
    Correct,
}

/// What the VM should be, resolved from the object and all that it refers to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// The request for the provider.
    pub vm: CreateVm,
    /// The power state that the user wants.
    pub power: DesiredPower,
    /// How long the guest may take to stop.
    pub graceful_timeout: Duration,
    /// Drift of the power state.
    pub on_power_drift: OnDrift,
    /// Drift of size, disks or networks.
    pub on_size_drift: OnDrift,
    /// The VM was deleted behind our back; `Correct` creates it anew, empty.
    pub on_deletion: OnDrift,
    /// Whether we may restart the VM to make a change effective.
    pub restart: RestartPolicy,
    /// Whether the image can be used on this provider now.
    pub image: ImageReadiness,
    /// What to do around start and stop.
    pub hooks: Hooks,
}

/// Whether we may restart the VM on our own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestartPolicy {
    /// The user restarts it.
    #[default]
    Never,
    /// We restart it when a change needs it.
    WhenNeeded,
}

/// Whether the image can be used on this provider now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ImageReadiness {
    /// It can.
    #[default]
    Ready,
    /// It is being brought in, or waits for something; the image controller wakes us.
    Waiting(String),
    /// It cannot be had.
    Failed(String),
}

impl Desired {
    /// The parts that can be changed later, in a form that can be compared and stored.
    pub fn shape(&self) -> Shape {
        Shape {
            cpu: self.vm.class.cpu,
            memory_mib: self.vm.class.memory_mib,
            disks: self
                .vm
                .disks
                .iter()
                .map(|d| (d.name.clone(), d.size_gib))
                .collect(),
            networks: self.vm.networks.iter().map(|n| n.name.clone()).collect(),
        }
    }
}

/// How the hypervisor can be reached.
#[derive(Clone, Copy, Debug)]
pub enum ProviderFacts<'a> {
    /// It answers.
    Ready {
        /// What it offers beyond the basic contract.
        features: &'a Features,
        /// What it can do.
        capabilities: &'a Capabilities,
    },
    /// The first connection of this process is being made; we are woken when it stands. Nothing is reported.
    Connecting,
    /// It does not answer now; we are woken when it does.
    Unavailable,
    /// There is no such Provider object.
    Missing,
}

impl ProviderFacts<'_> {
    /// Whether create is find-or-create by identity.
    pub fn has_identity(&self) -> bool {
        matches!(self, Self::Ready { features, .. } if features.has(Extension::Identity))
    }

    /// Whether a VM that runs can be paused.
    pub fn can_pause(&self) -> bool {
        matches!(self, Self::Ready { features, .. } if features.has(Extension::Pause))
    }

    /// Whether it says itself which changes wait for a restart.
    pub fn tells_what_waits(&self) -> bool {
        self.has_identity()
    }
}

/// What the hypervisor said last about our VM.
#[derive(Clone, Copy, Debug, Default)]
pub enum Observed<'a> {
    /// Nothing that can be relied on: ask.
    #[default]
    Unknown,
    /// It has looked, and no VM of ours is there.
    Absent,
    /// The VM.
    Present(&'a VmState),
    /// A VM is there under our id or name that belongs to somebody else.
    Stranger(&'a VmState),
}

/// A change that this process has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// What it does.
    pub kind: OperationKind,
    /// When.
    pub at: Timestamp,
    /// For requests that must happen once.
    pub request: Option<RequestId>,
    /// What the provider answered.
    pub answer: Answer,
}

/// What became of a change that was sent, as far as its answer tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// None came, or one that leaves it open.
    #[default]
    Open,
    /// The provider took it.
    Taken,
}
