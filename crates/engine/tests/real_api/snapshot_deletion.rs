//! A VMSnapshot goes when its snapshot is proved to be gone, and by its own when its time is over.

use std::time::Duration;

use polyvirt_api::infra::{Provider as ProviderObject, SnapshotPhase, VMSnapshot, VirtualMachine};
use polyvirt_api::names;
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{MockConfig, Rpc};
use serde_json::json;

use crate::snapshots::{calls, is_ready, on, slow, stands_at, with_vm, with_wired_vm};
use crate::support::world::HYPERVISOR;
use crate::support::{World, message, reason, snapshot};

fn deleting(snapshot: &VMSnapshot) -> bool {
    stands_at(snapshot) == Some(SnapshotPhase::Deleting)
}

async fn taken(world: &World, name: &str) {
    world.create(snapshot(name, "web")).await;
    world.until(name, "is ready", is_ready).await;
}

#[tokio::test]
async fn an_object_stays_until_its_snapshot_is_gone() {
    let (world, mock) = with_vm("snap-proof", slow(Duration::from_millis(800))).await;
    taken(&world, "before").await;
    world.delete::<VMSnapshot>("before").await;
    world.until("before", "is being deleted", deleting).await;
    assert_eq!(on(&mock).len(), 1, "the task is at work");
    world.gone::<VMSnapshot>("before").await;
    assert!(on(&mock).is_empty());
    world.told("before", Reason::SnapshotDeleting).await;
    world.told("before", Reason::SnapshotDeleted).await;
}

#[tokio::test]
async fn a_deletion_that_fails_keeps_the_object_and_is_tried_again() {
    let (world, mock) = with_vm("snap-undeletable", MockConfig::default()).await;
    taken(&world, "before").await;
    mock.faults()
        .parse("fail=SnapshotDelete:Internal")
        .expect("a rule");
    world.delete::<VMSnapshot>("before").await;
    let failing = |s: &VMSnapshot| reason(s) == Reason::ProviderError.as_str();
    let told = world.until("before", "tells of the error", failing).await;
    assert!(message(&told).contains("virtrigaud.io/force-delete"));
    assert_eq!(on(&mock).len(), 1);
    mock.faults().clear();
    world.gone::<VMSnapshot>("before").await;
    assert!(on(&mock).is_empty());
    assert!(calls(&mock, Rpc::SnapshotDelete) >= 2);
}

#[tokio::test]
async fn a_provider_that_is_down_keeps_the_object_and_force_lets_it_go() {
    let (world, mock, mut server) = with_wired_vm("snap-force").await;
    taken(&world, "one").await;
    taken(&world, "two").await;
    server.kill();
    let unhealthy = |p: &ProviderObject| p.status.as_ref().and_then(|s| s.healthy) == Some(false);
    world.until(HYPERVISOR, "is unhealthy", unhealthy).await;
    for name in ["one", "two"] {
        world.delete::<VMSnapshot>(name).await;
        let waits =
            |s: &VMSnapshot| deleting(s) && reason(s) == Reason::ProviderUnavailable.as_str();
        world.until(name, "waits for the provider", waits).await;
    }
    let force = json!({"metadata": {"annotations": {names::FORCE_DELETE_ANNOTATION: "true"}}});
    world.edit::<VMSnapshot>("one", force).await;
    world.gone::<VMSnapshot>("one").await;
    world.told("one", Reason::ForceDeleted).await;
    assert_eq!(on(&mock).len(), 2);
    server.revive();
    world.gone::<VMSnapshot>("two").await;
    assert_eq!(on(&mock).len(), 1, "the forced one was left, as told");
}

#[tokio::test]
async fn an_object_that_goes_while_it_is_being_taken_leaves_nothing() {
    let (world, mock) = with_vm("snap-abort", slow(Duration::from_millis(500))).await;
    world.create(snapshot("before", "web")).await;
    let at_work = |s: &VMSnapshot| s.status.as_ref().is_some_and(|s| s.task_ref.is_some());
    world.until("before", "is at work", at_work).await;
    world.delete::<VMSnapshot>("before").await;
    world.gone::<VMSnapshot>("before").await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert!(on(&mock).is_empty(), "{:?}", on(&mock));
}

