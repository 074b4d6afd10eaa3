//! The condition `Ready`: why it is so, and what to do.

use polyvirt_api::names;
use polyvirt_contract::ProviderError;
use polyvirt_contract::model::PowerState;

use super::{Outcome, PassEnd};
use crate::conditions::{Finding, Truth, is_true, kind};
use crate::reason::Reason;
use crate::virtual_machine::facts::OperationKind;
use crate::virtual_machine::hooks::Moment;
use crate::virtual_machine::step::{Done, Drift, Wait, WaitFor};

/// The finding for `Ready`, whose message is also the status message.
pub(super) fn ready(end: &PassEnd<'_>) -> Finding {
    let (truth, reason, message) = match end.outcome {
        Outcome::Done(done) => ready_when_done(end, done),
        Outcome::Waiting(wait) => ready_when_waiting(end, wait),
        Outcome::Stopped(problem) => (Truth::False, problem.reason, problem.to_string()),
        Outcome::InFlight(kind) => (Truth::False, in_flight(*kind), working(*kind).to_owned()),
        Outcome::Failed(error) => (Truth::False, error.kind.into(), error_text(end, error)),
    };
    Finding::new(kind::READY, truth, reason, message)
}

fn ready_when_done(end: &PassEnd<'_>, done: &Done) -> (Truth, Reason, String) {
    match done {
        Done::Converged | Done::RestartNeeded(_) => {
            let fault = end
                .observed
                .map(|vm| vm.fault.as_str())
                .filter(|f| !f.is_empty());
            match fault {
                Some(fault) => (
                    Truth::False,
                    Reason::VmFault,
                    format!("The hypervisor reports: {fault}"),
                ),
                None => (
                    Truth::True,
                    Reason::ReconcileSuccess,
                    as_declared(end).to_owned(),
                ),
            }
        }
        Done::Drifted(drifts) => (Truth::False, Reason::DriftDetected, drift_text(drifts)),
        Done::Paused | Done::NothingToRelease => {
            let text =
                "Paused: nothing is changed until the annotation virtrigaud.io/paused is removed";
            (Truth::Unknown, Reason::Paused, text.to_owned())
        }
    }
}

fn as_declared(end: &PassEnd<'_>) -> &'static str {
    match end.observed.map(|vm| vm.power) {
        Some(PowerState::Off) => "The VM is off, as declared",
        Some(PowerState::Suspended) => "The VM is paused, as declared",
        _ => "The VM is running",
    }
}

pub(super) fn drift_text(drifts: &[Drift]) -> String {
    let list: Vec<_> = drifts
        .iter()
        .map(|d| {
            format!(
                "{} declares {} but the hypervisor has {}",
                d.field, d.declared, d.found
            )
        })
        .collect();
    format!(
        "Changed on the hypervisor: {}. {}, or change the declaration",
        list.join("; "),
        drift_advice(drifts)
    )
}

/// Power and the rest have a policy each.
fn drift_advice(drifts: &[Drift]) -> &'static str {
    let power = drifts.iter().any(|d| d.field == "spec.powerState");
    let size = drifts.iter().any(|d| d.field != "spec.powerState");
    match (power, size) {
        (true, true) => {
            "Set spec.driftPolicy.power to Correct and set spec.driftPolicy.size to Correct to bring it back"
        }
        (true, false) => "Set spec.driftPolicy.power to Correct to bring it back",
        (false, _) => "Set spec.driftPolicy.size to Correct to bring it back",
    }
}

fn ready_when_waiting(end: &PassEnd<'_>, wait: &Wait) -> (Truth, Reason, String) {
    if let WaitFor::Moving(by) = &wait.on {
        return (as_before(end), Reason::Migrating, moving(end, by));
    }
    let provider = &end.vm.spec.provider_ref.name;
    let (reason, message) = match &wait.on {
        WaitFor::ProviderConnecting | WaitFor::ProviderUnavailable => (
            Reason::ProviderUnavailable,
            format!(
                "Provider {provider} does not answer; work goes on when it does. See its conditions{}",
                how_to_force(end)
            ),
        ),
        WaitFor::ProviderMissing => (
            Reason::ProviderNotFound,
            format!(
                "spec.providerRef.name: Provider {provider} does not exist. Create it{}",
                how_to_force(end)
            ),
        ),
        WaitFor::Image(what) => (Reason::WaitingForImage, what.clone()),
        WaitFor::Effect(kind) => (in_flight(*kind), with_fault(end, working(*kind))),
        WaitFor::Answer => (
            Reason::ProviderError,
            "The provider's last answer leaves open what it did".to_owned(),
        ),
        WaitFor::LateCreate => (
            Reason::Creating,
            "A create went unanswered. It is looked for a while whether its VM appears".to_owned(),
        ),
        WaitFor::GuestShutdown => (
            Reason::ShuttingDown,
            working(OperationKind::GracefulStop).to_owned(),
        ),
        WaitFor::PowerUnknown => (
            Reason::PowerUnknown,
            "The provider does not say whether the VM runs".to_owned(),
        ),
        WaitFor::AdoptionId => (
            Reason::WaitingForAdoption,
            "Waits until adoption has written the VM's id".to_owned(),
        ),
        WaitFor::Moving(by) => (Reason::Migrating, moving(end, by)),
        WaitFor::Keeper(snapshot) => (Reason::InUse, kept(end, snapshot)),
        WaitFor::Hook(moment) => (
            Reason::HookRunning,
            format!("{} is under way{}", moment.field(), why_again(end, *moment)),
        ),
        WaitFor::NextTry(moment) => (Reason::HookFailed, next_try(end, *moment)),
    };
    (Truth::False, reason, message)
}

