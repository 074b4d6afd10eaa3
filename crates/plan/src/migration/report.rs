//! From the end of a pass to what people read of a move. Pure, and written only if it differs.

use jiff::Timestamp;
use polyvirt_api::infra::{MigrationPhase, MoveResult, VMMigration, VMMigrationStatus};
use polyvirt_contract::ProviderError;
use polyvirt_contract::model::{PowerState, VmState};

use super::facts::{Desired, Record};
use super::record;
use super::step::{Done, End, Stop, Wait, WaitFor};
use crate::conditions::{self, Finding, Truth, kind};
use crate::note::Note;
use crate::problem::Problem;
use crate::reason::Reason;

/// How a pass ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Nothing is left to do.
    Done(Done),
    /// Waits for something.
    Waiting(Wait),
    /// Cannot go on until an object changes.
    Stopped(Problem),
    /// The provider is at work.
    InFlight,
    /// The provider answered with an error, and it is tried again.
    Failed(ProviderError),
    /// It ended just now.
    Ended(End),
}

/// The end of a pass.
#[derive(Clone, Copy, Debug)]
pub struct PassEnd<'a> {
    /// The object as it was read, with the status that is there.
    pub object: &'a VMMigration,
    /// What the pass has to write down.
    pub record: &'a Record,
    /// How it ended.
    pub outcome: &'a Outcome,
    /// The VM as it was last seen.
    pub observed: Option<&'a VmState>,
    /// How the VM should move, where that could be told.
    pub desired: Option<&'a Desired>,
    /// The time of the report.
    pub now: Timestamp,
}

/// The status to write, or `None` if what is there says the same; and the events of the transition.
pub fn report(end: &PassEnd<'_>) -> (Option<VMMigrationStatus>, Vec<Note>) {
    let old = end.object.status.clone().unwrap_or_default();
    if says_nothing(end.outcome) {
        return (None, Vec::new());
    }
    let new = status(end, &old);
    let notes = transitions(end, &old, &new);
    ((new != old).then_some(new), notes)
}

/// What ended was told when it did.
const fn says_nothing(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Done(Done::NothingToRelease | Done::Over(_))
            | Outcome::Waiting(Wait {
                on: WaitFor::ProviderConnecting,
                ..
            })
    )
}

fn status(end: &PassEnd<'_>, old: &VMMigrationStatus) -> VMMigrationStatus {
    let mut new = old.clone();
    record::write(end.record, &mut new);
    new.phase = Some(phase(end));
    new.observed_generation = end.object.metadata.generation;
    let ready = ready(end);
    new.message = Some(ready.message.clone());
    findings(end, &mut new, ready);
    new
}

fn phase(end: &PassEnd<'_>) -> MigrationPhase {
    match end.record.result {
        Some(MoveResult::Moved) => MigrationPhase::Ready,
        Some(MoveResult::Failed) => MigrationPhase::Failed,
        Some(MoveResult::Cancelled) => MigrationPhase::Cancelled,
        None if end.record.is_open() => MigrationPhase::Transferring,
        None if is_stopped(end.outcome) => MigrationPhase::Failed,
        None => MigrationPhase::Pending,
    }
}

/// A host that has room may come by itself.
fn is_stopped(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Stopped(p) if p.reason != Reason::Unschedulable)
}

/// The finding for `Ready`, whose message is also the status message.
fn ready(end: &PassEnd<'_>) -> Finding {
    let (truth, reason, message) = match end.outcome {
        Outcome::Done(_) => (
            Truth::Unknown,
            Reason::Paused,
            "Paused: nothing is changed until the annotation virtrigaud.io/paused is removed"
                .to_owned(),
        ),
        Outcome::Waiting(wait) => waiting(end, &wait.on),
        Outcome::Stopped(problem) => (Truth::False, problem.reason, problem.to_string()),
        Outcome::InFlight => in_flight(end),
        Outcome::Failed(error) => (
            Truth::False,
            error.kind.into(),
            format!("{}. It is tried again", error_text(error)),
        ),
        Outcome::Ended(how) => ended(end, how),
    };
    Finding::new(kind::READY, truth, reason, message)
}

fn in_flight(end: &PassEnd<'_>) -> (Truth, Reason, String) {
    let Record {
        source,
        target,
        cancelled,
        ..
    } = end.record;
    if cancelled.is_some() {
        let text = "The provider was asked to stop the move; what comes of it is awaited";
        return (Truth::False, Reason::MigrationStopping, text.to_owned());
    }
    let to = named(target, "a host that its provider chooses");
    let text = format!("The VM moves from {} to {to}", named(source, "its host"));
    (Truth::False, Reason::Migrating, text)
}

fn named<'a>(host: &'a str, else_: &'a str) -> &'a str {
    if host.is_empty() { else_ } else { host }
}

fn ended(end: &PassEnd<'_>, how: &End) -> (Truth, Reason, String) {
    match how {
        End::Moved => (Truth::True, Reason::Migrated, arrived(end)),
        End::WasThere => {
            let host = end.observed.map_or("", |vm| vm.host.as_str());
            let text = format!("The VM is on {} already", named(host, "the target"));
            (Truth::True, Reason::Migrated, text)
        }
        End::Failed(error) => {
            let text = format!("{}. {}", error_text(error), whereabouts(end));
            (Truth::False, Reason::MigrationFailed, text)
        }
        End::VmGone => {
            let text = "The VM is gone from the hypervisor; see its VirtualMachine";
            (Truth::False, Reason::MigrationFailed, text.to_owned())
        }
        End::Stopped(why) => stopped(end, *why),
    }
}