#[tokio::test]
async fn an_object_whose_request_was_lost_leaves_nothing() {
    let (mut world, mock) = with_vm("snap-open", slow(Duration::from_secs(1))).await;
    mock.faults()
        .parse("lose=SnapshotCreate:1")
        .expect("a rule");
    world.create(snapshot("before", "web")).await;
    let failed = |s: &VMSnapshot| s.status.as_ref().is_some_and(|s| s.operation.is_some());
    world.until("before", "was begun", failed).await;
    world.stop().await;
    world.delete::<VMSnapshot>("before").await;
    world.start().await;
    world.gone::<VMSnapshot>("before").await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(on(&mock).is_empty(), "{:?}", on(&mock));
}

#[tokio::test]
async fn a_vm_waits_for_snapshots_that_are_not_to_go_with_it() {
    let (world, mock) = with_vm("snap-vm", MockConfig::default()).await;
    taken(&world, "goes").await;
    let keep = json!({"retentionPolicy": {"deleteOnVMDelete": false}});
    for name in ["asked", "stays"] {
        world.create(snapshot(name, "web").spec(keep.clone())).await;
        world.until(name, "is ready", is_ready).await;
    }
    world.delete::<VirtualMachine>("web").await;
    let waits = |name: &'static str| {
        move |vm: &VirtualMachine| {
            reason(vm) == Reason::InUse.as_str() && message(vm).contains(name)
        }
    };
    let told = world.until("web", "waits", waits("asked")).await;
    assert!(message(&told).contains("deleteOnVMDelete"));
    world.told("web", Reason::InUse).await;
    assert_eq!((mock.vms().len(), on(&mock).len()), (1, 3));
    world.delete::<VMSnapshot>("asked").await;
    world.until("web", "waits", waits("stays")).await;
    let lets = json!({"spec": {"retentionPolicy": {"deleteOnVMDelete": true}}});
    world.edit::<VMSnapshot>("stays", lets).await;
    world.gone::<VirtualMachine>("web").await;
    for name in ["goes", "stays"] {
        world.gone::<VMSnapshot>(name).await;
    }
    assert!(mock.vms().is_empty());
}

#[tokio::test]
async fn a_snapshot_of_a_retained_vm_stays_and_can_be_deleted() {
    let (world, mock) = with_vm("snap-retained", MockConfig::default()).await;
    taken(&world, "before").await;
    world
        .edit_spec("web", json!({"deletionPolicy": "Retain"}))
        .await;
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.until("before", "is ready", is_ready).await;
    world.delete::<VMSnapshot>("before").await;
    world.gone::<VMSnapshot>("before").await;
    assert!(on(&mock).is_empty());
    assert_eq!(mock.vms().len(), 1);
}

#[tokio::test]
async fn a_snapshot_whose_time_is_over_goes() {
    let (world, mock) = with_vm("snap-age", MockConfig::default()).await;
    let age = json!({"retentionPolicy": {"maxAge": "1s", "gracePeriod": "2s"}});
    world
        .create(snapshot("short", "web").spec(age.clone()))
        .await;
    let pinned = json!({"metadata": {"pinned": true}});
    world
        .create(snapshot("pinned", "web").spec(age).spec(pinned))
        .await;
    let expired = |s: &VMSnapshot| stands_at(s) == Some(SnapshotPhase::Expired);
    let over = world.until("short", "is expired", expired).await;
    assert!(over.status.is_some_and(|s| s.expiry_time.is_some()));
    world.told("short", Reason::SnapshotExpired).await;
    world.gone::<VMSnapshot>("short").await;
    world.until("pinned", "stays", is_ready).await;
    assert_eq!(on(&mock).len(), 1);
}
