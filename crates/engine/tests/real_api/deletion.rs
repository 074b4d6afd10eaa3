//! An object goes when its VM is proved to be gone, and not before.

use std::time::Duration;

use polyvirt_api::infra::{Provider, VMPhase, VirtualMachine};
use polyvirt_api::names;
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{MockConfig, Rpc, TaskMode, Times};
use serde_json::json;

use crate::support::fleet::Route;
use crate::support::look::{id, runs};
use crate::support::wire::{Services, WireServer};
use crate::support::world::HYPERVISOR;
use crate::support::{World, message, phase, reason, vm};

fn deleting(vm: &VirtualMachine) -> bool {
    phase(vm) == Some(VMPhase::Deleting)
}

#[tokio::test]
async fn an_object_stays_until_the_hypervisor_has_deleted_its_vm() {
    let times = Times {
        delete: Duration::from_secs(3),
        ..Times::default()
    };
    let config = MockConfig {
        tasks: TaskMode::Async,
        times,
        ..MockConfig::default()
    };
    let (world, mock) = World::furnished("proof", config).await;
    world.create(vm("web")).await;
    let id = id(&world.vm("web", "runs", runs).await);
    world.delete::<VirtualMachine>("web").await;
    world.vm("web", "is being deleted", deleting).await;
    assert!(mock.vm(&id).is_some(), "the task is at work");
    world.gone::<VirtualMachine>("web").await;
    assert!(mock.vm(&id).is_none());
    world.told("web", Reason::Deleted).await;
}

#[tokio::test]
async fn a_deletion_that_fails_is_tried_again_and_keeps_the_object() {
    let (world, mock) = World::furnished("delete-fails", MockConfig::default()).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    mock.faults().parse("fail=Delete:Internal").expect("a rule");
    world.delete::<VirtualMachine>("web").await;
    let failing = |vm: &VirtualMachine| reason(vm) == Reason::ProviderError.as_str();
    let vm = world.vm("web", "tells of the error", failing).await;
    assert!(
        message(&vm).contains("virtrigaud.io/force-delete"),
        "{}",
        message(&vm)
    );
    mock.faults().clear();
    world.gone::<VirtualMachine>("web").await;
    assert!(mock.vms().is_empty());
    assert!(mock.counts().of(Rpc::Delete).calls >= 2);
}

#[tokio::test]
async fn a_deletion_task_that_the_provider_forgets_is_proved_by_a_look() {
    let times = Times {
        delete: Duration::from_millis(200),
        ..Times::default()
    };
    let config = MockConfig {
        tasks: TaskMode::Async,
        times,
        ..MockConfig::default()
    };
    let (world, mock) = World::furnished("forgotten", config).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    mock.faults().parse("forget=1").expect("a rule");
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    assert!(mock.vms().is_empty());
}

/// A world whose hypervisor is behind a port.
async fn wired(
    topic: &str,
) -> (
    World,
    std::sync::Arc<polyvirt_provider_mock::Mock>,
    WireServer,
) {
    let mut world = World::empty(topic).await;
    let mock = world.furnish(MockConfig::default()).await;
    let server = WireServer::start(mock.clone(), Services::Both);
    world
        .fleet
        .put(HYPERVISOR, Route::Wire(server.address.to_string()));
    world.start().await;
    (world, mock, server)
}

#[tokio::test]
async fn a_provider_that_is_down_keeps_the_object_until_it_is_back() {
    let (world, mock, mut server) = wired("down").await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    server.kill();
    let unhealthy = |p: &Provider| p.status.as_ref().and_then(|s| s.healthy) == Some(false);
    world.until(HYPERVISOR, "is unhealthy", unhealthy).await;
    world.delete::<VirtualMachine>("web").await;
    let waits = |vm: &VirtualMachine| deleting(vm) && reason(vm) == "ProviderUnavailable";
    let vm = world.vm("web", "waits for the provider", waits).await;
    assert!(
        message(&vm).contains("virtrigaud.io/force-delete=true"),
        "{}",
        message(&vm)
    );
    assert_eq!(mock.vms().len(), 1);
    server.revive();
    world.gone::<VirtualMachine>("web").await;
    assert!(mock.vms().is_empty());
}