fn arrived(end: &PassEnd<'_>) -> String {
    let host = end.observed.map_or("", |vm| vm.host.as_str());
    let stood = end
        .record
        .progress
        .as_ref()
        .filter(|p| p.figures.phase == polyvirt_contract::model::MigrationPhase::Finishing);
    let stood = stood.and_then(|p| p.figures.downtime);
    let stood = stood.map(|time| format!("; the guest stood still for {} ms", time.as_millis()));
    format!(
        "The VM is on {}{}",
        named(host, "another host"),
        stood.unwrap_or_default()
    )
}

fn stopped(end: &PassEnd<'_>, why: Stop) -> (Truth, Reason, String) {
    let cause = match why {
        Stop::Asked => "The move was stopped, as spec.cancel says",
        Stop::Deleted => "The move was stopped, for this object is being deleted",
        Stop::VmLeaving => "The move was stopped, for the VirtualMachine is being deleted",
        Stop::TimedOut => "The move took longer than spec.options.timeout and was stopped",
    };
    let reason = match why {
        Stop::TimedOut => Reason::MigrationFailed,
        _ => Reason::MigrationCancelled,
    };
    (
        Truth::False,
        reason,
        format!("{cause}. {}", whereabouts(end)),
    )
}

/// Where the VM is, after a move that came to nothing. Only what was seen is told.
fn whereabouts(end: &PassEnd<'_>) -> String {
    let Some(vm) = end.observed else {
        return "The VM was not touched".to_owned();
    };
    let host = named(&vm.host, "its host");
    match vm.power {
        PowerState::On if vm.host == end.record.source => {
            format!("The VM goes on where it was, on {host}")
        }
        PowerState::On => format!("The VM runs on {host}"),
        PowerState::Off => format!("The VM is off, on {host}"),
        PowerState::Suspended => format!("The VM is suspended, on {host}"),
        PowerState::Unknown => format!("The VM is on {host}; whether it runs is not told"),
    }
}

fn waiting(end: &PassEnd<'_>, on: &WaitFor) -> (Truth, Reason, String) {
    let vm = &end.object.spec.source.vm_ref.name;
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
            format!("spec.source.vmRef.name: VirtualMachine {vm} does not exist. Create it"),
        ),
        WaitFor::VmNotMade => (
            Reason::WaitingForDependencies,
            format!("VirtualMachine {vm} has no VM yet"),
        ),
        WaitFor::VmLeaving => (
            Reason::WaitingForDependencies,
            format!("VirtualMachine {vm} is being deleted; it is not moved"),
        ),
        WaitFor::VmBusy => (
            Reason::VmBusy,
            format!("VirtualMachine {vm} is being changed; it is moved when that is over"),
        ),
        WaitFor::VmOff => (
            Reason::VmBusy,
            format!(
                "VirtualMachine {vm} is off, and only one that runs moves live. Start it, or set spec.options.live.mode to Cold"
            ),
        ),
        WaitFor::Behind(other) => (
            Reason::MigrationQueued,
            format!("VMMigration {other} moves the same VM; this one waits for its end"),
        ),
        WaitFor::Pause => (
            Reason::MigrationRetrying,
            end.object
                .status
                .as_ref()
                .and_then(|s| s.message.clone())
                .unwrap_or_default(),
        ),
        WaitFor::LateRequest => (
            Reason::MigrationStopping,
            "A request went unanswered. It is looked for a while whether it arrives".to_owned(),
        ),
    };
    (Truth::False, reason, text + how_to_force(end))
}

fn how_to_force(end: &PassEnd<'_>) -> &'static str {
    if end.object.metadata.deletion_timestamp.is_some() {
        ". To delete this object while the VM may move, set the annotation virtrigaud.io/force-delete=true"
    } else {
        ""
    }
}

fn error_text(error: &ProviderError) -> String {
    error.text().trim_end_matches('.').to_owned()
}

fn findings(end: &PassEnd<'_>, status: &mut VMMigrationStatus, ready: Finding) {
    let generation = end.object.metadata.generation;
    let list = &mut status.conditions;
    if end.object.metadata.deletion_timestamp.is_some() {
        let (reason, message) = (ready.reason, ready.message.clone());
        let deleting = Finding::new(kind::DELETING, Truth::True, reason, message);
        conditions::set(list, deleting, generation, end.now);
    }
    conditions::set(list, ready, generation, end.now);
    match end.desired.map(|d| &d.ignored) {
        Some(fields) if !fields.is_empty() => {
            let finding = ignored(fields);
            conditions::set(list, finding, generation, end.now);
        }
        Some(_) => conditions::clear(list, kind::FIELDS_HONOURED),
        None => {}
    }
}

fn ignored(fields: &[&str]) -> Finding {
    let message = format!(
        "These fields are set but mean nothing for a move between hosts: {}. Remove them",
        fields.join(", ")
    );
    Finding::new(
        kind::FIELDS_HONOURED,
        Truth::False,
        Reason::FieldsIgnored,
        message,
    )
}

/// One event for each change of phase, or of what `Ready` says.
fn transitions(end: &PassEnd<'_>, old: &VMMigrationStatus, new: &VMMigrationStatus) -> Vec<Note> {
    let says = |s: &VMMigrationStatus| {
        let ready = s.conditions.iter().find(|c| c.type_ == kind::READY);
        (s.phase, ready.map(|c| (c.status.clone(), c.reason.clone())))
    };
    if says(old) == says(new) {
        return Vec::new();
    }
    let message = new.message.clone().unwrap_or_default();
    let word = says(new).1.map(|(_, word)| word).unwrap_or_default();
    let reason = Reason::parse(&word).unwrap_or(Reason::ProviderError);
    let bad = matches!(end.outcome, Outcome::Failed(_) | Outcome::Stopped(_))
        || reason == Reason::MigrationFailed;
    vec![if bad {
        Note::warning(reason, message)
    } else {
        Note::normal(reason, message)
    }]
}
