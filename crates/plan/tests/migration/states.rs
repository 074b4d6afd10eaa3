//! The table of its states.

use std::time::Duration;

use polyvirt_api::infra::MoveResult;
use polyvirt_contract::model::{MigrationMode, PowerState};
use polyvirt_contract::{ErrorKind, ProviderError};
use polyvirt_plan::migration::{
    Done, End, Intent, Quiet, Release, Step, Stop, VmFacts, WaitFor, Wish,
};
use polyvirt_plan::snapshot::Life;
use polyvirt_plan::virtual_machine::{Claim, Force};

use crate::case::{Case, at, begun, vm_on, waits_for};

#[test]
fn it_begins_in_order_and_writes_down_before_it_sends() {
    let mut case = Case::default();
    case.object.claim = Claim::Missing;
    assert_eq!(case.plan(), Step::Claim);
    case.object.claim = Claim::Held;
    assert_eq!(case.plan(), Step::RecordIntent);
    case.record = begun();
    case.looked = false;
    assert_eq!(case.plan(), Step::Look);
    case.looked = true;
    assert_eq!(case.plan(), Step::Send);
    case.record.task = Some("t".into());
    assert_eq!(case.plan(), Step::CheckTask("t".into()));
}

#[test]
fn what_keeps_it_from_beginning_is_waited_for() {
    let waits = |case: &Case| waits_for(&case.plan()).cloned();
    for (vm, on) in [
        (VmFacts::Missing, WaitFor::VmMissing),
        (VmFacts::NotMade, WaitFor::VmNotMade),
        (VmFacts::Leaving, WaitFor::VmLeaving),
        (VmFacts::Busy, WaitFor::VmBusy),
    ] {
        let case = Case {
            vm,
            ..Case::default()
        };
        assert_eq!(waits(&case), Some(on));
    }
    let mut off = Case::default();
    off.state.as_mut().expect("a VM").power = PowerState::Off;
    assert_eq!(waits(&off), Some(WaitFor::VmOff));
    off.desired.request.mode = MigrationMode::Cold;
    assert_eq!(off.plan(), Step::RecordIntent);
    let second = Case {
        rival: Some("first"),
        ..Case::default()
    };
    assert_eq!(waits(&second), Some(WaitFor::Behind("first".into())));
    let away = Case {
        reachable: false,
        ..Case::default()
    };
    assert_eq!(waits(&away), Some(WaitFor::ProviderUnavailable));
}

#[test]
fn a_provider_that_cannot_move_says_so() {
    let mut case = Case::default();
    case.features.extensions.clear();
    assert!(matches!(case.plan(), Step::Stop(_)));
}

#[test]
fn a_vm_that_is_there_needs_nothing() {
    let case = Case {
        state: Some(vm_on("b")),
        ..Case::default()
    };
    assert_eq!(case.plan(), Step::Finish(End::WasThere));
}

#[test]
fn of_two_that_begin_at_once_whoever_sees_the_other_takes_it_back() {
    let mut case = Case {
        intent: Intent::JustWritten,
        rival: Some("other"),
        ..Case::open()
    };
    assert_eq!(case.plan(), Step::Yield("other".into()));
    case.intent = Intent::Earlier;
    assert_eq!(case.plan(), Step::Send, "one that has sent goes on");
}

#[test]
fn only_the_vm_tells_how_it_ended() {
    let broken = ProviderError::new(ErrorKind::Internal, "Broken");
    let mut case = Case {
        failure: Some(broken.clone()),
        state: Some(vm_on("b")),
        ..Case::open()
    };
    assert_eq!(
        case.plan(),
        Step::Finish(End::Moved),
        "a task that failed has moved it"
    );
    case.state = Some(vm_on("a"));
    assert_eq!(case.plan(), Step::Finish(End::Failed(broken.clone())));
    case.desired.retries = 1;
    assert_eq!(case.plan(), Step::Retry(broken));
    case.state = None;
    assert_eq!(case.plan(), Step::Finish(End::VmGone));
}

