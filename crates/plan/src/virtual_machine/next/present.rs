//! The VM is there: what it still lacks of what is declared.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use polyvirt_contract::RequestId;
use polyvirt_contract::model::{PowerOp, PowerState, Stage, VmState};
use serde_json::json;

use super::{RESEND_AFTER, remaining};
use crate::digest;
use crate::problem::Problem;
use crate::reason::Reason;
use crate::virtual_machine::facts::{
    Answer, Desired, DesiredPower, Facts, OnDrift, OperationKind, Origin, RestartPolicy, Shape,
};
use crate::virtual_machine::size::{differences, power_matches, tells_shape};
use crate::virtual_machine::step::{Done, Drift, Step, WaitFor};
use crate::virtual_machine::{hooks, revert};

pub(super) fn present(facts: &Facts<'_>, desired: &Desired, vm: &VmState) -> Step {
    if let Some(wait) = unfinished(vm) {
        return wait;
    }
    if let Some(step) = revert::step(facts) {
        return step;
    }
    let shape = shape_step(facts, desired, vm);
    let power = power_step(facts, desired, vm);
    // A stopped VM is changed before it starts, so that the change needs no restart; a running one that is to stop is
    // stopped first for the same reason.
    let stops = matches!(desired.power, DesiredPower::Off | DesiredPower::OffGraceful);
    let first = if is_up(vm) && stops {
        [power, shape]
    } else {
        [shape, power]
    };
    if let Some(step) = first.into_iter().flatten().next() {
        let step = announced(facts, desired, step);
        // A guest that is paused can do nothing, and to go on is no start.
        return match vm.power {
            PowerState::Suspended => step,
            _ => hooks::before(facts, desired, step),
        };
    }
    reboot(facts, vm)
        .or_else(|| restart(facts, desired, vm))
        .or_else(|| hooks::after_start(facts, desired, vm))
        .unwrap_or_else(|| settled(facts, desired, vm))
}

/// A VM that is half made, or half gone, is neither changed nor counted as made. Its provider tells when that is over.
fn unfinished(vm: &VmState) -> Option<Step> {
    let kind = match vm.stage {
        Stage::Whole => return None,
        Stage::Creating => OperationKind::Create,
        Stage::Deleting => OperationKind::Delete,
    };
    Some(Step::wait_at_most(WaitFor::Effect(kind), RESEND_AFTER))
}

/// A change is sent only when the record no longer claims what it changes.
fn announced(facts: &Facts<'_>, desired: &Desired, step: Step) -> Step {
    let applied = &facts.record.applied;
    let claims = match &step {
        Step::Power(_) => applied.power.is_some_and(|power| power != desired.power),
        Step::Reconfigure => applied
            .shape
            .as_ref()
            .is_some_and(|shape| *shape != desired.shape()),
        _ => false,
    };
    match step.operation() {
        Some(kind) if claims => Step::RecordChange(kind),
        _ => step,
    }
}

fn shape_step(facts: &Facts<'_>, desired: &Desired, vm: &VmState) -> Option<Step> {
    let declared = desired.shape();
    let found = differences(&declared, vm);
    let edited = facts
        .record
        .applied
        .shape
        .as_ref()
        .is_some_and(|applied| *applied != declared);
    // What waits for a restart is not what the VM shows: taking a change back is a change too.
    let something_waits =
        !vm.restart_required.is_empty() || !facts.record.restart_required.is_empty();
    if edited && !(found.is_empty() && tells_shape(vm) && !something_waits) {
        return Some(Step::Reconfigure);
    }
    if has_other_options(facts, desired) {
        return Some(Step::Reconfigure);
    }
    let first_time = facts.record.applied.shape.is_none();
    if first_time && facts.object.origin == Origin::Created && !tells_shape(vm) {
        // We made it, but nobody remembers with what, and the provider does not tell.
        return Some(Step::Reconfigure);
    }
    let waits = |drift: &Drift| waits_for_restart(facts, vm, drift);
    // What waits for a restart may be an earlier change of the same field.
    let open = match (first_time, desired.on_size_drift) {
        (true, _) => !found.is_empty() || something_waits,
        (false, OnDrift::Correct) => !found.iter().all(waits),
        (false, OnDrift::Report) => false,
    };
    open.then_some(Step::Reconfigure)
}

