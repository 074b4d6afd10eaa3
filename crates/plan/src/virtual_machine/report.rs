//! From the end of a pass to what people read: status, conditions, events. Pure, and written only if it differs.

mod placed;
mod ready;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{
    self as api, CurrentResources, VMPhase, VirtualMachine, VirtualMachineStatus,
};
use polyvirt_contract::model::{PowerState, VmState};
use polyvirt_contract::{ProviderError, Retry};

use crate::conditions::{self, Finding, Truth, kind};
use crate::honoured::{self, once::Edited};
use crate::note::Note;
use crate::problem::Problem;
use crate::reason::Reason;
use crate::virtual_machine::facts::{Desired, Intent, Life, OperationKind, Record};
use crate::virtual_machine::record;
use crate::virtual_machine::revert::{self, RevertWish};
use crate::virtual_machine::step::{Done, Wait, WaitFor};

use ready::{drift_text, ready};

/// How a pass ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// As far as the declaration and policy go.
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
    pub vm: &'a VirtualMachine,
    /// The generation that the pass has acted on.
    pub generation: Option<i64>,
    /// What the pass has to write down.
    pub record: &'a Record,
    /// Whether a create is about to be sent (providers without identity).
    pub intent: Intent,
    /// How it ended.
    pub outcome: &'a Outcome,
    /// The VM as it was last seen.
    pub observed: Option<&'a VmState>,
    /// What the VM should be, where that could be told.
    pub desired: Option<&'a Desired>,
    /// Fields that are set and do nothing on this provider.
    pub ignored_fields: &'a [String],
    /// Edits that came after the moment at which their field is read.
    pub edited_fields: &'a [Edited],
    /// What the VM is to go back to.
    pub revert: Option<&'a RevertWish>,
    /// The time of the report.
    pub now: Timestamp,
}

/// The status to write, or `None` if what is there says the same; and the events of the transition.
pub fn report(end: &PassEnd<'_>) -> (Option<VirtualMachineStatus>, Vec<Note>) {
    let old = end.vm.status.clone().unwrap_or_default();
    match end.outcome {
        Outcome::Waiting(wait) if wait.on == WaitFor::ProviderConnecting => {
            return (None, Vec::new());
        }
        Outcome::Waiting(wait) if wait.on == WaitFor::Answer => {
            let new = written_down(end, &old);
            return ((new != old).then_some(new), Vec::new());
        }
        _ => {}
    }
    let new = status(end, &old);
    let notes = transitions(end, &old, &new);
    let same = VirtualMachineStatus {
        provider: old.provider.clone(),
        ..new.clone()
    } == old;
    ((!same).then_some(new), notes)
}

/// What the next pass has to know, and nothing else.
fn written_down(end: &PassEnd<'_>, old: &VirtualMachineStatus) -> VirtualMachineStatus {
    let mut new = old.clone();
    record::write(end.record, &mut new);
    new.create_intent = match end.intent {
        Intent::Missing => None,
        Intent::JustWritten(time) | Intent::Older(time) => Some(Time(time)),
    };
    new
}

fn status(end: &PassEnd<'_>, old: &VirtualMachineStatus) -> VirtualMachineStatus {
    let mut new = written_down(end, old);
    if let Some(vm) = end.observed {
        observe(&mut new, vm, end.record);
        if let Some(list) = &vm.snapshots {
            new.snapshots = revert::listed(list, &old.snapshots, end.now);
        }
    }
    if is_missing(end.outcome) {
        new.power_state = None;
        new.ips.clear();
    }
    new.phase = Some(phase(end, old));
    new.observed_generation = end.generation;
    let ready = ready(end);
    new.message = Some(ready.message.clone());
    conditions(end, &mut new, ready);
    new
}

fn observe(status: &mut VirtualMachineStatus, vm: &VmState, record: &Record) {
    status.power_state = match vm.power {
        PowerState::On => Some(api::PowerState::On),
        PowerState::Suspended => Some(api::PowerState::Paused),
        PowerState::Off => Some(api::PowerState::Off),
        PowerState::Unknown => status.power_state,
    };
    status.ips.clone_from(&vm.ips);
    status.console_url = Some(vm.console_url.clone()).filter(|u| !u.is_empty());
    status.host = Some(vm.host.clone()).filter(|h| !h.is_empty());
    status.provider.clone_from(&vm.details);
    status.current_resources = resources(status.current_resources.as_ref(), vm, record);
}

