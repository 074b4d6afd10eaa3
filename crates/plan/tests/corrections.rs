//! Changes made outside Kubernetes that are corrected: recorded before the correction, reported once, and only if they are
//! not the manager's own.
#![allow(clippy::expect_used, reason = "helpers of tests are tests too")]

use jiff::Timestamp;
use polyvirt_api::infra::{DriftKind, RestartReason, VMPhase, VirtualMachine};
use polyvirt_contract::model::{PowerOp, PowerState, VmState};
use polyvirt_contract::{Capabilities, Features};
use polyvirt_plan::virtual_machine::correction::Found;
use polyvirt_plan::virtual_machine::{
    Applied, Claim, Desired, DesiredPower, Done, Facts, Intent, Object, Observed, OnDrift,
    OperationKind, Outcome, PassEnd, Placing, ProviderFacts, Record, Restart, Step, next_step,
    report,
};
use polyvirt_plan::{Note, Reason, Severity};
use serde_json::json;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

/// A VM that was as declared, and what was found of it since.
struct Case {
    record: Record,
    desired: Desired,
    vm: Option<VmState>,
    reboot: &'static str,
    unconfirmed: Option<OperationKind>,
}

fn case() -> Case {
    let mut desired = Desired {
        power: DesiredPower::On,
        on_power_drift: OnDrift::Correct,
        on_size_drift: OnDrift::Correct,
        on_deletion: OnDrift::Correct,
        ..Desired::default()
    };
    desired.vm.class.cpu = 2;
    desired.vm.class.memory_mib = 512;
    Case {
        record: Record {
            id: Some("vm-1".into()),
            identity: Some("me".into()),
            applied: Applied {
                reached: Some(1),
                power: Some(DesiredPower::On),
                shape: Some(desired.shape()),
                ..Applied::default()
            },
            ..Record::default()
        },
        desired,
        vm: Some(VmState {
            id: "vm-1".into(),
            power: PowerState::On,
            cpu: 2,
            memory_mib: 512,
            ..VmState::default()
        }),
        reboot: "",
        unconfirmed: None,
    }
}

fn crashed() -> Case {
    let mut case = case();
    case.vm.as_mut().expect("there").power = PowerState::Off;
    case
}

fn off_instead_of_on() -> Found {
    Found {
        kind: DriftKind::Power,
        text: "powerState is Off instead of On".into(),
    }
}

impl Case {
    fn step(&self) -> Step {
        next_step(&Facts {
            now: at(1000),
            object: Object {
                claim: Claim::Held,
                reboot: self.reboot,
                ..Object::default()
            },
            record: &self.record,
            desired: Ok(&self.desired),
            provider: ProviderFacts::Ready {
                features: &Features::default(),
                capabilities: &Capabilities::default(),
            },
            observed: self.vm.as_ref().map_or(Observed::Absent, Observed::Present),
            asked: at(1000),
            connected: None,
            sent: None,
            unconfirmed: self.unconfirmed,
            intent: Intent::Missing,
            placing: Placing::NotOurs,
            moving: None,
            keeper: None,
            revert: None,
        })
    }

    /// Follows the planner until the VM is as declared.
    fn correct(&mut self) {
        if let Step::RecordDrift(found) = self.step() {
            self.record.begin_correction(found, at(1000));
        }
        let vm = self.vm.get_or_insert_default();
        vm.power = PowerState::On;
        (vm.cpu, vm.memory_mib) = (2, 512);
        assert_eq!(self.step(), Step::Done(Done::Converged));
        let vm = self.vm.clone().expect("there");
        self.record.close_correction(&self.desired, &vm, at(1003));
    }

    fn corrected(&self) -> bool {
        let last = self.record.correction.as_ref();
        last.is_some_and(|c| c.corrected.is_some())
    }
}

#[test]
fn a_crash_is_recorded_before_the_vm_is_started() {
    let mut case = crashed();
    assert_eq!(case.step(), Step::RecordDrift(off_instead_of_on()));
    case.record.begin_correction(off_instead_of_on(), at(1000));
    assert_eq!(case.step(), Step::power(PowerOp::On));
}

#[test]
fn a_correction_is_closed_once_with_the_restart() {
    let mut case = crashed();
    case.correct();
    assert!(case.corrected());
    let restart = Restart {
        at: at(1003),
        reason: RestartReason::DriftCorrected,
    };
    assert_eq!(case.record.restart, Some(restart));
    let before = case.record.clone();
    let vm = case.vm.clone().expect("there");
    case.record.close_correction(&case.desired, &vm, at(1009));
    assert_eq!(case.record, before, "nothing is left to report");
}

#[test]
fn a_second_crash_is_another_correction() {
    let mut case = crashed();
    case.correct();
    case.vm.as_mut().expect("there").power = PowerState::Off;
    assert_eq!(case.step(), Step::RecordDrift(off_instead_of_on()));
}

#[test]
fn a_size_changed_outside_is_recorded_and_closed_without_a_restart() {
    let mut case = case();
    case.vm.as_mut().expect("there").cpu = 7;
    let found = Found {
        kind: DriftKind::Size,
        text: "resources.cpu is 7 instead of 2".into(),
    };
    assert_eq!(case.step(), Step::RecordDrift(found));
    case.correct();
    assert!(case.corrected());
    assert_eq!(case.record.restart, None);
}

