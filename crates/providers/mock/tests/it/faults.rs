use std::time::Duration;

use futures::FutureExt as _;
use polyvirt_contract::model::PowerOp;
use polyvirt_contract::{ErrorKind, Provider};
use polyvirt_provider_mock::{Clock, Mock, MockConfig, Rpc};

use crate::common::{SECOND, created, manual, now, power, request, seen, with_tasks};

#[test]
fn an_error_is_given_as_often_as_was_said_and_nothing_is_done() {
    let mock = manual();
    mock.faults()
        .parse("fail=Create:Unavailable:2")
        .expect("readable");
    for _ in 0..2 {
        let error = now(mock.create(request("a"))).expect_err("refused");
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(mock.vms().is_empty());
    }
    now(mock.create(request("a"))).expect("created");
    assert_eq!(mock.counts().of(Rpc::Create).calls, 3);
}

#[test]
fn a_lost_reply_is_work_that_was_done() {
    let mock = manual();
    mock.faults()
        .parse("lose=Create:1 lose=Delete:Timeout:1")
        .expect("readable");
    let error = now(mock.create(request("a"))).expect_err("lost");
    assert!(error.kind.may_have_happened());
    let id = mock.vms()[0].id.clone();
    let vm = created(&mock, "a");
    assert_eq!(vm.id, id, "found, not made again");
    assert_eq!(
        now(mock.delete(&vm)).expect_err("lost").kind,
        ErrorKind::Timeout
    );
    assert!(mock.vms().is_empty());
}

#[test]
fn a_dropped_request_is_work_that_was_not_done() {
    let mock = manual();
    mock.faults().parse("drop=Create:1").expect("readable");
    assert_eq!(
        now(mock.create(request("a"))).expect_err("dropped").kind,
        ErrorKind::Timeout
    );
    assert!(mock.vms().is_empty());
}

#[test]
fn a_hanging_call_ends_when_the_caller_gives_up() {
    let mock = manual();
    mock.faults().parse("hang=Create:1").expect("readable");
    let mut hangs = mock.create(request("a"));
    assert!((&mut hangs).now_or_never().is_none());
    mock.advance(Duration::from_hours(24));
    assert!((&mut hangs).now_or_never().is_none());
    drop(hangs);
    assert!(mock.vms().is_empty());
    created(&mock, "a");
}

#[test]
fn latency_is_waited_for_on_the_manual_clock() {
    let mock = manual();
    mock.faults().parse("latency=50ms").expect("readable");
    let mut slow = mock.create(request("a"));
    assert!((&mut slow).now_or_never().is_none());
    assert_eq!(mock.next_due(), Some(Duration::from_millis(50)));
    mock.advance(Duration::from_millis(50));
    now(slow).expect("created");
}

#[test]
fn a_caller_that_goes_away_while_waiting_has_done_nothing() {
    let mock = manual();
    mock.faults().parse("latency=1s").expect("readable");
    let mut slow = mock.create(request("a"));
    assert!((&mut slow).now_or_never().is_none());
    drop(slow);
    mock.advance(SECOND);
    assert!(mock.vms().is_empty());
}

#[test]
fn a_forgotten_task_has_done_its_work() {
    let mock = with_tasks();
    mock.faults().parse("forget=1").expect("readable");
    let created = now(mock.create(request("a"))).expect("accepted");
    mock.advance(SECOND);
    let error = now(mock.task_status(&created.task.expect("a task"))).expect_err("forgotten");
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(!seen(&mock, &created.id).details.contains_key("stage"));
}

#[test]
fn a_crash_undoes_what_was_half_made_and_forgets_what_was_half_deleted() {
    let mock = with_tasks();
    let stays = created(&mock, "stays");
    mock.advance(SECOND);
    let task = now(mock.delete(&stays)).expect("accepted").expect("a task");
    mock.faults().parse("crash=Create:1").expect("readable");
    let error = now(mock.create(request("half"))).expect_err("died");
    assert_eq!(error.kind, ErrorKind::Unavailable);
    mock.advance(10 * SECOND);
    let names: Vec<_> = mock.vms().into_iter().map(|vm| vm.name).collect();
    assert_eq!(names, ["stays"]);
    assert_eq!(
        now(mock.task_status(&task)).expect_err("forgotten").kind,
        ErrorKind::NotFound
    );
    now(mock.create(request("half"))).expect("made anew");
    assert!(!seen(&mock, &stays.id).details.contains_key("stage"));
}

#[test]
fn validation_fails_on_demand_and_recovers() {
    let mock = manual();
    mock.faults()
        .parse("fail=Validate:Unauthenticated")
        .expect("readable");
    assert_eq!(
        now(mock.validate()).expect_err("refused").kind,
        ErrorKind::Unauthenticated
    );
    mock.faults().clear();
    assert_eq!(now(mock.validate()), Ok(()));
}

#[test]
fn rules_from_the_endpoint_act() {
    let mut config =
        MockConfig::from_url("mock://memory?fail=*:Internal:1&seed=5").expect("readable");
    config.clock = Clock::Manual;
    let mock = Mock::new(config);
    assert_eq!(
        now(mock.list_vms()).expect_err("once").kind,
        ErrorKind::Internal
    );
    assert_eq!(now(mock.list_vms()), Ok(Vec::new()));
}

#[test]
fn work_without_tasks_takes_its_time_in_the_call() {
    let mock = crate::common::with(|config| config.times.power = 2 * SECOND);
    let vm = created(&mock, "a");
    let mut on = mock.power(&vm, PowerOp::On.into());
    assert!((&mut on).now_or_never().is_none());
    mock.advance(2 * SECOND);
    assert_eq!(now(on), Ok(None));
    let mut off = mock.power(&vm, PowerOp::Off.into());
    assert!((&mut off).now_or_never().is_none());
    drop(off);
    assert!(!seen(&mock, &vm.id).ips.is_empty());
    assert!(power(&crate::common::manual(), &vm, PowerOp::On).is_err());
}