/// What the VM has: as the provider tells it, else as we have made it, else as it was told last. Where nobody ever told, nothing:
/// an object without a field is no value that can be applied over one with fields.
fn resources(
    last: Option<&CurrentResources>,
    vm: &VmState,
    record: &Record,
) -> Option<CurrentResources> {
    let made = record.applied.shape.as_ref();
    let known =
        |told: u64, made: Option<u64>| [Some(told), made].into_iter().flatten().find(|n| *n > 0);
    let cpu = known(vm.cpu.into(), made.map(|shape| shape.cpu.into()));
    let memory = known(vm.memory_mib, made.map(|shape| shape.memory_mib));
    let has = CurrentResources {
        cpu: cpu
            .and_then(|n| i32::try_from(n).ok())
            .or(last.and_then(|l| l.cpu)),
        memory_mib: memory
            .and_then(|n| i64::try_from(n).ok())
            .or(last.and_then(|l| l.memory_mib)),
        gpu: None,
    };
    (has != CurrentResources::default()).then_some(has)
}

fn is_missing(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Stopped(p) if p.reason == Reason::VmMissing)
}

fn phase(end: &PassEnd<'_>, old: &VirtualMachineStatus) -> VMPhase {
    if matches!(record::object(end.vm).life, Life::Deleting(_)) {
        return VMPhase::Deleting;
    }
    if is_missing(end.outcome) {
        return VMPhase::Failed;
    }
    let created = end.record.applied.reached.is_some();
    match end.outcome {
        Outcome::InFlight(OperationKind::Reconfigure)
        | Outcome::Waiting(Wait {
            on: WaitFor::Effect(OperationKind::Reconfigure),
            ..
        }) if created => VMPhase::Reconfiguring,
        Outcome::Waiting(Wait {
            on: WaitFor::Moving(_),
            ..
        }) => VMPhase::Migrating,
        _ if created => by_power(end.observed, old),
        outcome => before_first_start(end, outcome),
    }
}

fn by_power(observed: Option<&VmState>, old: &VirtualMachineStatus) -> VMPhase {
    match observed.map(|vm| vm.power) {
        Some(PowerState::On | PowerState::Suspended) => VMPhase::Running,
        Some(PowerState::Off) => VMPhase::Stopped,
        Some(PowerState::Unknown) | None => as_last_told(old),
    }
}

/// A change that is over leaves the VM in the power state that was told before.
fn as_last_told(old: &VirtualMachineStatus) -> VMPhase {
    match (old.phase, old.power_state) {
        (
            Some(VMPhase::Reconfiguring | VMPhase::Migrating),
            Some(api::PowerState::On | api::PowerState::Paused),
        ) => VMPhase::Running,
        (Some(VMPhase::Reconfiguring | VMPhase::Migrating), Some(_)) => VMPhase::Stopped,
        (phase, _) => phase.unwrap_or_default(),
    }
}

fn before_first_start(end: &PassEnd<'_>, outcome: &Outcome) -> VMPhase {
    let exists = end.record.id.is_some();
    match outcome {
        Outcome::Stopped(p) if waits_for_others(p.reason) => VMPhase::Pending,
        Outcome::Stopped(_) => VMPhase::Failed,
        Outcome::Failed(error) if error.kind.retry() == Retry::OnChange => VMPhase::Failed,
        Outcome::Failed(_)
        | Outcome::InFlight(_)
        | Outcome::Waiting(Wait {
            on: WaitFor::Effect(_) | WaitFor::LateCreate,
            ..
        }) => VMPhase::Provisioning,
        _ if exists || end.intent != Intent::Missing => VMPhase::Provisioning,
        _ => VMPhase::Pending,
    }
}

const fn waits_for_others(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::WaitingForDependencies
            | Reason::ConsumerNotAllowed
            | Reason::SecretInvalid
            | Reason::ProviderNotFound
            | Reason::Unschedulable
    )
}

fn conditions(end: &PassEnd<'_>, status: &mut VirtualMachineStatus, ready: Finding) {
    let generation = end.generation;
    let phase = status.phase.unwrap_or_default();
    let (reason, message) = (ready.reason, ready.message.clone());
    let mut list = std::mem::take(&mut status.conditions);
    let mut put = |finding| conditions::set(&mut list, finding, generation, end.now);
    put(ready);
    progress(
        phase == VMPhase::Provisioning,
        kind::PROVISIONING,
        reason,
        &message,
        &mut put,
        end.vm.status.as_ref(),
    );
    progress(
        phase == VMPhase::Reconfiguring,
        kind::RECONFIGURING,
        reason,
        &message,
        &mut put,
        end.vm.status.as_ref(),
    );
    if phase == VMPhase::Deleting {
        put(Finding::new(kind::DELETING, Truth::True, reason, message));
    }
    if let Some(finding) = not_honoured(end) {
        put(finding);
    }
    if let Outcome::Done(Done::Drifted(drifts)) = end.outcome {
        put(Finding::new(
            kind::DRIFTED,
            Truth::True,
            Reason::DriftDetected,
            drift_text(drifts),
        ));
    }
    if !end.record.restart_required.is_empty() {
        put(restart_required(&end.record.restart_required));
    }
    match revert::finding(end.revert, end.record.revert.as_ref()) {
        Some(finding) => conditions::set(&mut list, finding, generation, end.now),
        None => conditions::clear(&mut list, kind::REVERTED),
    }
    match placed::finding(end) {
        Some(finding) => conditions::set(&mut list, finding, generation, end.now),
        None => conditions::clear(&mut list, kind::PLACED),
    }
    drop_stale(end, &mut list);
    status.conditions = list;
}

