//! From the end of a pass to what people read.
#![allow(
    clippy::expect_used,
    clippy::large_stack_arrays,
    reason = "helpers of tests are tests too"
)]

use jiff::Timestamp;
use polyvirt_api::infra::{PlacementStatus, VMPhase, VirtualMachine, VirtualMachineStatus};
use polyvirt_contract::model::{PowerState, VmState};
use polyvirt_contract::{ErrorKind, ProviderError};
use polyvirt_plan::virtual_machine::{
    Applied, Desired, DesiredPower, Done, Drift, Intent, OperationKind, Outcome, PassEnd, Record,
    Shape, Wait, WaitFor, report,
};
use polyvirt_plan::{Note, Problem, Reason, Severity};
use serde_json::json;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn vm(status: Option<VirtualMachineStatus>) -> VirtualMachine {
    let mut vm: VirtualMachine = serde_json::from_value(json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
        "metadata": {"name": "web", "namespace": "team", "generation": 3},
        "spec": {"providerRef": {"name": "p"}},
    }))
    .expect("a valid object");
    vm.status = status;
    vm
}

fn running() -> VmState {
    VmState {
        id: "vm-1".into(),
        power: PowerState::On,
        ips: vec!["10.0.0.1".into()],
        cpu: 2,
        memory_mib: 512,
        ..VmState::default()
    }
}

fn created() -> Record {
    let shape = Shape {
        cpu: 2,
        memory_mib: 512,
        ..Shape::default()
    };
    Record {
        id: Some("vm-1".into()),
        applied: Applied {
            reached: Some(3),
            power: Some(DesiredPower::On),
            shape: Some(shape),
            options: None,
            ..Applied::default()
        },
        ..Record::default()
    }
}

fn end(
    vm: &VirtualMachine,
    record: &Record,
    outcome: &Outcome,
    observed: Option<&VmState>,
    second: i64,
) -> (Option<VirtualMachineStatus>, Vec<Note>) {
    let desired = Desired::default();
    report(&PassEnd {
        vm,
        generation: vm.metadata.generation,
        record,
        intent: Intent::Missing,
        outcome,
        observed,
        desired: Some(&desired),
        ignored_fields: &[],
        edited_fields: &[],
        revert: None,
        now: at(second),
    })
}

fn ready(status: &VirtualMachineStatus) -> (&str, &str, &str) {
    let condition = status
        .conditions
        .iter()
        .find(|c| c.type_ == "Ready")
        .expect("always there");
    (&condition.status, &condition.reason, &condition.message)
}

#[test]
fn a_second_pass_over_the_same_facts_writes_nothing() {
    let done = Outcome::Done(Done::Converged);
    let (first, notes) = end(&vm(None), &created(), &done, Some(&running()), 1);
    let first = first.expect("written");
    assert_eq!(first.phase, Some(VMPhase::Running));
    assert_eq!(
        ready(&first),
        ("True", "ReconcileSuccess", "The VM is running")
    );
    assert_eq!(
        notes.iter().map(|n| n.reason).collect::<Vec<_>>(),
        [Reason::Created, Reason::Running]
    );
    let (second, notes) = end(&vm(Some(first)), &created(), &done, Some(&running()), 99);
    assert_eq!((second, notes), (None, vec![]));
}

#[test]
fn figures_that_move_all_the_time_cause_no_write() {
    let done = Outcome::Done(Done::Converged);
    let (first, _) = end(&vm(None), &created(), &done, Some(&running()), 1);
    let moved = VmState {
        details: [("uptime".to_owned(), "7".to_owned())].into(),
        ..running()
    };
    assert_eq!(end(&vm(first), &created(), &done, Some(&moved), 2).0, None);
}

#[test]
fn a_size_that_is_not_told_now_stays_as_it_was_told_last() {
    let done = Outcome::Done(Done::Converged);
    let (first, _) = end(&vm(None), &created(), &done, Some(&running()), 1);
    let changing = Record {
        applied: Applied {
            shape: None,
            ..created().applied
        },
        ..created()
    };
    let silent = VmState {
        cpu: 0,
        memory_mib: 0,
        ..running()
    };
    let under_way = Outcome::InFlight(OperationKind::Reconfigure);
    let object = vm(first.clone());
    let (second, _) = end(&object, &changing, &under_way, Some(&silent), 2);
    let size = |status: Option<VirtualMachineStatus>| status.expect("written").current_resources;
    assert_eq!(size(second), size(first));
    let (never, _) = end(&vm(None), &changing, &under_way, Some(&silent), 2);
    assert_eq!(size(never), None, "not an object without fields");
}

#[test]
fn connecting_is_not_news() {
    let connecting = Outcome::Waiting(Wait {
        on: WaitFor::ProviderConnecting,
        recheck: None,
    });
    assert_eq!(
        end(&vm(None), &Record::default(), &connecting, None, 1),
        (None, vec![])
    );
}

