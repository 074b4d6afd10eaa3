//! A VM that is to stand still, and one that stands still and is not to.
#![allow(clippy::panic, reason = "helpers of tests")]

use jiff::Timestamp;
use polyvirt_contract::model::{PowerOp, PowerState, VmState};
use polyvirt_contract::{Capabilities, Extension, Features};
use polyvirt_plan::Reason;
use polyvirt_plan::virtual_machine::{
    Applied, Claim, Desired, DesiredPower, Done, Facts, Intent, Object, Observed, OnDrift,
    OperationKind, Placing, ProviderFacts, Record, Step, next_step,
};

/// What is declared, what was reached before, and what is there.
struct Case {
    wanted: DesiredPower,
    applied: Option<DesiredPower>,
    is: PowerState,
}

fn step(case: &Case, extensions: &[Extension], on_power_drift: OnDrift) -> Step {
    let desired = Desired {
        power: case.wanted,
        on_power_drift,
        ..Desired::default()
    };
    let record = Record {
        id: Some("vm-1".into()),
        identity: Some("me".into()),
        applied: Applied {
            reached: Some(1),
            power: case.applied,
            shape: Some(desired.shape()),
            options: None,
            ..Applied::default()
        },
        ..Record::default()
    };
    let vm = VmState {
        id: "vm-1".into(),
        power: case.is,
        ..VmState::default()
    };
    next_step(&Facts {
        now: Timestamp::UNIX_EPOCH,
        object: Object {
            claim: Claim::Held,
            ..Object::default()
        },
        record: &record,
        desired: Ok(&desired),
        provider: ProviderFacts::Ready {
            features: &Features {
                extensions: extensions.iter().copied().collect(),
                ..Features::default()
            },
            capabilities: &Capabilities::default(),
        },
        observed: Observed::Present(&vm),
        asked: Timestamp::UNIX_EPOCH,
        connected: None,
        sent: None,
        intent: Intent::Missing,
        placing: Placing::NotOurs,
        moving: None,
        keeper: None,
        revert: None,
    })
}

#[test]
fn a_vm_is_paused_and_goes_on() {
    use DesiredPower::{Off, On, Paused};
    let case = |wanted, applied, is| Case {
        wanted,
        applied,
        is,
    };
    let power = Step::power;
    for (case, expected) in [
        // What was reached before is forgotten first, so that our own change is never drift.
        (
            case(Paused, Some(On), PowerState::On),
            Step::RecordChange(OperationKind::Pause),
        ),
        (case(Paused, None, PowerState::On), power(PowerOp::Pause)),
        (
            case(Paused, Some(Paused), PowerState::Suspended),
            Step::Done(Done::Converged),
        ),
        (case(Paused, None, PowerState::Off), power(PowerOp::On)),
        (
            case(On, Some(Paused), PowerState::Suspended),
            Step::RecordChange(OperationKind::PowerOn),
        ),
        (case(On, None, PowerState::Suspended), power(PowerOp::On)),
        (case(Off, None, PowerState::Suspended), power(PowerOp::Off)),
    ] {
        let step = step(&case, &[Extension::Pause], OnDrift::Report);
        let words = (case.wanted, case.applied, case.is);
        assert_eq!(step, expected, "{words:?}");
    }
}

/// So `polyvirt vm start` can declare what is, and then On.
#[test]
fn a_pause_of_somebody_else_can_be_declared_where_nobody_can_pause() {
    use DesiredPower::{On, Paused};
    let case = |wanted, applied, is| Case {
        wanted,
        applied: Some(applied),
        is,
    };
    let declared = step(
        &case(Paused, On, PowerState::Suspended),
        &[],
        OnDrift::Report,
    );
    assert_eq!(declared, Step::Done(Done::Converged));
    let goes_on = step(
        &case(On, Paused, PowerState::Suspended),
        &[],
        OnDrift::Report,
    );
    assert_eq!(goes_on, Step::RecordChange(OperationKind::PowerOn));
}

#[test]
fn a_pause_of_somebody_else_is_drift() {
    let paused = Case {
        wanted: DesiredPower::On,
        applied: Some(DesiredPower::On),
        is: PowerState::Suspended,
    };
    let Step::Done(Done::Drifted(drifts)) = step(&paused, &[], OnDrift::Report) else {
        panic!("not told");
    };
    let told = drifts
        .iter()
        .map(|d| (d.declared.as_str(), d.found.as_str()));
    assert_eq!(told.collect::<Vec<_>>(), [("On", "Paused")]);
    let mended = step(&paused, &[], OnDrift::Correct);
    assert_eq!(mended, Step::power(PowerOp::On));
}

#[test]
fn a_provider_that_cannot_pause_is_not_asked_to() {
    let running = Case {
        wanted: DesiredPower::Paused,
        applied: Some(DesiredPower::On),
        is: PowerState::On,
    };
    let Step::Stop(problem) = step(&running, &[Extension::Identity], OnDrift::Correct) else {
        panic!("it goes on");
    };
    let told = (problem.reason, problem.field.as_str());
    assert_eq!(told, (Reason::UnsupportedByProvider, "spec.powerState"));
}
