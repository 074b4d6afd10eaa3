//! What people read of a Machine. Pure.
//!
//! ```text
//!   VirtualMachine   Pending  Provisioning  Running  Stopped  Deleting     Failed
//!   Machine          Pending  Creating      Running  Stopped  Terminating  Failed
//! ```
//!
//! A Machine that cannot be lowered and has no VM has failed. One that has a VM stands as that does, and says what is wrong.

mod addresses;
mod conditions;
mod fields;
#[cfg(test)]
mod tests;
mod trouble;
mod words;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{OperationKind, PowerState, VMPhase, VirtualMachine};
use polyvirt_api::kubevirt::details;
use polyvirt_api::vitistack::{Machine, MachineStatus, NetworkConfiguration};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_plan::{Note, Reason};

use super::lower::Lowered;

pub use conditions::{STORAGE_READY, is_true};
pub use trouble::Trouble;

/// Phases of a Machine.
pub mod phase {
    /// Nothing was done yet.
    pub const PENDING: &str = "Pending";
    /// The VM is being made.
    pub const CREATING: &str = "Creating";
    /// The VM runs.
    pub const RUNNING: &str = "Running";
    /// The VM is being stopped.
    pub const STOPPING: &str = "Stopping";
    /// The VM is off.
    pub const STOPPED: &str = "Stopped";
    /// The VM is being removed.
    pub const TERMINATING: &str = "Terminating";
    /// The Machine needs a change, or help.
    pub const FAILED: &str = "Failed";
}

/// What a pass has found out.
pub struct Facts<'a> {
    /// The Machine as it was read.
    pub machine: &'a Machine,
    /// The KubevirtConfig that it belongs to.
    pub config: Option<&'a ObjectKey>,
    /// How the Machine calls that.
    pub config_name: Option<&'a str>,
    /// What it became.
    pub lowered: Option<&'a Lowered>,
    /// Its VirtualMachine.
    pub vm: Option<&'a VirtualMachine>,
    /// What stands in the way.
    pub trouble: Option<&'a Trouble>,
    /// Where addresses are read, if not from the VM.
    pub handed_out: Option<&'a NetworkConfiguration>,
    /// The time.
    pub now: Timestamp,
}

/// The status of a Machine. It is the old one, time and all, unless there is news.
pub fn raise(facts: &Facts<'_>) -> MachineStatus {
    let old = facts.machine.status.clone().unwrap_or_default();
    let phase = phase_of(facts);
    let failure = failure(facts, phase);
    let mut new = MachineStatus {
        phase: Some(phase.to_owned()),
        state: Some(state(facts, phase)),
        message: Some(message(facts, failure.as_ref())),
        failure_reason: failure.as_ref().map(|(r, _)| r.as_str().to_owned()),
        failure_message: failure.map(|(_, text)| text),
        observed_generation: facts.machine.metadata.generation,
        ..old.clone()
    };
    fields::fill(&mut new, facts, phase);
    conditions::fill(&mut new, facts, phase);
    if new == old {
        return old;
    }
    new.last_updated = Some(Time(facts.now));
    new.resource_version = version(facts).or(new.resource_version);
    new
}

fn version(facts: &Facts<'_>) -> Option<String> {
    facts.vm.and_then(|vm| vm.metadata.resource_version.clone())
}

fn phase_of(facts: &Facts<'_>) -> &'static str {
    if facts.machine.metadata.deletion_timestamp.is_some() {
        return phase::TERMINATING;
    }
    let Some(vm) = facts.vm else {
        return match facts.trouble {
            Some(trouble) if trouble.is_fault() => phase::FAILED,
            _ => phase::PENDING,
        };
    };
    match (phase_of_vm(vm), trouble::told(vm)) {
        (phase::PENDING | phase::CREATING, Some(told)) if told.is_failure => phase::FAILED,
        (phase, _) => phase,
    }
}

fn phase_of_vm(vm: &VirtualMachine) -> &'static str {
    let Some(status) = &vm.status else {
        return phase::CREATING;
    };
    let operation = status.operation.as_ref().map(|o| o.kind);
    let stops = matches!(
        operation,
        Some(OperationKind::PowerOff | OperationKind::GracefulStop)
    );
    match status.phase {
        Some(VMPhase::Running) if stops => phase::STOPPING,
        Some(VMPhase::Running) => phase::RUNNING,
        Some(VMPhase::Stopped) => phase::STOPPED,
        Some(VMPhase::Reconfiguring | VMPhase::Migrating) => match status.power_state {
            Some(PowerState::On | PowerState::Paused) => phase::RUNNING,
            _ => phase::STOPPED,
        },
        Some(VMPhase::Deleting) => phase::TERMINATING,
        Some(VMPhase::Failed) => phase::FAILED,
        Some(VMPhase::Provisioning) | None => phase::CREATING,
        Some(VMPhase::Pending) => phase::PENDING,
    }
}

/// The word of the hypervisor, where it has one.
fn state(facts: &Facts<'_>, phase: &str) -> String {
    let status = facts.vm.and_then(|vm| vm.status.as_ref());
    let word = status.and_then(|s| s.provider.get(details::PRINTABLE_STATUS).cloned());
    word.unwrap_or_else(|| phase.to_owned())
}

fn failure(facts: &Facts<'_>, phase: &str) -> Option<(Reason, String)> {
    if let Some(trouble) = facts.trouble {
        return Some((trouble.reason(), trouble.to_string()));
    }
    let vm = facts.vm?;
    let told = trouble::told(vm).map(|told| (told.reason, told.message));
    let found = told.or_else(|| (phase == phase::FAILED).then(|| trouble::of_vm(vm)));
    found.map(|(reason, text)| (reason, words::in_their_words(facts, &text)))
}

fn message(facts: &Facts<'_>, failure: Option<&(Reason, String)>) -> String {
    if let Some((_, text)) = failure {
        return text.clone();
    }
    let status = facts.vm.and_then(|vm| vm.status.as_ref());
    let goes = status.is_some_and(|s| s.phase == Some(VMPhase::Deleting));
    if facts.machine.metadata.deletion_timestamp.is_some() && !goes {
        return "The VirtualMachine is being deleted".to_owned();
    }
    let told = status.and_then(|s| s.message.as_deref());
    let told = told.map(|text| words::in_their_words(facts, text));
    told.unwrap_or_else(|| "The VirtualMachine is being made".to_owned())
}

/// One event for each change of the phase, or of what is wrong.
pub fn note(old: &MachineStatus, new: &MachineStatus) -> Option<Note> {
    if old.phase == new.phase && old.failure_reason == new.failure_reason {
        return None;
    }
    let message = new.message.clone().unwrap_or_default();
    let failure = new.failure_reason.as_deref().and_then(Reason::parse);
    if let Some(reason) = failure {
        return Some(Note::warning(reason, message));
    }
    let reason = match new.phase.as_deref() {
        Some(phase::CREATING) => Reason::VMCreating,
        Some(phase::RUNNING) => Reason::Running,
        Some(phase::STOPPED) => Reason::Stopped,
        Some(phase::TERMINATING) => Reason::Deleting,
        _ => return None,
    };
    Some(Note::normal(reason, message))
}
