//! Going back to a snapshot: `spec.snapshot.revertToRef`.
//!
//! ```text
//!   named ─ RecordChange ─► Begun ─ Revert ─► at work ─ CheckTask ─► Done
//!                             ▲                  │
//!                             └── error, or forgotten ──► Refused (for what was asked)
//! ```
//!
//! A name is carried out once. It is asked for again when the field was emptied or named another snapshot in between; another
//! VMSnapshot of the same name is no new wish, for what the VM has become since would be lost.
//!
//! `Begun` is written before the request. If the manager dies right after that, or the answer is lost, nobody knows whether the
//! VM went back, and the request is sent again: what is lost is the time since the first one, and the user asked to lose the
//! past of the VM. Not to send it would leave a VM at work that was to be taken back, which is the greater harm. With a task or
//! an answer in the record it is never sent twice.
//!
//! Before the request the record forgets what was applied, because power and size come back from the snapshot. They are brought
//! to the declaration afterwards, like those of a new VM.

use polyvirt_api::infra::{
    self as api, SnapshotPhase, VMSnapshot, VMSnapshotInfo, VirtualMachine, VirtualMachineStatus,
};
use polyvirt_contract::SnapshotId;
use polyvirt_contract::model::{SnapshotContents, SnapshotState};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::conditions::{Finding, Truth, kind};
use crate::note::Note;
use crate::problem::Problem;
use crate::reason::Reason;
use crate::virtual_machine::facts::{Facts, OperationKind};
use crate::virtual_machine::step::Step;

pub use polyvirt_api::infra::RevertState;

/// A wish to go back to a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevertWish {
    /// Name of the VMSnapshot.
    pub name: String,
    /// The snapshot, or why it cannot be gone back to.
    pub target: Result<RevertTarget, Problem>,
}

/// A snapshot that can be gone back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevertTarget {
    /// UID of the VMSnapshot.
    pub uid: String,
    /// Id on the hypervisor.
    pub id: SnapshotId,
}

/// What became of the last wish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reverted {
    /// Name of the VMSnapshot.
    pub name: String,
    /// UID of the VMSnapshot.
    pub uid: String,
    /// How far it is.
    pub state: RevertState,
    /// Why it was refused.
    pub message: Option<String>,
}

const FIELD: &str = "spec.snapshot.revertToRef.name";

/// The name of the snapshot that the VM is to go back to.
pub fn wanted(vm: &VirtualMachine) -> Option<&str> {
    let wish = vm.spec.snapshot.as_ref()?.revert_to_ref.as_ref()?;
    Some(wish.name.as_str()).filter(|name| !name.is_empty())
}

/// What the VM is to go back to, if anything.
pub fn wish(vm: &VirtualMachine, snapshot: Option<&VMSnapshot>) -> Option<RevertWish> {
    let name = wanted(vm)?.to_owned();
    let target = target(vm, &name, snapshot);
    Some(RevertWish { name, target })
}

fn target(
    vm: &VirtualMachine,
    name: &str,
    snapshot: Option<&VMSnapshot>,
) -> Result<RevertTarget, Problem> {
    let Some(snapshot) = snapshot else {
        let text = format!("VMSnapshot {name} does not exist. Create it or correct the name");
        return Err(Problem::new(Reason::SnapshotNotFound, FIELD, text));
    };
    if is_of_another(vm, snapshot) {
        let text = format!("VMSnapshot {name} is of another VM. Name one of this VM");
        return Err(Problem::new(Reason::SnapshotOfAnotherVm, FIELD, text));
    }
    usable(snapshot).ok_or_else(|| {
        let text = format!("VMSnapshot {name} is not ready; see its status");
        Problem::new(Reason::SnapshotNotReady, FIELD, text)
    })
}

fn is_of_another(vm: &VirtualMachine, snapshot: &VMSnapshot) -> bool {
    let here = vm.status.as_ref().and_then(|s| s.id.as_deref());
    let there = snapshot.status.as_ref().and_then(|s| s.vm.as_ref());
    let other_name = vm.metadata.name.as_deref() != Some(snapshot.spec.vm_ref.name.as_str());
    other_name || there.is_some_and(|place| Some(place.id.as_str()) != here)
}

fn usable(snapshot: &VMSnapshot) -> Option<RevertTarget> {
    let status = snapshot.status.as_ref()?;
    let whole = matches!(
        status.phase,
        Some(SnapshotPhase::Ready | SnapshotPhase::Expired)
    );
    let stays = whole && snapshot.metadata.deletion_timestamp.is_none();
    let id = status.snapshot_id.clone().and_then(SnapshotId::non_empty);
    Some(RevertTarget {
        uid: snapshot.metadata.uid.clone().unwrap_or_default(),
        id: id.filter(|_| stays)?,
    })
}