#[tokio::test]
async fn force_lets_the_object_go_and_tells_what_may_be_left() {
    let (world, mock, mut server) = wired("force").await;
    let declared = world.create(vm("web")).await;
    let id = id(&world.vm("web", "runs", runs).await);
    server.kill();
    world.delete::<VirtualMachine>("web").await;
    world.vm("web", "waits", deleting).await;
    world
        .annotate("web", names::FORCE_DELETE_ANNOTATION, "true")
        .await;
    world.gone::<VirtualMachine>("web").await;
    let event = world.told("web", Reason::ForceDeleted).await;
    let identity = declared.metadata.uid.unwrap_or_default();
    assert!(
        event.note.contains(id.as_str()) && event.note.contains(&identity),
        "{event:?}"
    );
    assert_eq!(mock.vms().len(), 1, "it was left behind, as told");
}

#[tokio::test]
async fn an_object_without_its_provider_waits_and_can_be_forced() {
    let (mut world, mock) = World::furnished("no-provider", MockConfig::default()).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    world.stop().await;
    world
        .edit::<Provider>(HYPERVISOR, json!({"metadata": {"finalizers": null}}))
        .await;
    world.delete::<Provider>(HYPERVISOR).await;
    world.gone::<Provider>(HYPERVISOR).await;
    world.start().await;
    world.delete::<VirtualMachine>("web").await;
    let waits = |vm: &VirtualMachine| deleting(vm) && reason(vm) == "ProviderNotFound";
    let vm = world.vm("web", "waits for the Provider", waits).await;
    assert!(
        message(&vm).contains("spec.providerRef.name"),
        "{}",
        message(&vm)
    );
    world
        .annotate("web", names::FORCE_DELETE_ANNOTATION, "true")
        .await;
    world.gone::<VirtualMachine>("web").await;
    assert_eq!(mock.vms().len(), 1);
}

#[tokio::test]
async fn a_retained_vm_outlives_its_object() {
    let (world, mock) = World::furnished("retain", MockConfig::default()).await;
    world
        .create(vm("web").spec(json!({"deletionPolicy": "Retain"})))
        .await;
    let id = id(&world.vm("web", "runs", runs).await);
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    assert!(mock.vm(&id).is_some());
    world.told("web", Reason::Retained).await;
}

#[tokio::test]
async fn a_vm_is_deleted_while_it_is_being_created() {
    let times = Times {
        create: Duration::from_secs(3),
        ..Times::default()
    };
    let config = MockConfig {
        tasks: TaskMode::Async,
        times,
        ..MockConfig::default()
    };
    let (world, mock) = World::furnished("abort", config).await;
    world.create(vm("web")).await;
    world
        .vm("web", "is being created", |vm| {
            phase(vm) == Some(VMPhase::Provisioning)
        })
        .await;
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(mock.vms().is_empty(), "{:?}", mock.vms());
}

#[tokio::test]
async fn an_object_that_never_got_a_vm_goes_at_once() {
    let (world, mock) = World::furnished("never", MockConfig::default()).await;
    world
        .create(vm("web").spec(json!({"classRef": {"name": "nowhere"}})))
        .await;
    world
        .vm("web", "waits", |vm| phase(vm) == Some(VMPhase::Pending))
        .await;
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    assert_eq!(mock.counts().mutations(), 0);
}

#[tokio::test]
async fn an_object_goes_though_its_identity_was_taken_off() {
    let (mut world, mock) = World::furnished("stripped", MockConfig::default()).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    world.stop().await;
    world
        .annotate("web", names::IDENTITY_ANNOTATION, json!(null))
        .await;
    world.delete::<VirtualMachine>("web").await;
    world.start().await;
    world.gone::<VirtualMachine>("web").await;
    assert!(mock.vms().is_empty(), "its VM goes with it");
}

#[tokio::test]
async fn a_vm_whose_class_is_gone_can_still_be_deleted() {
    let (world, mock) = World::furnished("classless", MockConfig::default()).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    world
        .edit_spec("web", json!({"classRef": {"name": "nowhere"}}))
        .await;
    let waits = |vm: &VirtualMachine| reason(vm) == Reason::WaitingForDependencies.as_str();
    world.vm("web", "waits for its class", waits).await;
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    assert!(mock.vms().is_empty());
}
