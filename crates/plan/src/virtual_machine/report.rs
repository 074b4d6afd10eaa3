//! From the end of a pass to what people read: status, conditions, events. Pure, and written only if it differs.

mod condition_list;
mod deferral;
mod notes;
mod placed;
mod ready;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{
    self as api, CurrentResources, DriftKind, VMPhase, VirtualMachine, VirtualMachineStatus,
};
use polyvirt_contract::model::{PowerState, Stage, VmState};
use polyvirt_contract::{ProviderError, Retry};

use crate::honoured::once::Edited;
use crate::note::Note;
use crate::problem::Problem;
use crate::reason::Reason;
use crate::virtual_machine::facts::{Desired, Intent, Life, OperationKind, Record};
use crate::virtual_machine::record;
use crate::virtual_machine::revert::{self, RevertWish};
use crate::virtual_machine::step::{Done, Wait, WaitFor};

use condition_list::conditions;
pub use deferral::{Progress, progress};
use notes::transitions;
use ready::ready;

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
    /// The error of the last create, if it leaves open whether the VM was made.
    pub failure: Option<&'a str>,
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
    // Of the figures, the agent's arrival is what people and commands wait for; it changes with starts only.
    let agent = |s: &VirtualMachineStatus| s.provider.get("guestAgent").cloned();
    let same = same && agent(&new) == agent(&old);
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
    // Until its creation is over, what is seen of a VM is not what it will be.
    if let Some(vm) = end.observed.filter(|vm| !is_being_created(end, vm)) {
        observe(&mut new, vm, end);
        if let Some(list) = &vm.snapshots {
            new.snapshots = revert::listed(list, &old.snapshots, end.now);
        }
    }
    if is_missing(end.outcome) || is_recreated(end) {
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

fn is_being_created(end: &PassEnd<'_>, vm: &VmState) -> bool {
    let operation = end.record.operation.as_ref();
    vm.stage == Stage::Creating || operation.is_some_and(|o| o.kind == OperationKind::Create)
}

fn observe(status: &mut VirtualMachineStatus, vm: &VmState, end: &PassEnd<'_>) {
    status.power_state = match vm.power {
        PowerState::On => Some(api::PowerState::On),
        PowerState::Suspended => Some(suspended(end.vm)),
        PowerState::Off => Some(api::PowerState::Off),
        // What was known last is worth more than nothing.
        PowerState::Unknown => status.power_state.or(Some(api::PowerState::Unknown)),
    };
    status.ips.clone_from(&vm.ips);
    status.console_url = Some(vm.console_url.clone()).filter(|u| !u.is_empty());
    status.host = Some(vm.host.clone()).filter(|h| !h.is_empty());
    status.provider.clone_from(&vm.details);
    status.current_resources = resources(status.current_resources.as_ref(), vm, end.record);
}

/// A VM that is declared so is Paused; one that was suspended otherwise is Suspended.
fn suspended(vm: &api::VirtualMachine) -> api::PowerState {
    match vm.spec.power_state {
        Some(api::PowerState::Paused) => api::PowerState::Paused,
        _ => api::PowerState::Suspended,
    }
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

/// Whether the VM was deleted outside Kubernetes and another one is on its way.
fn is_recreated(end: &PassEnd<'_>) -> bool {
    let correcting = end.record.correcting();
    end.observed.is_none() && correcting.is_some_and(|c| c.found.kind == DriftKind::Deletion)
}

fn phase(end: &PassEnd<'_>, old: &VirtualMachineStatus) -> VMPhase {
    if matches!(record::object(end.vm).life, Life::Deleting(_)) {
        return VMPhase::Deleting;
    }
    if is_missing(end.outcome) {
        return VMPhase::Failed;
    }
    let created = end.record.applied.reached.is_some() && !is_recreated(end);
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
            Some(api::PowerState::On | api::PowerState::Paused | api::PowerState::Suspended),
        ) => VMPhase::Running,
        (Some(VMPhase::Reconfiguring | VMPhase::Migrating), Some(_)) => VMPhase::Stopped,
        (phase, _) => phase.unwrap_or_default(),
    }
}

fn before_first_start(end: &PassEnd<'_>, outcome: &Outcome) -> VMPhase {
    let exists = end.record.id.is_some();
    if is_up(end.observed) && is_failed_hook(outcome) {
        // The VM runs; that what follows its start failed is for Ready to report.
        return VMPhase::Running;
    }
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

fn is_up(observed: Option<&VmState>) -> bool {
    observed.is_some_and(|vm| matches!(vm.power, PowerState::On | PowerState::Suspended))
}

fn is_failed_hook(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Stopped(problem) => problem.reason == Reason::HookFailed,
        Outcome::Waiting(wait) => matches!(wait.on, WaitFor::NextTry(_)),
        _ => false,
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
