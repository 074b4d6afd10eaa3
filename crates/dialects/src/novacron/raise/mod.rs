//! What people read of a VM of NovaCron. Pure.
//!
//! ```text
//!   ours      Pending  Provisioning  Running  Stopped            Failed
//!   NovaCron  Pending  Pending       Running  Stopped (Pending   Failed
//!                                             while it starts)
//! ```
//!
//! A VM that cannot be placed yet is Pending; one that cannot be made as it is written has failed. One that has a VM stands as
//! that does, and says what is wrong.

mod conditions;
mod fields;
#[cfg(test)]
mod tests;
mod trouble;
mod words;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra;
use polyvirt_api::infra::{OperationKind, PowerState, VMMigration, VMPhase};
use polyvirt_api::novacron::{VirtualMachine, VirtualMachineStatus};
use polyvirt_plan::{Note, Reason};

use super::lower::Lowered;

pub use conditions::READY;
pub use trouble::Trouble;

/// Phases of a VM.
pub mod phase {
    /// It does not run yet.
    pub const PENDING: &str = "Pending";
    /// It runs.
    pub const RUNNING: &str = "Running";
    /// It is off.
    pub const STOPPED: &str = "Stopped";
    /// It moves to another node.
    pub const MIGRATING: &str = "Migrating";
    /// It needs a change, or help.
    pub const FAILED: &str = "Failed";
}

/// What a pass has found out.
pub struct Facts<'a> {
    /// The VM as it was read.
    pub vm: &'a VirtualMachine,
    /// What it became.
    pub lowered: Option<&'a Lowered>,
    /// The VirtualMachine that was made for it.
    pub made: Option<&'a infra::VirtualMachine>,
    /// The move that was asked for.
    pub migration: Option<&'a VMMigration>,
    /// What stands in the way.
    pub trouble: Option<&'a Trouble>,
    /// The time.
    pub now: Timestamp,
}

/// The status of a VM. It is the old one, time and all, unless there is news.
pub fn raise(facts: &Facts<'_>) -> VirtualMachineStatus {
    let old = facts.vm.status.clone().unwrap_or_default();
    let phase = phase_of(facts);
    let mut new = VirtualMachineStatus {
        phase: Some(phase.to_owned()),
        observed_generation: facts.vm.metadata.generation,
        ..old.clone()
    };
    fields::fill(&mut new, facts, phase);
    conditions::fill(&mut new, facts, phase);
    if new == old {
        return old;
    }
    new.last_updated = Some(Time(facts.now));
    new
}

fn phase_of(facts: &Facts<'_>) -> &'static str {
    if let Some(Trouble::VmMissing { .. }) = facts.trouble {
        return phase::FAILED;
    }
    let Some(made) = facts.made else {
        return match facts.trouble {
            Some(trouble) if !trouble.may_pass() => phase::FAILED,
            _ => phase::PENDING,
        };
    };
    let Some(status) = &made.status else {
        return phase::PENDING;
    };
    if is_migrating(status) {
        return phase::MIGRATING;
    }
    match status.phase {
        Some(VMPhase::Running) => phase::RUNNING,
        Some(VMPhase::Stopped) if is_starting(facts, status) => phase::PENDING,
        Some(VMPhase::Stopped) => phase::STOPPED,
        Some(VMPhase::Migrating) => phase::MIGRATING,
        Some(VMPhase::Reconfiguring | VMPhase::Deleting) => by_power(status),
        Some(VMPhase::Failed) => phase::FAILED,
        Some(VMPhase::Pending | VMPhase::Provisioning) | None => phase::PENDING,
    }
}

const fn by_power(status: &infra::VirtualMachineStatus) -> &'static str {
    match status.power_state {
        Some(PowerState::On | PowerState::Paused | PowerState::Suspended) => phase::RUNNING,
        Some(PowerState::Off | PowerState::OffGraceful) => phase::STOPPED,
        Some(PowerState::Unknown) | None => phase::PENDING,
    }
}

/// It is off and is to run: NovaCron calls that Pending.
fn is_starting(facts: &Facts<'_>, status: &infra::VirtualMachineStatus) -> bool {
    let operation = status.operation.as_ref().map(|o| o.kind);
    facts.vm.spec.running || operation == Some(OperationKind::PowerOn)
}

/// The word of KubeVirt, which moves VMs by itself.
fn is_migrating(status: &infra::VirtualMachineStatus) -> bool {
    let word = status.provider.get("printableStatus");
    word.is_some_and(|word| word == phase::MIGRATING)
}

/// One event for each change of the phase, or of why it is not ready.
pub fn note(old: &VirtualMachineStatus, new: &VirtualMachineStatus) -> Option<Note> {
    let reason = |status: &VirtualMachineStatus| {
        let ready = conditions::find(status, READY);
        ready.and_then(|c| c.reason.clone())
    };
    if old.phase == new.phase && reason(old) == reason(new) {
        return None;
    }
    let ready = conditions::find(new, READY)?;
    let reason = Reason::parse(ready.reason.as_deref()?)?;
    let message = ready.message.clone().unwrap_or_default();
    Some(if is_bad(reason) {
        Note::warning(reason, message)
    } else {
        Note::normal(reason, message)
    })
}

const fn is_bad(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::NodeSelectionFailed
            | Reason::CreateFailed
            | Reason::Failed
            | Reason::Unhealthy
            | Reason::NameConflict
            | Reason::VmMissing
            | Reason::WaitingForDependencies
            | Reason::MigrationFailed
    )
}
