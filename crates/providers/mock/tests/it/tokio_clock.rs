//! On tokio's clock one timer does everything that is due, and none runs while nothing is.

use std::time::Duration;

use futures::StreamExt as _;
use polyvirt_contract::Provider;
use polyvirt_contract::model::{PowerOp, PowerState};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_provider_mock::{Mock, MockConfig};

use crate::common::{SECOND, created, request, seen};

fn mock(options: &str) -> std::sync::Arc<Mock> {
    Mock::new(MockConfig::from_url(&format!("mock://memory?{options}")).expect("readable"))
}

/// How many tasks of the runtime are alive besides the test.
fn alive() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}

#[tokio::test(start_paused = true)]
async fn tasks_end_by_themselves_and_are_told() {
    let mock = mock("asyncTasks=true&createTime=3s");
    let mut stream = mock.watch().await.expect("opened");
    assert_eq!(stream.next().await, Some(Ok(VmEvent::Synced)));
    let created = mock.create(request("a")).await.expect("accepted");
    let began = tokio::time::Instant::now();
    let task = created.task.expect("a task");
    let told = VmEvent::Task {
        id: task.clone(),
        state: TaskState::Succeeded,
    };
    while stream.next().await.expect("open").expect("no error") != told {}
    assert_eq!(began.elapsed(), 3 * SECOND);
    assert_eq!(mock.task_status(&task).await, Ok(TaskState::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn one_timer_serves_a_thousand_tasks_and_ends_with_them() {
    let mock = mock("asyncTasks=true&createTime=3s");
    assert_eq!(alive(), 0);
    for number in 0..1000 {
        mock.create(request(&format!("vm{number}")))
            .await
            .expect("accepted");
    }
    assert_eq!(alive(), 1);
    tokio::time::sleep(4 * SECOND).await;
    assert_eq!(alive(), 0);
    assert!(
        mock.vms()
            .iter()
            .all(|vm| !vm.details.contains_key("stage"))
    );
}

#[tokio::test(start_paused = true)]
async fn work_that_is_due_sooner_is_not_kept_waiting() {
    let mock = mock("asyncTasks=true&createTime=60s&powerTime=1s");
    let old = mock.out_of_band().create_stranger("old").expect("made");
    mock.create(request("a")).await.expect("accepted");
    let vm = polyvirt_contract::model::VmRef {
        id: old.clone(),
        owner: None,
    };
    let mut stream = mock.watch().await.expect("opened");
    mock.power(&vm, PowerOp::On.into()).await.expect("accepted");
    let began = tokio::time::Instant::now();
    let runs = |event: &VmEvent| matches!(event, VmEvent::State(vm) if vm.id == old && vm.power == PowerState::On);
    while !runs(&stream.next().await.expect("open").expect("no error")) {}
    assert_eq!(began.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn latency_and_slow_work_take_time() {
    let mock = mock("latency=50ms&createTime=3s");
    let began = tokio::time::Instant::now();
    mock.create(request("a")).await.expect("created");
    assert_eq!(began.elapsed(), Duration::from_millis(3050));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_call_can_be_given_up() {
    let mock = mock("hang=Describe:1");
    let vm = created(&mock, "a");
    let described = tokio::time::timeout(30 * SECOND, mock.describe(&vm.id)).await;
    assert!(described.is_err());
    assert_eq!(seen(&mock, &vm.id).name, "a");
}

#[test]
fn a_timer_lost_with_its_runtime_is_started_anew() {
    let paused = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime")
    };
    let mock = mock("asyncTasks=true&createTime=3s");
    paused().block_on(async { mock.create(request("a")).await.expect("accepted") });
    paused().block_on(async {
        mock.create(request("b")).await.expect("accepted");
        assert_eq!(alive(), 1);
    });
}