fn moving(end: &PassEnd<'_>, by: &str) -> String {
    let changes = if end.vm.metadata.deletion_timestamp.is_some() {
        "it is deleted when that has ended"
    } else {
        "changes wait for its end"
    };
    format!("VMMigration {by} moves the VM to another host; {changes}")
}

fn kept(end: &PassEnd<'_>, snapshot: &str) -> String {
    format!(
        "VMSnapshot {snapshot} says deleteOnVMDelete: false, and would be lost with the VM. Delete it, or set its spec.retentionPolicy.deleteOnVMDelete to true; or keep the VM on its hypervisor with the annotation {}=true{}",
        names::ORPHAN_ANNOTATION,
        how_to_force(end)
    )
}

/// A VM that runs serves while it moves.
fn as_before(end: &PassEnd<'_>) -> Truth {
    let told = end.vm.status.as_ref().map(|s| s.conditions.as_slice());
    if is_true(told.unwrap_or_default(), kind::READY) {
        Truth::True
    } else {
        Truth::False
    }
}

/// What the last try of a hook said.
fn why_again(end: &PassEnd<'_>, moment: Moment) -> String {
    let last = end
        .record
        .hooks
        .at(moment)
        .and_then(|run| run.message.as_ref());
    last.map(|why| format!(": {why}")).unwrap_or_default()
}

fn next_try(end: &PassEnd<'_>, moment: Moment) -> String {
    let run = end.record.hooks.at(moment);
    let at = run.and_then(|run| run.next_try).unwrap_or(end.now);
    format!(
        "{} failed{}. It is tried again at {at:.0}; a change of spec tries it at once",
        moment.field(),
        why_again(end, moment)
    )
}

/// What takes long may never come: then people need to know what the hypervisor says of it.
fn with_fault(end: &PassEnd<'_>, working: &str) -> String {
    match end.observed.map(|vm| vm.fault.as_str()) {
        Some(fault) if !fault.is_empty() => format!("{working}. The hypervisor reports: {fault}"),
        _ => working.to_owned(),
    }
}

fn how_to_force(end: &PassEnd<'_>) -> &'static str {
    if end.vm.metadata.deletion_timestamp.is_some() {
        ". To delete this object and leave the VM behind, set the annotation virtrigaud.io/force-delete=true"
    } else {
        ""
    }
}

fn error_text(end: &PassEnd<'_>, error: &ProviderError) -> String {
    format!("{}{}", error.text(), how_to_force(end))
}

const fn in_flight(kind: OperationKind) -> Reason {
    match kind {
        OperationKind::Create => Reason::Creating,
        OperationKind::PowerOn => Reason::PoweringOn,
        OperationKind::PowerOff => Reason::PoweringOff,
        OperationKind::GracefulStop => Reason::ShuttingDown,
        OperationKind::Reboot => Reason::Rebooting,
        OperationKind::Pause => Reason::Pausing,
        OperationKind::Reconfigure => Reason::Reconfiguring,
        OperationKind::Revert => Reason::Reverting,
        OperationKind::Delete => Reason::Deleting,
    }
}

const fn working(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Create => "The VM is being created",
        OperationKind::PowerOn => "The VM is being started",
        OperationKind::PowerOff => "The VM is being stopped",
        OperationKind::GracefulStop => "The guest was asked to shut down",
        OperationKind::Reboot => "The VM is being restarted",
        OperationKind::Pause => "The VM is being paused",
        OperationKind::Reconfigure => "Size, disks or networks are being changed",
        OperationKind::Revert => "The VM goes back to a snapshot",
        OperationKind::Delete => "The VM is being deleted",
    }
}
