//! Actions around start and stop, step by step.
#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests"
)]

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use polyvirt_contract::model::{PowerOp, PowerState, VmState};
use polyvirt_contract::{Capabilities, Features};
use polyvirt_plan::Reason;
use polyvirt_plan::virtual_machine::hooks::{
    Action, Again, Fresh, Hook, HookFailurePolicy, HookState, Hooks, MOST_TRIES, Moment, PATIENCE,
    PAUSE, Run,
};
use polyvirt_plan::virtual_machine::{
    Applied, Claim, DeletionPolicy, Desired, DesiredPower, Facts, Intent, Life, Object, Observed,
    Placing, ProviderFacts, Record, Release, Step, WaitFor, next_step,
};

struct Case {
    desired: Desired,
    record: Record,
    vm: VmState,
    life: Life,
    now: Timestamp,
    keeper: Option<&'static str>,
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn command(on_failure: HookFailurePolicy) -> Hook {
    Hook {
        action: Action::Exec(vec!["true".into()]),
        timeout: Duration::from_secs(30),
        on_failure,
    }
}

/// A VM that has all hooks, and is to be switched.
fn case(power: PowerState, wanted: DesiredPower, on_failure: HookFailurePolicy) -> Case {
    let hook = || Some(command(on_failure));
    let desired = Desired {
        power: wanted,
        hooks: Hooks {
            generation: Some(1),
            pre_start: hook(),
            post_start: hook(),
            pre_stop: hook(),
        },
        ..Desired::default()
    };
    Case {
        record: Record {
            id: Some("vm-1".into()),
            identity: Some("me".into()),
            applied: Applied {
                reached: Some(1),
                power: None,
                shape: Some(desired.shape()),
                options: None,
                ..Applied::default()
            },
            ..Record::default()
        },
        desired,
        vm: VmState {
            id: "vm-1".into(),
            power,
            ..VmState::default()
        },
        life: Life::Alive,
        now: now(),
        keeper: None,
    }
}

impl Case {
    fn step(&self) -> Step {
        next_step(&Facts {
            now: self.now,
            object: Object {
                claim: Claim::Held,
                life: self.life,
                ..Object::default()
            },
            record: &self.record,
            desired: Ok(&self.desired),
            provider: ProviderFacts::Ready {
                features: &Features::default(),
                capabilities: &Capabilities::default(),
            },
            observed: Observed::Present(&self.vm),
            asked: self.now,
            connected: None,
            sent: None,
            intent: Intent::Missing,
            placing: Placing::NotOurs,
            moving: None,
            keeper: self.keeper,
            revert: None,
        })
    }

    fn begin(&mut self, moment: Moment) -> Run {
        assert_eq!(self.step(), Step::BeginHook(moment));
        let run = Run::begin(self.record.hooks.at(moment), Some(1), self.now);
        self.record.hooks.set(moment, Some(run.clone()));
        run
    }

    fn put(&mut self, moment: Moment, run: Run) {
        self.record.hooks.set(moment, Some(run));
    }