/// Whether the options were edited since they were sent. The VM shows none of them. One of which nobody knows what it was made with
/// has those that are declared.
fn has_other_options(facts: &Facts<'_>, desired: &Desired) -> bool {
    let applied = &facts.record.applied;
    let unknown = applied.shape.is_none() && applied.options.is_none();
    !unknown && !desired.has_options(applied.options.as_deref())
}

/// A difference that the provider, or where it does not tell the last pass, has already said a restart will mend.
fn waits_for_restart(facts: &Facts<'_>, vm: &VmState, drift: &Drift) -> bool {
    let named = |list: &[String]| list.iter().any(|f| f == drift.field);
    let guessed = !facts.provider.tells_what_waits() && named(&facts.record.restart_required);
    is_up(vm) && (named(&vm.restart_required) || guessed)
}

fn power_step(facts: &Facts<'_>, desired: &Desired, vm: &VmState) -> Option<Step> {
    let Some(matches) = power_matches(desired.power, vm.power) else {
        return Some(Step::wait_at_most(
            WaitFor::PowerUnknown,
            Duration::from_secs(30),
        ));
    };
    if matches {
        return None;
    }
    let drifted = facts.record.applied.power == Some(desired.power);
    if drifted && desired.on_power_drift == OnDrift::Report {
        return None;
    }
    Some(match desired.power {
        DesiredPower::On => Step::power(PowerOp::On),
        DesiredPower::Off => Step::power(PowerOp::Off),
        DesiredPower::OffGraceful => graceful_stop(facts, desired),
        DesiredPower::Paused => pause(facts, desired, vm),
    })
}

/// Pauses a VM that runs; one that is off is started first. What follows a start follows it before the pause, for a guest that
/// is paused does nothing.
fn pause(facts: &Facts<'_>, desired: &Desired, vm: &VmState) -> Step {
    if !facts.provider.can_pause() {
        return Step::Stop(cannot_pause());
    }
    match vm.power {
        PowerState::On => {
            hooks::after_start(facts, desired, vm).unwrap_or_else(|| Step::power(PowerOp::Pause))
        }
        _ => Step::power(PowerOp::On),
    }
}

fn cannot_pause() -> Problem {
    let text = "The provider of this VM cannot pause VMs. Write On, Off or OffGraceful";
    Problem::new(Reason::UnsupportedByProvider, "spec.powerState", text)
}

/// Whether there is a machine in memory.
fn is_up(vm: &VmState) -> bool {
    matches!(vm.power, PowerState::On | PowerState::Suspended)
}

/// Asks the guest once, waits for the deadline, then pulls the plug.
fn graceful_stop(facts: &Facts<'_>, desired: &Desired) -> Step {
    let asked = facts
        .record
        .operation
        .as_ref()
        .filter(|o| o.kind == OperationKind::GracefulStop);
    let Some(asked) = asked else {
        return Step::power(PowerOp::ShutdownGraceful {
            timeout: desired.graceful_timeout,
        });
    };
    match remaining(facts.now, asked.since, desired.graceful_timeout) {
        Some(rest) => Step::wait_at_most(WaitFor::GuestShutdown, rest),
        None => Step::power(PowerOp::Off),
    }
}

fn reboot(facts: &Facts<'_>, vm: &VmState) -> Option<Step> {
    let asked = facts.object.reboot;
    let open = !asked.is_empty() && asked != facts.record.reboot_handled;
    let request = RequestId::from(format!("reboot-{asked}"));
    let done = vm.last_request.as_ref() == Some(&request)
        || facts
            .sent
            .is_some_and(|s| s.request.as_ref() == Some(&request) && s.answer == Answer::Taken);
    (open && !done && vm.power == PowerState::On).then(|| Step::reboot(request))
}

