//! From the end of a pass to what people read of a snapshot. Pure, and written only if it differs.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{SnapshotPhase, SnapshotProviderStatus, VMSnapshot, VMSnapshotStatus};
use polyvirt_contract::ProviderError;
use polyvirt_contract::model::{GuestDisks, Quiesce, SnapshotContents, SnapshotState};

use crate::conditions::{self, Finding, Truth, kind};
use crate::note::Note;
use crate::problem::Problem;
use crate::reason::Reason;
use crate::snapshot::facts::{Desired, Record};
use crate::snapshot::kin::Kin;
use crate::snapshot::step::{Done, Lost, Wait, WaitFor};
use crate::virtual_machine::OperationKind;

/// How a pass ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// As far as the declaration goes.
    Done(Done),
    /// Waits for something.
    Waiting(Wait),
    /// Cannot go on until an object changes.
    Stopped(Problem),
    /// The provider is at work.
    InFlight(OperationKind),
    /// The provider answered with an error.
    Failed(ProviderError),
}

/// The end of a pass.
#[derive(Clone, Copy, Debug)]
pub struct PassEnd<'a> {
    /// The object as it was read, with the status that is there.
    pub object: &'a VMSnapshot,
    /// What the pass has to write down.
    pub record: &'a Record,
    /// How it ended.
    pub outcome: &'a Outcome,
    /// The snapshot as the provider lists it.
    pub found: Option<&'a SnapshotState>,
    /// Its relatives, where the provider tells of them.
    pub kin: Option<&'a Kin>,
    /// What the snapshot should be, where that could be told.
    pub desired: Option<&'a Desired>,
    /// When it will be deleted for its age.
    pub expires: Option<Timestamp>,
    /// Whether the provider can hear that the guest is to be asked.
    pub hearing: Hearing,
    /// The time of the report.
    pub now: Timestamp,
}

/// Whether the provider can hear that the guest is to be asked before a snapshot is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hearing {
    /// It can, or that is not known.
    #[default]
    Full,
    /// It speaks `provider.v1` alone, which has no word for it.
    Basic,
}

/// The status to write, or `None` if what is there says the same; and the events of the transition.
pub fn report(end: &PassEnd<'_>) -> (Option<VMSnapshotStatus>, Vec<Note>) {
    let old = end.object.status.clone().unwrap_or_default();
    if says_nothing(end.outcome) {
        return (None, Vec::new());
    }
    let new = status(end, &old);
    let notes = transitions(end, &old, &new);
    ((new != old).then_some(new), notes)
}

const fn says_nothing(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Done(Done::NothingToRelease)
            | Outcome::Waiting(Wait {
                on: WaitFor::ProviderConnecting,
                ..
            })
    )
}

fn status(end: &PassEnd<'_>, old: &VMSnapshotStatus) -> VMSnapshotStatus {
    let mut new = old.clone();
    crate::snapshot::record::write(end.record, &mut new);
    if let Some(found) = end.found {
        let bytes = Some(found.size_bytes).filter(|b| *b > 0);
        new.size = bytes.map(|b| Quantity(b.to_string())).or(new.size);
    }
    if let Some(kin) = end.kin {
        (new.parent, new.children) = (kin.parent.clone(), kin.children.clone());
    }
    new.expiry_time = end.expires.map(Time);
    new.phase = Some(phase(end));
    new.observed_generation = end.object.metadata.generation;
    let ready = ready(end);
    new.message = Some(ready.message.clone());
    on_provider(end, &mut new, &ready);
    findings(end, &mut new, ready);
    new
}

/// How it stands on the one provider that has it.
fn on_provider(end: &PassEnd<'_>, status: &mut VMSnapshotStatus, ready: &Finding) {
    let Some(vm) = &end.record.vm else { return };
    let entry = SnapshotProviderStatus {
        available: ready.truth == Truth::True,
        id: status.snapshot_id.clone(),
        last_updated: status.completion_time.clone(),
        ..SnapshotProviderStatus::default()
    };
    status.provider_status = [(vm.provider.clone(), entry)].into();
}