/// A condition that is true while something goes on, and false afterwards if it was ever there.
fn progress(
    active: bool,
    kind: &'static str,
    reason: Reason,
    message: &str,
    put: &mut impl FnMut(Finding),
    old: Option<&VirtualMachineStatus>,
) {
    let before = old.is_some_and(|s| s.conditions.iter().any(|c| c.type_ == kind));
    if active {
        put(Finding::new(kind, Truth::True, reason, message));
    } else if before {
        put(Finding::new(
            kind,
            Truth::False,
            Reason::ReconcileSuccess,
            "Finished",
        ));
    }
}

fn not_honoured(end: &PassEnd<'_>) -> Option<Finding> {
    honoured::finding::of_vm(end.ignored_fields, end.edited_fields)
}

fn restart_required(fields: &[String]) -> Finding {
    let message = format!(
        "These changes take effect at the next restart: {}. Restart the VM (annotation virtrigaud.io/reboot), or set spec.reconfigurePolicy.restart to WhenNeeded",
        fields.join(", ")
    );
    Finding::new(
        kind::RESTART_REQUIRED,
        Truth::True,
        Reason::RestartRequired,
        message,
    )
}

/// Conditions that speak only while they have something to say.
fn drop_stale(
    end: &PassEnd<'_>,
    list: &mut Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>,
) {
    let told = matches!(
        end.outcome,
        Outcome::Done(Done::Converged | Done::RestartNeeded(_))
    );
    if told {
        conditions::clear(list, kind::DRIFTED);
    }
    if end.record.restart_required.is_empty() {
        conditions::clear(list, kind::RESTART_REQUIRED);
    }
    if not_honoured(end).is_none() && end.desired.is_some() {
        conditions::clear(list, kind::FIELDS_HONOURED);
    }
}

/// One event for each change of what `Ready` says, and for a VM that got its id.
fn transitions(
    end: &PassEnd<'_>,
    old: &VirtualMachineStatus,
    new: &VirtualMachineStatus,
) -> Vec<Note> {
    let mut notes = Vec::new();
    if let (None, Some(id)) = (&old.id, &new.id) {
        let provider = &end.vm.spec.provider_ref.name;
        notes.push(Note::normal(
            Reason::Created,
            format!("VM {id} is on provider {provider}"),
        ));
    }
    notes.extend(revert::note(old, new));
    let find = |s: &VirtualMachineStatus| {
        s.conditions
            .iter()
            .find(|c| c.type_ == kind::READY)
            .cloned()
    };
    let (before, after) = (find(old), find(new));
    let Some(after) = after else { return notes };
    let says = |c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        (c.status.clone(), c.reason.clone())
    };
    let moved = before.as_ref().map(says) != Some(says(&after)) || old.phase != new.phase;
    if moved {
        notes.push(note_for(end.outcome, &after, new));
    }
    notes
}

fn note_for(
    outcome: &Outcome,
    ready: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition,
    new: &VirtualMachineStatus,
) -> Note {
    let message = ready.message.clone();
    let reason = match (outcome, new.phase) {
        (Outcome::Done(Done::Converged | Done::RestartNeeded(_)), Some(VMPhase::Running)) => {
            Reason::Running
        }
        (Outcome::Done(Done::Converged | Done::RestartNeeded(_)), _) => Reason::Stopped,
        _ => Reason::parse(&ready.reason).unwrap_or(Reason::ProviderError),
    };
    match outcome {
        Outcome::Done(Done::Drifted(_)) | Outcome::Stopped(_) | Outcome::Failed(_) => {
            Note::warning(reason, message)
        }
        Outcome::Waiting(Wait {
            on:
                WaitFor::ProviderUnavailable
                | WaitFor::ProviderMissing
                | WaitFor::Keeper(_)
                | WaitFor::NextTry(_),
            ..
        }) => Note::warning(reason, message),
        _ => Note::normal(reason, message),
    }
}