/// The step that the wish needs; `None` if it is carried out, refused, or cannot be carried out now.
pub(super) fn step(facts: &Facts<'_>) -> Option<Step> {
    let wish = facts.revert?;
    let target = wish.target.as_ref().ok()?;
    let last = facts.record.revert.as_ref();
    let last = last.filter(|last| last.name == wish.name);
    match last {
        Some(last) if last.state == RevertState::Done => None,
        Some(last) if last.uid != target.uid => Some(Step::RecordChange(OperationKind::Revert)),
        Some(last) if last.state == RevertState::Refused => None,
        Some(_) => Some(Step::Revert(target.id.clone())),
        None => Some(Step::RecordChange(OperationKind::Revert)),
    }
}

/// The condition that tells of the wish; `None` where there is none.
pub(super) fn finding(wish: Option<&RevertWish>, last: Option<&Reverted>) -> Option<Finding> {
    let wish = wish?;
    let last = last.filter(|last| last.name == wish.name);
    let name = &wish.name;
    let (truth, reason, text) = match (last.map(|l| l.state), &wish.target) {
        (Some(RevertState::Done), target) => (
            Truth::True,
            Reason::Reverted,
            format!("The VM was reverted to VMSnapshot {name}{}", since(target)),
        ),
        (_, Err(problem)) => (Truth::False, problem.reason, problem.to_string()),
        (Some(RevertState::Refused), _) => {
            let why = last.and_then(|l| l.message.clone()).unwrap_or_default();
            (Truth::False, Reason::RevertRefused, why)
        }
        _ => (
            Truth::False,
            Reason::Reverting,
            format!("The VM goes back to VMSnapshot {name}"),
        ),
    };
    Some(Finding::new(kind::REVERTED, truth, reason, text))
}

/// What became of the snapshot after the VM was reverted to it.
fn since(target: &Result<RevertTarget, Problem>) -> &'static str {
    match target {
        Err(problem) if problem.reason == Reason::SnapshotNotFound => {
            ". The VMSnapshot was deleted since: remove spec.snapshot.revertToRef"
        }
        _ => "",
    }
}

/// One event for each change of what the condition says.
pub(super) fn note(old: &VirtualMachineStatus, new: &VirtualMachineStatus) -> Option<Note> {
    let find = |s: &VirtualMachineStatus| {
        let told = s.conditions.iter().find(|c| c.type_ == kind::REVERTED);
        told.map(|c| (c.reason.clone(), c.message.clone()))
    };
    let after = find(new).filter(|after| find(old).as_ref() != Some(after));
    let (reason, message) = after?;
    if reason == Reason::Reverted.as_str() && find(old).is_some_and(|(old, _)| old == reason) {
        // It was reverted once, whatever became of the snapshot.
        return None;
    }
    Some(match Reason::parse(&reason)? {
        reason @ (Reason::Reverted | Reason::Reverting) => Note::normal(reason, message),
        reason => Note::warning(reason, message),
    })
}

/// What the status remembers.
pub(super) fn from_status(status: &VirtualMachineStatus) -> Option<Reverted> {
    let told = status.revert.as_deref()?;
    Some(Reverted {
        name: told.name.clone(),
        uid: told.uid.clone(),
        state: told.state,
        message: told.message.clone(),
    })
}

/// Writes what the status remembers.
pub(super) fn to_status(last: Option<&Reverted>) -> Option<Box<api::RevertStatus>> {
    let last = last?;
    Some(Box::new(api::RevertStatus {
        name: last.name.clone(),
        uid: last.uid.clone(),
        state: last.state,
        message: last.message.clone(),
    }))
}

/// The snapshots of the VM as its status tells them. One whose time the provider does not know is as old as our first sight.
pub(super) fn listed(
    told: &[SnapshotState],
    old: &[VMSnapshotInfo],
    now: Timestamp,
) -> Vec<VMSnapshotInfo> {
    let info = |s: &SnapshotState| {
        let before = old.iter().find(|o| o.id == s.id.as_str());
        let seen = before.map_or(Time(now), |o| o.creation_time.clone());
        let taken = Timestamp::from_second(s.taken).ok().filter(|_| s.taken > 0);
        VMSnapshotInfo {
            id: s.id.to_string(),
            name: s.name.clone(),
            creation_time: taken.map_or(seen, Time),
            description: Some(s.description.clone()).filter(|d| !d.is_empty()),
            size_bytes: i64::try_from(s.size_bytes).ok().filter(|b| *b > 0),
            has_memory: s.contents == SnapshotContents::DisksAndMemory,
        }
    };
    told.iter().map(info).collect()
}