    fn fail_for_good(&mut self, moment: Moment) {
        for _ in 0..MOST_TRIES {
            let run = self.begin(moment);
            assert_eq!(self.step(), Step::RunHook(moment));
            self.put(moment, run.failed("No".into(), Again::Perhaps, self.now));
            self.now += SignedDuration::try_from(PAUSE).unwrap();
        }
    }
}

use HookFailurePolicy::{Fail, Ignore};

#[test]
fn a_start_has_its_hooks_in_order() {
    let mut case = case(PowerState::Off, DesiredPower::On, Fail);
    let run = case.begin(Moment::PreStart);
    assert_eq!(case.step(), Step::RunHook(Moment::PreStart));
    case.put(Moment::PreStart, run.done());
    assert_eq!(case.step(), Step::OweHook);
    case.put(Moment::PostStart, Run::due(Some(1), now()));
    assert_eq!(case.step(), Step::power(PowerOp::On));
    case.vm.power = PowerState::On;
    let run = case.begin(Moment::PostStart);
    assert_eq!(case.step(), Step::RunHook(Moment::PostStart));
    case.put(Moment::PostStart, run.done());
    assert!(matches!(case.step(), Step::Done(_)));
}

#[test]
fn a_vm_that_was_not_started_by_us_has_no_hook() {
    let case = case(PowerState::On, DesiredPower::On, Fail);
    assert!(matches!(case.step(), Step::Done(_)));
}

#[test]
fn a_failure_that_counts_keeps_the_vm_until_the_object_changes() {
    for (power, wanted, moment) in [
        (PowerState::Off, DesiredPower::On, Moment::PreStart),
        (PowerState::On, DesiredPower::Off, Moment::PreStop),
        (PowerState::On, DesiredPower::OffGraceful, Moment::PreStop),
    ] {
        let mut case = case(power, wanted, Fail);
        case.fail_for_good(moment);
        let Step::Stop(problem) = case.step() else {
            panic!("{moment:?} goes on: {:?}", case.step());
        };
        assert_eq!(
            (problem.reason, problem.field.as_str()),
            (Reason::HookFailed, moment.field())
        );
        case.desired.hooks.generation = Some(2);
        assert_eq!(case.step(), Step::BeginHook(moment));
        let again = Run::begin(case.record.hooks.at(moment), Some(2), case.now);
        assert_eq!(again.tries, 1);
    }
}

#[test]
fn what_failed_because_somebody_was_not_there_is_tried_for_as_long_as_it_takes() {
    let mut case = case(PowerState::Off, DesiredPower::On, Fail);
    for _ in 1..MOST_TRIES {
        let run = case.begin(Moment::PreStart);
        let failed = run.failed("Down".into(), Again::Later, case.now);
        case.put(Moment::PreStart, failed);
        case.now += SignedDuration::try_from(PAUSE).unwrap();
    }
    for minutes in [1, 2, 5, 10, 10] {
        let run = case.begin(Moment::PreStart);
        let failed = run.failed("Down".into(), Again::Later, case.now);
        case.put(Moment::PreStart, failed);
        let pause = Duration::from_secs(60 * minutes);
        let waits = Step::wait_at_most(WaitFor::NextTry(Moment::PreStart), pause);
        assert_eq!(case.step(), waits);
        case.now += SignedDuration::try_from(pause).unwrap();
    }
    let died = Run {
        fresh: Fresh::No,
        ..case.begin(Moment::PreStart)
    };
    case.put(Moment::PreStart, died.clone());
    assert!(matches!(case.step(), Step::Wait(_)), "a death ends nothing");
    let useless = died.failed("No".into(), Again::Useless, case.now);
    case.put(Moment::PreStart, useless);
    assert!(matches!(case.step(), Step::Stop(_)));
}

#[test]
fn a_failure_that_does_not_count_is_passed_over() {
    let mut case = case(PowerState::On, DesiredPower::Off, Ignore);
    case.fail_for_good(Moment::PreStop);
    assert_eq!(case.step(), Step::power(PowerOp::Off));
}

#[test]
fn between_two_tries_is_a_pause() {
    let mut case = case(PowerState::On, DesiredPower::Off, Fail);
    let run = case.begin(Moment::PreStop);
    let failed = run.failed("No".into(), Again::Perhaps, case.now);
    case.put(Moment::PreStop, failed);
    assert!(matches!(case.step(), Step::Wait(_)));
}

#[test]
fn a_manager_that_dies_in_each_try_does_not_try_for_ever() {
    let mut case = case(PowerState::On, DesiredPower::Off, Ignore);
    for _ in 0..MOST_TRIES {
        let begun = case.begin(Moment::PreStop);
        let read_back = Run {
            fresh: Fresh::No,
            ..begun
        };
        case.put(Moment::PreStop, read_back);
        case.now += SignedDuration::try_from(PAUSE).unwrap();
    }
    assert_eq!(case.step(), Step::power(PowerOp::Off));
}

#[test]
fn a_guest_that_boots_is_waited_for_but_not_for_ever() {
    let mut case = case(PowerState::On, DesiredPower::On, Ignore);
    case.put(Moment::PostStart, Run::due(Some(1), now()));
    let run = case.begin(Moment::PostStart);
    let waits = run.clone().waits("It boots".into(), case.now);
    assert_eq!(waits.state, HookState::Waiting);
    case.put(Moment::PostStart, waits);
    assert_eq!(case.step(), Step::RunHook(Moment::PostStart));
    let late = case.now + SignedDuration::try_from(PATIENCE).unwrap();
    case.put(Moment::PostStart, run.waits("It boots".into(), late));
    assert!(matches!(case.step(), Step::Done(_)));
}

#[test]
fn a_deletion_waits_for_a_snapshot_that_is_not_to_go_with_the_vm() {
    let mut case = case(PowerState::On, DesiredPower::On, Fail);
    case.keeper = Some("before");
    assert!(matches!(case.step(), Step::Done(_)), "nothing is deleted");
    case.life = Life::Deleting(DeletionPolicy::Delete);
    let waits = Step::wait(WaitFor::Keeper("before".into()));
    assert_eq!(case.step(), waits, "also its hook waits");
    case.life = Life::Deleting(DeletionPolicy::Retain);
    assert_eq!(case.step(), Step::Release(Release::Retained));
}

#[test]
fn a_deletion_has_its_hook_and_is_not_kept_by_it() {
    let mut case = case(PowerState::On, DesiredPower::On, Fail);
    case.life = Life::Deleting(DeletionPolicy::Delete);
    case.fail_for_good(Moment::PreStop);
    assert_eq!(case.step(), Step::Delete);
    case.record.hooks.pre_stop = None;
    case.vm.power = PowerState::Off;
    assert_eq!(
        case.step(),
        Step::Delete,
        "a VM that is off has been stopped"
    );
}
