//! Starting, stopping, asking the guest to stop, restarting.

use std::time::{Duration, Instant};

use polyvirt_api::infra::{PowerState as Declared, VMPhase, VirtualMachine};
use polyvirt_api::names;
use polyvirt_contract::model::PowerState;
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{Happened, Mock, MockConfig, Rpc, TaskMode, Times};
use serde_json::json;

use crate::support::look::{field, id, runs, stands};
use crate::support::world::eventually;
use crate::support::{World, phase, reason, vm};

/// A guest that takes its time to stop, on a provider that answers so.
fn with_guest(tasks: TaskMode, shutdown: Duration) -> MockConfig {
    let times = Times {
        shutdown,
        ..Times::default()
    };
    MockConfig {
        tasks,
        times,
        ..MockConfig::default()
    }
}

fn happened(mock: &Mock, what: Happened) -> usize {
    mock.journal()
        .iter()
        .filter(|entry| entry.what == what)
        .count()
}

#[tokio::test]
async fn a_vm_is_stopped_and_started_again() {
    let (world, mock) = World::furnished("on-off", MockConfig::default()).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    let off = world.vm("web", "is off", stands).await;
    assert_eq!(off.status.and_then(|s| s.power_state), Some(Declared::Off));
    assert_eq!(mock.vms()[0].power, PowerState::Off);
    world.told("web", Reason::Stopped).await;
    world.edit_spec("web", json!({"powerState": "On"})).await;
    world.vm("web", "runs again", runs).await;
    assert_eq!(mock.vms()[0].power, PowerState::On);
}

#[tokio::test]
async fn a_vm_that_is_declared_off_is_created_and_not_started() {
    let (world, mock) = World::furnished("born-off", MockConfig::default()).await;
    world
        .create(vm("web").spec(json!({"powerState": "Off"})))
        .await;
    world.vm("web", "is off", stands).await;
    assert_eq!(happened(&mock, Happened::Started), 0);
}

#[tokio::test]
async fn off_graceful_asks_the_guest_once_and_comes_to_rest() {
    let config = with_guest(TaskMode::Immediate, Duration::from_millis(300));
    let (world, mock) = World::furnished("graceful", config).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    let before = mock.counts().of(Rpc::Power).calls;
    world
        .edit_spec("web", json!({"powerState": "OffGraceful"}))
        .await;
    world.vm("web", "is off", stands).await;
    assert_eq!(mock.counts().of(Rpc::Power).calls, before + 1);
    let passes = world.passes();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        mock.counts().of(Rpc::Power).calls,
        before + 1,
        "it is asked once"
    );
    assert!(world.passes() <= passes + 2, "it is at rest");
}

async fn a_hung_guest_is_stopped_hard(world: &World, mock: &Mock) {
    let lifecycle = json!({"gracefulShutdownTimeout": "3s"});
    world
        .create(vm("web").spec(json!({ "lifecycle": lifecycle })))
        .await;
    let id = id(&world.vm("web", "runs", runs).await);
    mock.faults().hang_guest(&id).expect("hung");
    let begin = Instant::now();
    world
        .edit_spec("web", json!({"powerState": "OffGraceful"}))
        .await;
    let shutting_down = |vm: &VirtualMachine| reason(vm) == Reason::ShuttingDown.as_str();
    world.vm("web", "waits for the guest", shutting_down).await;
    world.vm("web", "is off", stands).await;
    assert!(
        begin.elapsed() >= Duration::from_secs(3),
        "the guest had its time"
    );
    let event = world.told("web", Reason::GracefulTimeout).await;
    assert!(event.warning, "{event:?}");
    assert_eq!(mock.vm(&id).expect("there").power, PowerState::Off);
}

#[tokio::test]
async fn a_guest_that_does_not_listen_is_stopped_hard_after_its_time() {
    let config = with_guest(TaskMode::Immediate, Duration::from_millis(300));
    let (world, mock) = World::furnished("hung", config).await;
    a_hung_guest_is_stopped_hard(&world, &mock).await;
}