fn phase(end: &PassEnd<'_>) -> SnapshotPhase {
    if end.object.metadata.deletion_timestamp.is_some() {
        return SnapshotPhase::Deleting;
    }
    let begun = if end.record.vm.is_some() {
        SnapshotPhase::Creating
    } else {
        SnapshotPhase::Pending
    };
    match end.outcome {
        Outcome::Done(Done::Ready) => SnapshotPhase::Ready,
        Outcome::Done(Done::Expired(_)) => SnapshotPhase::Expired,
        Outcome::Done(Done::Lost(_)) | Outcome::Stopped(_) => SnapshotPhase::Failed,
        Outcome::Done(_) => as_told(end),
        // It was taken, and nothing was learnt since.
        _ if end.record.completed.is_some() => as_told(end),
        Outcome::InFlight(_) => SnapshotPhase::Creating,
        // A provider that does not answer says nothing against the snapshot.
        Outcome::Failed(error) if error.kind.blames_provider() => begun,
        Outcome::Failed(_) => SnapshotPhase::Failed,
        Outcome::Waiting(_) => begun,
    }
}

fn as_told(end: &PassEnd<'_>) -> SnapshotPhase {
    let status = end.object.status.as_ref();
    status.and_then(|s| s.phase).unwrap_or_default()
}

/// The finding for `Ready`, whose message is also the status message.
fn ready(end: &PassEnd<'_>) -> Finding {
    let (truth, reason, message) = match end.outcome {
        Outcome::Done(done) => ready_when_done(end, *done),
        Outcome::Waiting(wait) => {
            let (reason, message) = waiting(end, wait.on);
            (Truth::False, reason, message)
        }
        Outcome::Stopped(problem) => (Truth::False, problem.reason, problem.to_string()),
        Outcome::InFlight(kind) => (Truth::False, at_work(*kind), working(*kind).to_owned()),
        Outcome::Failed(error) => (Truth::False, error.kind.into(), error_text(end, error)),
    };
    Finding::new(kind::READY, truth, reason, message)
}

/// A VM that is off has no memory that could be kept.
fn there(end: &PassEnd<'_>) -> String {
    let with_memory = SnapshotContents::DisksAndMemory;
    let asked = end
        .desired
        .is_some_and(|d| d.request.contents == with_memory);
    let without = end.found.is_some_and(|found| found.contents != with_memory);
    let rest = if asked && without {
        ". It holds the disks only: the VM was off, and had no memory to keep"
    } else {
        ""
    };
    format!("The snapshot is on the hypervisor{rest}")
}

fn ready_when_done(end: &PassEnd<'_>, done: Done) -> (Truth, Reason, String) {
    let (truth, reason, text) = match done {
        Done::Ready => (Truth::True, Reason::SnapshotReady, there(end)),
        Done::Expired(until) => (
            Truth::True,
            Reason::SnapshotExpired,
            format!("Its time is over; it is deleted at {until:.0}"),
        ),
        Done::Lost(Lost::Alone) => (
            Truth::False,
            Reason::SnapshotMissing,
            "The snapshot was deleted on the hypervisor. Delete this object; make another VMSnapshot for a new one".to_owned(),
        ),
        Done::Lost(Lost::WithItsVm) => (
            Truth::False,
            Reason::VmMissing,
            "The VM is gone from the hypervisor, and its snapshots with it. Delete this object".to_owned(),
        ),
        Done::Paused | Done::NothingToRelease => (
            Truth::Unknown,
            Reason::Paused,
            "Paused: nothing is changed until the annotation virtrigaud.io/paused is removed".to_owned(),
        ),
    };
    (truth, reason, text)
}

fn waiting(end: &PassEnd<'_>, on: WaitFor) -> (Reason, String) {
    let vm = &end.object.spec.vm_ref.name;
    let (reason, text) = match on {
        WaitFor::ProviderConnecting | WaitFor::ProviderUnavailable => (
            Reason::ProviderUnavailable,
            format!(
                "The Provider of VirtualMachine {vm} does not answer; work goes on when it does"
            ),
        ),
        WaitFor::ProviderMissing => (
            Reason::ProviderNotFound,
            format!("The Provider of VirtualMachine {vm} does not exist. Create it"),
        ),
        WaitFor::VmMissing => (
            Reason::WaitingForDependencies,
            format!("spec.vmRef.name: VirtualMachine {vm} does not exist. Create it"),
        ),
        WaitFor::VmNotMade => (
            Reason::WaitingForDependencies,
            format!("VirtualMachine {vm} has no VM yet"),
        ),
        WaitFor::VmLeaving => (
            Reason::WaitingForDependencies,
            format!("VirtualMachine {vm} is being deleted; no snapshot of it is taken"),
        ),
        WaitFor::Effect(kind) => (at_work(kind), working(kind).to_owned()),
    };
    (reason, text + how_to_force(end))
}