#[test]
fn every_phase_is_used() {
    let problem =
        |reason| Outcome::Stopped(Problem::new(reason, "spec.classRef.name", "Create it"));
    let off = VmState {
        power: PowerState::Off,
        ..running()
    };
    let error = |kind| Outcome::Failed(ProviderError::new(kind, "No"));
    let mut deleting = vm(None);
    deleting.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(1)));
    for (vm, record, outcome, observed, phase) in [
        (
            vm(None),
            Record::default(),
            problem(Reason::WaitingForDependencies),
            None,
            VMPhase::Pending,
        ),
        (
            vm(None),
            Record::default(),
            Outcome::InFlight(OperationKind::Create),
            None,
            VMPhase::Provisioning,
        ),
        (
            vm(None),
            Record::default(),
            error(ErrorKind::Unavailable),
            None,
            VMPhase::Provisioning,
        ),
        (
            vm(None),
            Record::default(),
            error(ErrorKind::Invalid),
            None,
            VMPhase::Failed,
        ),
        (
            vm(None),
            Record::default(),
            problem(Reason::InvalidSpec),
            None,
            VMPhase::Failed,
        ),
        (
            vm(None),
            created(),
            Outcome::InFlight(OperationKind::Reconfigure),
            Some(running()),
            VMPhase::Reconfiguring,
        ),
        (
            vm(None),
            created(),
            Outcome::Done(Done::Converged),
            Some(off),
            VMPhase::Stopped,
        ),
        (
            vm(None),
            created(),
            problem(Reason::VmMissing),
            None,
            VMPhase::Failed,
        ),
        (
            deleting,
            created(),
            Outcome::InFlight(OperationKind::Delete),
            Some(running()),
            VMPhase::Deleting,
        ),
    ] {
        let (status, _) = end(&vm, &record, &outcome, observed.as_ref(), 1);
        assert_eq!(status.expect("written").phase, Some(phase), "{outcome:?}");
    }
}

#[test]
fn drift_is_told_with_both_values_and_goes_away() {
    let drift = Drift {
        field: "spec.powerState",
        declared: "On".into(),
        found: "Off".into(),
    };
    let (status, notes) = end(
        &vm(None),
        &created(),
        &Outcome::Done(Done::Drifted(vec![drift])),
        Some(&running()),
        1,
    );
    let status = status.expect("written");
    assert!(
        ready(&status)
            .2
            .contains("spec.powerState declares On but the hypervisor has Off")
    );
    assert!(
        status
            .conditions
            .iter()
            .any(|c| c.type_ == "Drifted" && c.status == "True")
    );
    assert_eq!(
        notes.last().map(|n| (n.severity, n.reason)),
        Some((Severity::Warning, Reason::DriftDetected))
    );
    let (healed, _) = end(
        &vm(Some(status)),
        &created(),
        &Outcome::Done(Done::Converged),
        Some(&running()),
        2,
    );
    assert!(
        healed
            .expect("written")
            .conditions
            .iter()
            .all(|c| c.type_ != "Drifted")
    );
}

#[test]
fn a_reconfiguring_condition_is_cleared_when_it_is_over() {
    let busy = Outcome::InFlight(OperationKind::Reconfigure);
    let (status, _) = end(&vm(None), &created(), &busy, Some(&running()), 1);
    let (over, _) = end(
        &vm(status),
        &created(),
        &Outcome::Done(Done::Converged),
        Some(&running()),
        2,
    );
    let over = over.expect("written");
    let condition = over
        .conditions
        .iter()
        .find(|c| c.type_ == "Reconfiguring")
        .expect("told");
    assert_eq!(condition.status, "False");
}

#[test]
fn a_deletion_that_waits_says_how_to_force_it() {
    let mut deleting = vm(None);
    deleting.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(1)));
    let waiting = Outcome::Waiting(Wait {
        on: WaitFor::ProviderUnavailable,
        recheck: None,
    });
    let (status, _) = end(&deleting, &created(), &waiting, None, 1);
    assert!(
        ready(&status.expect("written"))
            .2
            .contains("virtrigaud.io/force-delete=true")
    );
}

#[test]
fn an_error_names_its_field() {
    let error = ProviderError::invalid("spec.disks[1].sizeGiB", "A disk only grows");
    let (status, notes) = end(
        &vm(None),
        &created(),
        &Outcome::Failed(error),
        Some(&running()),
        1,
    );
    let status = status.expect("written");
    assert_eq!(
        ready(&status),
        (
            "False",
            "InvalidRequest",
            "spec.disks[1].sizeGiB: A disk only grows"
        )
    );
    assert_eq!(
        status.phase,
        Some(VMPhase::Running),
        "the VM itself still runs"
    );
    assert!(notes.iter().any(|n| n.severity == Severity::Warning));
}

#[test]
fn the_condition_placed_says_which_host_or_why_none() {
    let placed = |status: &VirtualMachineStatus| {
        let found = status.conditions.iter().find(|c| c.type_ == "Placed");
        found.map(|c| (c.status.clone(), c.reason.clone(), c.message.clone()))
    };
    let refused = Outcome::Stopped(Problem::new(
        Reason::Unschedulable,
        "spec.placement",
        "0/1 hosts are available: 1 cordoned",
    ));
    let (status, notes) = end(&vm(None), &Record::default(), &refused, None, 1);
    let status = status.expect("written");
    let (truth, reason, message) = placed(&status).expect("told");
    assert_eq!(
        (truth.as_str(), reason.as_str()),
        ("False", "Unschedulable")
    );
    assert!(message.ends_with("1 cordoned"), "{message}");
    assert_eq!(status.phase, Some(VMPhase::Pending));
    assert!(notes.iter().any(|n| n.reason == Reason::Unschedulable));
    let chosen = Record {
        placement: Some(Box::new(PlacementStatus {
            host: Some("host-1".to_owned()),
            message: Some("It is the only one".to_owned()),
            ..PlacementStatus::default()
        })),
        ..Record::default()
    };
    let creating = Outcome::InFlight(OperationKind::Create);
    let (status, _) = end(&vm(Some(status)), &chosen, &creating, None, 2);
    let (truth, _, message) = placed(&status.expect("written")).expect("told");
    assert_eq!(truth, "True");
    assert_eq!(message, "Host host-1 was chosen. It is the only one");
    let moved = VmState {
        host: "host-2".to_owned(),
        ..VmState::default()
    };
    let (status, _) = end(&vm(None), &chosen, &creating, Some(&moved), 3);
    let (_, _, message) = placed(&status.expect("written")).expect("told");
    assert!(message.starts_with("The VM is on host host-2. Host host-1 was"));
}