#[tokio::test]
async fn a_guest_that_does_not_listen_is_stopped_hard_where_the_shutdown_is_a_task() {
    let config = with_guest(TaskMode::Async, Duration::from_millis(300));
    let (world, mock) = World::furnished("hung-task", config).await;
    a_hung_guest_is_stopped_hard(&world, &mock).await;
}

#[tokio::test]
async fn a_change_of_mind_ends_the_wait_for_the_guest_when_it_has_had_its_time() {
    let config = with_guest(TaskMode::Immediate, Duration::from_millis(300));
    let (world, mock) = World::furnished("mind", config).await;
    let patience = json!({"lifecycle": {"gracefulShutdownTimeout": "20s"}});
    world.create(vm("web").spec(patience)).await;
    let id = id(&world.vm("web", "runs", runs).await);
    mock.faults().hang_guest(&id).expect("hung");
    world
        .edit_spec("web", json!({"powerState": "OffGraceful"}))
        .await;
    world
        .vm("web", "waits", |vm| {
            reason(vm) == Reason::ShuttingDown.as_str()
        })
        .await;
    world.edit_spec("web", json!({"powerState": "On"})).await;
    world.vm("web", "runs", runs).await;
    world
        .vm("web", "is no longer waited for", |vm| {
            runs(vm) && vm.status.as_ref().is_some_and(|s| s.operation.is_none())
        })
        .await;
    assert_eq!(happened(&mock, Happened::Stopped), 0);
}

#[tokio::test]
async fn the_reboot_annotation_restarts_once_for_each_value() {
    let (world, mock) = World::furnished("reboot", MockConfig::default()).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    for (value, boots) in [("monday", "2"), ("tuesday", "3")] {
        world.annotate("web", names::REBOOT_ANNOTATION, value).await;
        let handled = |vm: &VirtualMachine| {
            runs(vm) && vm.status.as_ref().and_then(|s| s.reboot_handled.as_deref()) == Some(value)
        };
        let vm = world.vm("web", "has been restarted", handled).await;
        assert_eq!(field(&vm, "boots"), boots);
    }
    world.reconciled_again("web").await;
    assert_eq!(happened(&mock, Happened::Restarted), 2);
    world.told("web", Reason::Rebooting).await;
}

#[tokio::test]
async fn a_reboot_of_a_vm_that_is_off_is_skipped_and_told() {
    let (world, mock) = World::furnished("reboot-off", MockConfig::default()).await;
    world
        .create(vm("web").spec(json!({"powerState": "Off"})))
        .await;
    world.vm("web", "is off", stands).await;
    world.annotate("web", names::REBOOT_ANNOTATION, "now").await;
    world.told("web", Reason::RebootSkipped).await;
    world.edit_spec("web", json!({"powerState": "On"})).await;
    world.vm("web", "runs", runs).await;
    assert_eq!(happened(&mock, Happened::Restarted), 0);
}

#[tokio::test]
async fn a_start_whose_answer_is_lost_is_not_repeated() {
    let (world, mock) = World::furnished("lost-start", MockConfig::default()).await;
    mock.faults().parse("lose=Power:1").expect("a rule");
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    assert_eq!(happened(&mock, Happened::Started), 1);
}

#[tokio::test]
async fn a_start_that_fails_is_tried_again_with_pauses() {
    let (world, mock) = World::furnished("failed-start", MockConfig::default()).await;
    mock.faults().parse("fail=Power:Internal").expect("a rule");
    world.create(vm("web")).await;
    let failing = |vm: &VirtualMachine| reason(vm) == Reason::ProviderError.as_str();
    let vm = world.vm("web", "tells of the error", failing).await;
    assert_eq!(phase(&vm), Some(VMPhase::Provisioning));
    mock.faults().clear();
    eventually("it runs", || {
        mock.vms().iter().any(|vm| vm.power == PowerState::On)
    })
    .await;
    world.vm("web", "runs", runs).await;
    assert!(mock.counts().of(Rpc::Power).calls >= 2);
}
