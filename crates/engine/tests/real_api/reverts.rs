//! A VM goes back to a snapshot once for each time that it is told to.

use std::time::Duration;

use polyvirt_api::infra::{RevertState, VirtualMachine};
use polyvirt_contract::model::PowerState;
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{MockConfig, Rpc};
use serde_json::{Value, json};

use crate::snapshots::{calls, is_ready, slow, with_vm};
use crate::support::look::{condition, field, runs, says};
use crate::support::{World, snapshot, vm};

fn back_to(name: impl Into<Value>) -> Value {
    let name: Value = name.into();
    json!({"snapshot": {"revertToRef": {"name": name}}})
}

fn reverted(vm: &VirtualMachine) -> bool {
    runs(vm) && says(vm, "Reverted", "True", Reason::Reverted)
}

fn why_not(vm: &VirtualMachine) -> &str {
    let told = condition(vm, "Reverted").filter(|c| c.status == "False");
    told.map_or("", |c| c.reason.as_str())
}

async fn taken(world: &World, name: &str, of: &str) {
    world.create(snapshot(name, of)).await;
    world.until(name, "is ready", is_ready).await;
}

#[tokio::test]
async fn a_vm_goes_back_once_for_each_change_of_the_reference() {
    let (mut world, mock) = with_vm("revert", slow(Duration::from_millis(100))).await;
    taken(&world, "before", "web").await;
    world.edit_spec("web", back_to("before")).await;
    let back = world.vm("web", "went back and runs again", reverted).await;
    assert_eq!(calls(&mock, Rpc::SnapshotRevert), 1);
    let remembered = back.status.as_ref().and_then(|s| s.revert.clone());
    let remembered = remembered.expect("remembered");
    assert_eq!(
        (remembered.name.as_str(), remembered.state),
        ("before", RevertState::Done)
    );
    assert!(!remembered.uid.is_empty());
    assert_eq!(field(&back, "boots"), "2", "it is started as declared");
    for reason in [Reason::Reverting, Reason::Reverted] {
        world.told("web", reason).await;
    }
    world.stop().await;
    world.start().await;
    world
        .edit_spec("web", json!({"resources": {"cpu": 4}}))
        .await;
    let larger = |vm: &VirtualMachine| vm.metadata.generation > back.metadata.generation;
    let settled = |vm: &VirtualMachine| larger(vm) && reverted(vm);
    world.vm("web", "has its size", settled).await;
    assert_eq!(calls(&mock, Rpc::SnapshotRevert), 1, "no second time");
    world.edit_spec("web", json!({"snapshot": null})).await;
    let told_no_more = |vm: &VirtualMachine| runs(vm) && condition(vm, "Reverted").is_none();
    world
        .vm("web", "has nothing to go back to", told_no_more)
        .await;
    assert_eq!(calls(&mock, Rpc::SnapshotRevert), 1);
    world.edit_spec("web", back_to("before")).await;
    world.vm("web", "went back again", reverted).await;
    assert_eq!(calls(&mock, Rpc::SnapshotRevert), 2);
}

#[tokio::test]
async fn a_snapshot_of_another_vm_is_refused() {
    let (world, mock) = with_vm("revert-foreign", MockConfig::default()).await;
    world.create(vm("other")).await;
    world.vm("other", "runs", runs).await;
    taken(&world, "theirs", "other").await;
    world.edit_spec("web", back_to("theirs")).await;
    let refused = |vm: &VirtualMachine| why_not(vm) == Reason::SnapshotOfAnotherVm.as_str();
    world.vm("web", "says whose it is", refused).await;
    assert!(world.told("web", Reason::SnapshotOfAnotherVm).await.warning);
    assert_eq!(calls(&mock, Rpc::SnapshotRevert), 0);
}

#[tokio::test]
async fn a_snapshot_that_is_not_there_yet_is_waited_for() {
    let (world, mock) = with_vm("revert-early", slow(Duration::from_millis(500))).await;
    world.edit_spec("web", back_to("before")).await;
    let missing = |vm: &VirtualMachine| why_not(vm) == Reason::SnapshotNotFound.as_str();
    world.vm("web", "names what is missing", missing).await;
    world.create(snapshot("before", "web")).await;
    let early = |vm: &VirtualMachine| why_not(vm) == Reason::SnapshotNotReady.as_str();
    world.vm("web", "waits for it", early).await;
    assert_eq!(calls(&mock, Rpc::SnapshotRevert), 0);
    world.vm("web", "went back", reverted).await;
    assert_eq!(calls(&mock, Rpc::SnapshotRevert), 1);
}

#[tokio::test]
async fn a_provider_that_will_not_go_back_is_asked_once() {
    let (world, mock) = with_vm("revert-refused", MockConfig::default()).await;
    taken(&world, "before", "web").await;
    mock.faults()
        .parse("fail=SnapshotRevert:Unsupported")
        .expect("a rule");
    world.edit_spec("web", back_to("before")).await;
    let refused = |vm: &VirtualMachine| why_not(vm) == Reason::RevertRefused.as_str();
    world.vm("web", "says why not", refused).await;
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    let off = |vm: &VirtualMachine| crate::support::look::stands(vm) && refused(vm);
    world.vm("web", "does what else it is told", off).await;
    assert_eq!(calls(&mock, Rpc::SnapshotRevert), 1);
    assert_eq!(mock.vms()[0].power, PowerState::Off);
}

#[tokio::test]
async fn a_revert_that_fails_is_tried_again() {
    let (world, mock) = with_vm("revert-fails", MockConfig::default()).await;
    taken(&world, "before", "web").await;
    mock.faults()
        .parse("fail=SnapshotRevert:Internal:1")
        .expect("a rule");
    world.edit_spec("web", back_to("before")).await;
    world.vm("web", "went back", reverted).await;
    assert_eq!(calls(&mock, Rpc::SnapshotRevert), 2);
}

#[tokio::test]
async fn a_manager_that_is_restarted_does_not_go_back_twice() {
    let (mut world, mock) = with_vm("revert-restart", slow(Duration::from_secs(2))).await;
    taken(&world, "before", "web").await;
    world.edit_spec("web", back_to("before")).await;
    let at_work = |vm: &VirtualMachine| {
        let operation = vm.status.as_ref().and_then(|s| s.operation.as_ref());
        operation.is_some_and(|o| o.task_ref.is_some()) && why_not(vm) == Reason::Reverting.as_str()
    };
    world.vm("web", "is at work", at_work).await;
    world.stop().await;
    world.start().await;
    world.vm("web", "went back", reverted).await;
    assert_eq!(calls(&mock, Rpc::SnapshotRevert), 1);
}

#[tokio::test]
async fn a_revert_whose_answer_is_lost_is_sent_once_more_at_most() {
    let (world, mock) = with_vm("revert-lost", MockConfig::default()).await;
    taken(&world, "before", "web").await;
    mock.faults()
        .parse("lose=SnapshotRevert:1")
        .expect("a rule");
    world.edit_spec("web", back_to("before")).await;
    world.vm("web", "went back", reverted).await;
    assert_eq!(calls(&mock, Rpc::SnapshotRevert), 2);
}
