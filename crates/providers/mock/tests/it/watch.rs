use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use polyvirt_contract::model::{PowerOp, PowerState};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{ErrorKind, Provider, ProviderError, Result};
use polyvirt_provider_mock::Mock;

use crate::common::{SECOND, created, manual, now, owner, power, request, with, with_tasks};

type Stream = BoxStream<'static, Result<VmEvent>>;

/// Everything that can be read without waiting.
fn read(stream: &mut Stream) -> Vec<VmEvent> {
    let next = || stream.next().now_or_never().flatten();
    std::iter::from_fn(next)
        .map(|event| event.expect("no error"))
        .collect()
}

fn opened(mock: &Mock) -> Stream {
    let mut stream = now(mock.watch()).expect("opened");
    assert_eq!(read(&mut stream).last(), Some(&VmEvent::Synced));
    stream
}

fn powers(events: &[VmEvent]) -> Vec<(PowerState, u64)> {
    let state = |event: &VmEvent| match event {
        VmEvent::State(vm) => Some((vm.power, vm.revision)),
        _ => None,
    };
    events.iter().filter_map(state).collect()
}

fn error(stream: &mut Stream) -> ProviderError {
    let mut last = stream
        .by_ref()
        .collect::<Vec<_>>()
        .now_or_never()
        .expect("ended");
    last.pop().expect("a last word").expect_err("an error")
}

#[test]
fn a_stream_begins_with_what_is_there_and_goes_on_with_changes() {
    let mock = manual();
    let (a, b) = (created(&mock, "a"), created(&mock, "b"));
    let mut stream = now(mock.watch()).expect("opened");
    let begin = read(&mut stream);
    assert_eq!(begin.len(), 3, "{begin:?}");
    assert!(matches!(&begin[0], VmEvent::State(vm) if vm.id == a.id));
    assert!(matches!(&begin[1], VmEvent::State(vm) if vm.id == b.id));
    assert_eq!(begin[2], VmEvent::Synced);
    power(&mock, &a, PowerOp::On).expect("started");
    power(&mock, &a, PowerOp::Off).expect("stopped");
    let changes = powers(&read(&mut stream));
    assert_eq!(changes[0].0, PowerState::On);
    assert_eq!(changes[1].0, PowerState::Off);
    assert!(changes[0].1 < changes[1].1);
    now(mock.delete(&a)).expect("deleted");
    let [
        VmEvent::Gone {
            id,
            identity,
            revision,
        },
    ] = &read(&mut stream)[..]
    else {
        panic!("one word that it is gone");
    };
    assert_eq!((id, identity.as_ref()), (&a.id, Some(&owner("a").identity)));
    assert!(*revision > changes[1].1);
}

#[test]
fn changes_before_the_snapshot_was_read_are_not_lost() {
    let mock = manual();
    let (a, b) = (created(&mock, "a"), created(&mock, "b"));
    let mut stream = now(mock.watch()).expect("opened");
    power(&mock, &b, PowerOp::On).expect("started");
    now(mock.delete(&a)).expect("deleted");
    let events = read(&mut stream);
    assert!(
        matches!(&events[0], VmEvent::State(vm) if vm.id == b.id && vm.power == PowerState::On)
    );
    assert_eq!(events[1], VmEvent::Synced);
    assert!(
        events
            .iter()
            .any(|event| matches!(event, VmEvent::Gone { id, .. } if *id == a.id))
    );
}

#[test]
fn the_end_of_a_task_is_told() {
    let mock = with_tasks();
    let mut stream = opened(&mock);
    let task = now(mock.create(request("a")))
        .expect("accepted")
        .task
        .expect("a task");
    assert!(matches!(&read(&mut stream)[..], [VmEvent::State(_)]));
    mock.advance(SECOND);
    let told = VmEvent::Task {
        id: task,
        state: TaskState::Succeeded,
    };
    assert_eq!(read(&mut stream).last(), Some(&told));
}

#[test]
fn nothing_is_told_when_nothing_changes() {
    let mock = manual();
    let vm = created(&mock, "a");
    let mut stream = opened(&mock);
    power(&mock, &vm, PowerOp::Off).expect("is off");
    now(mock.create(request("a"))).expect("is there");
    now(mock.reconfigure(&vm, request("a"))).expect("is so");
    mock.advance(3600 * SECOND);
    assert_eq!(read(&mut stream), []);
}

#[test]
fn a_reader_that_falls_behind_is_sent_home() {
    let mock = with(|config| config.watch_buffer = 3);
    let vm = created(&mock, "a");
    let mut slow = opened(&mock);
    for _ in 0..3 {
        power(&mock, &vm, PowerOp::On).expect("started");
        power(&mock, &vm, PowerOp::Off).expect("stopped");
    }
    let error = error(&mut slow);
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("fell behind"));
    assert_eq!(
        read(&mut now(mock.watch()).expect("opened")).len(),
        2,
        "a new stream is whole"
    );
}

#[test]
fn messages_come_twice() {
    let mock = manual();
    let vm = created(&mock, "a");
    let mut stream = opened(&mock);
    mock.faults().parse("duplicate=1").expect("readable");
    power(&mock, &vm, PowerOp::On).expect("started");
    let twice = read(&mut stream);
    assert_eq!(twice.len(), 2);
    assert_eq!(twice[0], twice[1]);
}

#[test]
fn messages_come_late_and_out_of_order_but_say_how_old_they_are() {
    for rule in ["late=1:2s", "reorder=1"] {
        let mock = manual();
        let vm = created(&mock, "a");
        let mut stream = opened(&mock);
        mock.faults().parse(rule).expect("readable");
        power(&mock, &vm, PowerOp::On).expect("started");
        assert_eq!(read(&mut stream), []);
        assert_eq!(
            now(mock.describe(&vm.id))
                .expect("asked")
                .expect("there")
                .power,
            PowerState::On
        );
        power(&mock, &vm, PowerOp::Off).expect("stopped");
        mock.advance(2 * SECOND);
        let [(PowerState::Off, newer), (PowerState::On, older)] = powers(&read(&mut stream))[..]
        else {
            panic!("the first comes last: {rule}");
        };
        assert!(older < newer);
    }
}

#[test]
fn streams_break_on_demand_and_with_the_process() {
    let mock = manual();
    let vm = created(&mock, "a");
    let mut stream = opened(&mock);
    mock.faults().parse("break=1").expect("readable");
    power(&mock, &vm, PowerOp::On).expect("started");
    assert_eq!(error(&mut stream).kind, ErrorKind::Unavailable);
    let mut stream = opened(&mock);
    mock.faults().break_watches();
    assert_eq!(error(&mut stream).kind, ErrorKind::Unavailable);
    let mut stream = opened(&mock);
    mock.restart();
    assert!(error(&mut stream).message.contains("restarted"));
}