fn how_to_force(end: &PassEnd<'_>) -> &'static str {
    if end.object.metadata.deletion_timestamp.is_some() {
        ". To delete this object and leave the snapshot behind, set the annotation virtrigaud.io/force-delete=true"
    } else {
        ""
    }
}

fn error_text(end: &PassEnd<'_>, error: &ProviderError) -> String {
    format!("{}{}", error.text(), how_to_force(end))
}

const fn at_work(kind: OperationKind) -> Reason {
    match kind {
        OperationKind::Delete => Reason::SnapshotDeleting,
        _ => Reason::SnapshotCreating,
    }
}

const fn working(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Delete => "The snapshot is being deleted",
        _ => "The snapshot is being taken",
    }
}

fn findings(end: &PassEnd<'_>, status: &mut VMSnapshotStatus, ready: Finding) {
    let generation = end.object.metadata.generation;
    let list = &mut status.conditions;
    let mut put = |finding| conditions::set(list, finding, generation, end.now);
    if end.object.metadata.deletion_timestamp.is_some() {
        let (reason, message) = (ready.reason, ready.message.clone());
        put(Finding::new(kind::DELETING, Truth::True, reason, message));
    }
    put(ready);
    let (quiet, ignored) = (quiesced(end), ignored(end));
    let moot = quiet.is_none() && end.found.is_some();
    let honoured = ignored.is_none() && end.desired.is_some();
    quiet.into_iter().chain(ignored).for_each(put);
    if moot {
        conditions::clear(list, kind::QUIESCED);
    }
    if honoured {
        conditions::clear(list, kind::FIELDS_HONOURED);
    }
}

/// Whether the guest was quiet, where that was asked for. What was in memory is not lost where memory is kept: nobody asks
/// the guest then.
fn quiesced(end: &PassEnd<'_>) -> Option<Finding> {
    let asked = end.desired?.request.quiesce == Quiesce::IfPossible;
    let found = end.found.filter(|_| asked)?;
    let (truth, reason, text) = match found.guest {
        GuestDisks::AsTheyWere if found.contents == SnapshotContents::DisksAndMemory => {
            return None;
        }
        GuestDisks::Quiet => (
            Truth::True,
            Reason::Quiesced,
            "The guest had written its buffers out",
        ),
        GuestDisks::AsTheyWere => (
            Truth::False,
            Reason::NotQuiesced,
            "The guest could not be asked: it was off, or its agent did not answer. The disks are as they were at that moment",
        ),
    };
    Some(Finding::new(kind::QUIESCED, truth, reason, text))
}

fn ignored(end: &PassEnd<'_>) -> Option<Finding> {
    let desired = end.desired?;
    let mut fields = desired.ignored.clone();
    if end.hearing == Hearing::Basic && desired.request.quiesce == Quiesce::IfPossible {
        fields.push("spec.snapshotConfig.quiesce");
    }
    let message = format!(
        "These fields are set but do nothing yet, or not on this provider: {}. Remove them",
        fields.join(", ")
    );
    let finding = Finding::new(
        kind::FIELDS_HONOURED,
        Truth::False,
        Reason::FieldsIgnored,
        message,
    );
    (!fields.is_empty()).then_some(finding)
}

/// One event for each change of phase, or of what `Ready` says.
fn transitions(end: &PassEnd<'_>, old: &VMSnapshotStatus, new: &VMSnapshotStatus) -> Vec<Note> {
    let says = |s: &VMSnapshotStatus| {
        let ready = s.conditions.iter().find(|c| c.type_ == kind::READY);
        (s.phase, ready.map(|c| (c.status.clone(), c.reason.clone())))
    };
    if says(old) == says(new) {
        return Vec::new();
    }
    let message = new.message.clone().unwrap_or_default();
    let reason = says(new).1.and_then(|(_, word)| Reason::parse(&word));
    let reason = reason.unwrap_or(Reason::ProviderError);
    vec![match (end.outcome, new.phase) {
        (Outcome::Failed(_) | Outcome::Stopped(_), Some(SnapshotPhase::Deleting)) => {
            Note::warning(reason, message)
        }
        (_, Some(SnapshotPhase::Failed)) => Note::warning(Reason::SnapshotFailed, message),
        (Outcome::Failed(_), _) => Note::warning(reason, message),
        _ => Note::normal(reason, message),
    }]
}