fn restart(facts: &Facts<'_>, desired: &Desired, vm: &VmState) -> Option<Step> {
    let fields = restart_fields(facts, desired, vm);
    let wanted = !fields.is_empty()
        && desired.restart == RestartPolicy::WhenNeeded
        && vm.power == PowerState::On;
    if wanted && is_unrecorded_reboot(facts, vm) {
        // The next request makes the provider forget this one.
        return Some(Step::RecordChange(OperationKind::Reboot));
    }
    wanted.then(|| Step::reboot(restart_request(&desired.shape(), vm)))
}

/// One restart for one change: the same as long as neither the declaration nor the VM moves.
fn restart_request(shape: &Shape, vm: &VmState) -> RequestId {
    // An earlier release may have sent it and ended before it wrote that down: the same request is no second restart.
    let legacy = legacy_restart_request(shape, vm);
    if vm.last_request.as_ref() == Some(&legacy) {
        return legacy;
    }
    let digest = digest::of(&json!({
        "cpu": shape.cpu,
        "memoryMiB": shape.memory_mib,
        "disks": shape.disks,
        "networks": shape.networks,
    }));
    RequestId::from(format!("restart-{digest}-{}", vm.revision))
}

/// The form of releases before digests had a version.
fn legacy_restart_request(shape: &Shape, vm: &VmState) -> RequestId {
    let mut hasher = DefaultHasher::new();
    shape.hash(&mut hasher);
    RequestId::from(format!("restart-{:016x}-{}", hasher.finish(), vm.revision))
}

/// Whether a reboot that was asked for was carried out, and only the provider knows.
fn is_unrecorded_reboot(facts: &Facts<'_>, vm: &VmState) -> bool {
    let asked = facts.object.reboot;
    let request = RequestId::from(format!("reboot-{asked}"));
    asked != facts.record.reboot_handled && vm.last_request.as_ref() == Some(&request)
}

fn restart_fields(facts: &Facts<'_>, desired: &Desired, vm: &VmState) -> Vec<String> {
    if !vm.restart_required.is_empty() {
        return vm.restart_required.clone();
    }
    differences(&desired.shape(), vm)
        .iter()
        .filter(|d| waits_for_restart(facts, vm, d))
        .map(|d| d.field.to_owned())
        .collect()
}

/// A power state in the words of the API.
const fn power_word(power: PowerState) -> &'static str {
    match power {
        PowerState::Suspended => "Paused",
        other => other.wire(),
    }
}

fn settled(facts: &Facts<'_>, desired: &Desired, vm: &VmState) -> Step {
    let waiting = restart_fields(facts, desired, vm);
    let mut drifts: Vec<_> = differences(&desired.shape(), vm)
        .into_iter()
        .filter(|d| !waiting.iter().any(|f| f == d.field))
        .collect();
    if power_matches(desired.power, vm.power) == Some(false) {
        drifts.push(Drift {
            field: "spec.powerState",
            declared: format!("{:?}", desired.power),
            found: power_word(vm.power).to_owned(),
        });
    }
    Step::Done(match (drifts.is_empty(), waiting.is_empty()) {
        (false, _) => Done::Drifted(drifts),
        (true, false) => Done::RestartNeeded(waiting),
        (true, true) => Done::Converged,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape {
            cpu: 2,
            memory_mib: 512,
            ..Shape::default()
        }
    }

    /// Providers remember the last request: if its form changes, a restart under way is repeated.
    #[test]
    fn a_restart_has_the_same_name_in_every_build() {
        let vm = VmState {
            revision: 7,
            ..VmState::default()
        };
        let request = restart_request(&shape(), &vm);
        assert_eq!(request, RequestId::from("restart-v1:5607d79a11bcf19e-7"));
    }

    #[test]
    fn a_restart_that_an_earlier_release_sent_is_not_sent_again_under_another_name() {
        let mut vm = VmState::default();
        let before = legacy_restart_request(&shape(), &vm);
        vm.last_request = Some(before.clone());
        assert_eq!(restart_request(&shape(), &vm), before);
        let larger = Shape { cpu: 4, ..shape() };
        assert_ne!(restart_request(&larger, &vm), before);
    }
}