#[test]
fn what_can_only_fail_again_is_not_tried_again() {
    let mut case = Case::open();
    case.desired.retries = 5;
    for kind in [
        ErrorKind::Invalid,
        ErrorKind::Unsupported,
        ErrorKind::Cancelled,
    ] {
        let error = ProviderError::new(kind, "No");
        case.failure = Some(error.clone());
        assert_eq!(case.plan(), Step::Finish(End::Failed(error)));
    }
}

#[test]
fn a_pause_grows_with_each_try() {
    let mut case = Case::open();
    case.record.retries = 2;
    case.record.failed = Some(at(190));
    let Step::Wait(wait) = case.plan() else {
        panic!("{:?}", case.plan());
    };
    assert_eq!(
        wait.recheck,
        Some(Duration::from_secs(10)),
        "20 s of which 10 are over"
    );
    case.now = 210;
    assert_eq!(case.plan(), Step::Send);
}

#[test]
fn it_is_stopped_once_and_its_end_awaited() {
    let mut case = Case::open();
    case.record.task = Some("t".into());
    case.object.wish = Wish::Cancel;
    assert_eq!(case.plan(), Step::Cancel(Stop::Asked));
    case.record.cancelled = Some(at(150));
    assert_eq!(case.plan(), Step::CheckTask("t".into()));
    case.record.task = None;
    assert_eq!(
        case.plan(),
        Step::Cancel(Stop::Asked),
        "is it really not at it?"
    );
    case.quiet = Quiet::Told;
    assert_eq!(case.plan(), Step::Finish(End::Stopped(Stop::Asked)));
    case.state = Some(vm_on("b"));
    assert_eq!(
        case.plan(),
        Step::Finish(End::Moved),
        "it was too late to stop"
    );
}

#[test]
fn a_request_that_may_still_arrive_is_waited_for() {
    let mut case = Case {
        quiet: Quiet::Told,
        now: 102,
        ..Case::open()
    };
    case.object.wish = Wish::Cancel;
    assert_eq!(waits_for(&case.plan()), Some(&WaitFor::LateRequest));
    case.now = 106;
    assert_eq!(case.plan(), Step::Finish(End::Stopped(Stop::Asked)));
}

#[test]
fn what_stops_a_move() {
    let mut case = Case::open();
    case.record.task = Some("t".into());
    case.vm = VmFacts::Leaving;
    assert_eq!(case.plan(), Step::Cancel(Stop::VmLeaving));
    case.vm = VmFacts::Missing;
    assert_eq!(case.plan(), Step::Cancel(Stop::VmLeaving));
    case.vm = VmFacts::Busy;
    assert_eq!(case.plan(), Step::CheckTask("t".into()));
    case.now = 100 + 3600;
    assert_eq!(case.plan(), Step::Cancel(Stop::TimedOut));
    case.object.life = Life::Deleting;
    assert_eq!(case.plan(), Step::Cancel(Stop::Deleted));
    case.object.force = Force::Yes;
    assert_eq!(case.plan(), Step::Release(Release::Forced));
}

#[test]
fn an_object_goes_at_once_when_nothing_is_under_way() {
    let mut case = Case::default();
    case.object.life = Life::Deleting;
    assert_eq!(case.plan(), Step::Release(Release::AtRest));
    case.record = begun();
    case.record.result = Some(MoveResult::Failed);
    assert_eq!(case.plan(), Step::Release(Release::AtRest));
    case.object.claim = Claim::Missing;
    assert_eq!(case.plan(), Step::Done(Done::NothingToRelease));
}

#[test]
fn what_is_over_is_over() {
    let mut case = Case::open();
    case.record.result = Some(MoveResult::Failed);
    case.state = Some(vm_on("b"));
    assert_eq!(case.plan(), Step::Done(Done::Over(MoveResult::Failed)));
    let mut never = Case::default();
    never.object.wish = Wish::Cancel;
    assert_eq!(never.plan(), Step::Finish(End::Stopped(Stop::Asked)));
}