#[test]
fn a_deleted_vm_is_recorded_before_it_is_recreated() {
    let mut case = case();
    case.vm = None;
    let found = Found {
        kind: DriftKind::Deletion,
        text: "VM vm-1 was deleted".into(),
    };
    assert_eq!(case.step(), Step::RecordDrift(found.clone()));
    case.record.begin_correction(found, at(1000));
    assert_eq!(case.step(), Step::RecordIntent);
    case.record.applied = Applied {
        shape: Some(case.desired.shape()),
        ..Applied::default()
    };
    case.correct();
    assert!(case.corrected());
    let reason = case.record.restart.map(|restart| restart.reason);
    assert_eq!(reason, Some(RestartReason::Recreated));
}

#[test]
fn a_vm_that_reappears_was_not_recreated() {
    let mut case = case();
    let there = case.vm.take();
    if let Step::RecordDrift(found) = case.step() {
        case.record.begin_correction(found, at(1000));
    }
    case.vm = there;
    case.correct();
    assert_eq!(case.record.correction, None);
    assert_eq!(case.record.restart, None);
}

#[test]
fn changes_of_our_own_are_not_drift() {
    let is_recorded = |case: &Case| matches!(case.step(), Step::RecordDrift(_));
    let mut edited = crashed();
    edited.record.applied.power = Some(DesiredPower::Off);
    assert!(!is_recorded(&edited), "the user edited spec.powerState");
    let mut unsettled = crashed();
    unsettled.record.applied.power = None;
    assert!(!is_recorded(&unsettled), "a change was recorded before");
    let mut sent = crashed();
    sent.unconfirmed = Some(OperationKind::Reboot);
    assert!(!is_recorded(&sent), "a change was sent and has not settled");
    let mut requested = crashed();
    requested.reboot = "monday";
    assert!(!is_recorded(&requested), "a reboot was asked for");
    for reason in [RestartReason::Requested, RestartReason::ChangeApplied] {
        let mut restarted = crashed();
        restarted.record.restart = Some(Restart {
            at: at(990),
            reason,
        });
        assert!(!is_recorded(&restarted), "it restarts: {reason:?}");
        assert_eq!(restarted.step(), Step::power(PowerOp::On));
        restarted.record.restart = Some(Restart {
            at: at(900),
            reason,
        });
        assert!(is_recorded(&restarted), "it has had its time: {reason:?}");
    }
    let mut resized = case();
    resized.vm.as_mut().expect("there").cpu = 7;
    resized.record.applied.shape = None;
    assert!(!is_recorded(&resized), "a change of size was recorded");
}

#[test]
fn an_edit_ends_a_correction_without_a_report() {
    let mut case = crashed();
    case.record.begin_correction(off_instead_of_on(), at(1000));
    case.desired.power = DesiredPower::Off;
    let vm = case.vm.clone().expect("there");
    case.record.close_correction(&case.desired, &vm, at(1003));
    assert_eq!(case.record.correction, None);
}

fn object(record: &Record, status: Option<serde_json::Value>) -> VirtualMachine {
    let mut vm: VirtualMachine = serde_json::from_value(json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
        "metadata": {"name": "web", "namespace": "team", "generation": 1},
        "spec": {"providerRef": {"name": "p"}}, "status": status.unwrap_or_default(),
    }))
    .expect("a valid object");
    if vm.status.is_none() {
        let mut status = polyvirt_api::infra::VirtualMachineStatus::default();
        polyvirt_plan::virtual_machine::record::write(record, &mut status);
        vm.status = Some(status);
    }
    vm
}

/// Reports, writes, and returns the events.
fn written(vm: &mut VirtualMachine, case: &Case, outcome: &Outcome, now: i64) -> Vec<Note> {
    let (status, notes) = report(&PassEnd {
        vm,
        generation: Some(1),
        record: &case.record,
        intent: Intent::Missing,
        outcome,
        observed: case.vm.as_ref(),
        desired: Some(&case.desired),
        ignored_fields: &[],
        edited_fields: &[],
        failure: None,
        revert: None,
        now: at(now),
    });
    if let Some(status) = status {
        vm.status = Some(status);
    }
    notes
}

#[test]
fn a_correction_gives_two_warnings_and_nothing_else() {
    let mut case = case();
    let mut vm = object(&case.record, None);
    let done = Outcome::Done(Done::Converged);
    written(&mut vm, &case, &done, 900);
    case.vm.as_mut().expect("there").power = PowerState::Off;
    case.record.begin_correction(off_instead_of_on(), at(1000));
    let starting = Outcome::InFlight(OperationKind::PowerOn);
    let detected = written(&mut vm, &case, &starting, 1000);
    let reasons = |notes: &[Note]| notes.iter().map(|n| n.reason).collect::<Vec<_>>();
    assert_eq!(reasons(&detected), [Reason::DriftDetected]);
    assert_eq!(detected[0].severity, Severity::Warning);
    assert_eq!(written(&mut vm, &case, &starting, 1001), []);
    case.correct();
    let ended = written(&mut vm, &case, &done, 1003);
    assert_eq!(reasons(&ended), [Reason::DriftCorrected]);
    assert_eq!(ended[0].severity, Severity::Warning);
    assert!(ended[0].message.contains("powerState is Off instead of On"));
    assert_eq!(written(&mut vm, &case, &done, 1004), []);
    let status = vm.status.expect("written");
    assert_eq!(status.phase, Some(VMPhase::Running));
    let restart = status.last_restart.expect("written");
    assert_eq!(restart.time.0, at(1003));
    assert!(!status.conditions.iter().any(|c| c.type_ == "Drifted"));
}
