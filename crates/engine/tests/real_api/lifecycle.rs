//! From a manifest to a running VM, and what people see on the way.

use std::time::Duration;

use polyvirt_api::infra::{VMPhase, VirtualMachine};
use polyvirt_api::names;
use polyvirt_contract::model::PowerState;
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{MockConfig, TaskMode, Times};
use serde_json::json;

use crate::support::look::{id, runs, stands};
use crate::support::recorder::Recorder;
use crate::support::world::eventually;
use crate::support::{World, phase, reason, vm};

/// Slow enough that every state between two states is written.
fn slow() -> MockConfig {
    let times = Times {
        create: Duration::from_millis(200),
        delete: Duration::from_millis(200),
        power: Duration::from_millis(100),
        reconfigure: Duration::from_millis(200),
        ..Times::default()
    };
    MockConfig {
        tasks: TaskMode::Async,
        times,
        ..MockConfig::default()
    }
}

#[tokio::test]
async fn a_declared_vm_is_created_once_and_runs() {
    let (world, mock) = World::furnished("create", MockConfig::default()).await;
    let declared = world.create(vm("web")).await;
    let vm = world.vm("web", "runs", runs).await;
    let there = mock.vms();
    assert_eq!(there.len(), 1);
    assert_eq!(
        (there[0].name.as_str(), there[0].power),
        ("web", PowerState::On)
    );
    assert_eq!((there[0].cpu, there[0].memory_mib), (2, 2048));
    let owner = there[0].owner.clone().expect("it is marked as ours");
    assert_eq!(
        Some(owner.identity.as_str()),
        declared.metadata.uid.as_deref()
    );
    assert_eq!(
        (owner.namespace, owner.name),
        (world.namespace.clone(), "web".to_owned())
    );
    let annotations = vm.metadata.annotations.clone().unwrap_or_default();
    assert_eq!(
        annotations[names::IDENTITY_ANNOTATION],
        owner.identity.as_str()
    );
    let finalizers = vm.metadata.finalizers.clone().unwrap_or_default();
    assert_eq!(finalizers, [names::VIRTUAL_MACHINE_FINALIZER]);
}

#[tokio::test]
async fn the_status_says_what_the_hypervisor_says() {
    let (world, mock) = World::furnished("status", MockConfig::default()).await;
    world.create(vm("web")).await;
    let vm = world.vm("web", "runs", runs).await;
    let (status, there) = (vm.status.clone().expect("a status"), mock.vms().remove(0));
    assert_eq!(status.id.as_deref(), Some(there.id.as_str()));
    assert_eq!(status.ips, there.ips);
    assert_eq!(status.host.as_deref(), Some(there.host.as_str()));
    let resources = status.current_resources.expect("resources");
    assert_eq!((resources.cpu, resources.memory_mib), (Some(2), Some(2048)));
    assert_eq!(status.observed_generation, vm.metadata.generation);
    assert_eq!(status.message.as_deref(), Some("The VM is running"));
    world.told("web", Reason::Created).await;
    world.told("web", Reason::Running).await;
}

#[tokio::test]
async fn a_vm_smaller_than_most_has_a_status_too() {
    let (world, _mock) = World::furnished("tiny", MockConfig::default()).await;
    let small = json!({"cpu": 1, "memory": "64Mi"});
    let inline = vm("web").spec(json!({"class": small, "classRef": null}));
    world.create(inline).await;
    let vm = world.vm("web", "runs", runs).await;
    let told = vm.status.and_then(|s| s.current_resources);
    assert_eq!(told.and_then(|r| r.memory_mib), Some(64));
}

#[tokio::test]
async fn an_address_that_comes_later_reaches_the_status() {
    let times = Times {
        boot: Duration::from_millis(700),
        ..Times::default()
    };
    let config = MockConfig {
        times,
        ..MockConfig::default()
    };
    let (world, _mock) = World::furnished("boot", config).await;
    world.create(vm("web")).await;
    let has_address = |vm: &VirtualMachine| vm.status.as_ref().is_some_and(|s| !s.ips.is_empty());
    world
        .vm("web", "has an address", |vm| runs(vm) && has_address(vm))
        .await;
}

/// Everything that can be seen of a VM from its manifest to its end.
async fn a_whole_life(world: &World, recorder: &Recorder) {
    world
        .create(vm("web").spec(json!({"classRef": {"name": "tiny"}})))
        .await;
    world
        .vm("web", "waits for its class", |vm| {
            phase(vm) == Some(VMPhase::Pending)
        })
        .await;
    world.create(crate::support::class("tiny")).await;
    world.vm("web", "runs", runs).await;
    world
        .edit_spec("web", json!({"disks": [{"name": "data", "sizeGiB": 5}]}))
        .await;
    eventually("it is seen to be reconfigured", || {
        recorder
            .of("web")
            .iter()
            .any(|said| said.phase == VMPhase::Reconfiguring)
    })
    .await;
    world.vm("web", "runs with its disk", runs).await;
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    world.vm("web", "is off", stands).await;
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
}

#[tokio::test]
async fn every_phase_is_shown_and_every_transition_is_an_event() {
    let (world, mock) = World::furnished("phases", slow()).await;
    let recorder = Recorder::listen(&world);
    a_whole_life(&world, &recorder).await;
    let stranger = mock
        .out_of_band()
        .create_stranger("taken")
        .expect("created");
    world.create(vm("taken")).await;
    world
        .vm("taken", "fails", |vm| phase(vm) == Some(VMPhase::Failed))
        .await;
    assert!(mock.vm(&stranger).is_some());
    let mut seen: Vec<_> = recorder.of("web").iter().map(|said| said.phase).collect();
    seen.dedup();
    for wanted in [
        VMPhase::Pending,
        VMPhase::Provisioning,
        VMPhase::Running,
        VMPhase::Reconfiguring,
        VMPhase::Stopped,
        VMPhase::Deleting,
    ] {
        assert!(seen.contains(&wanted), "{wanted:?} is not in {seen:?}");
    }
    for said in recorder.of("web") {
        world
            .told("web", event_of(&said.ready, &said.reason, said.phase))
            .await;
    }
    world.told("web", Reason::Deleted).await;
    world.told("taken", Reason::NameConflict).await;
}

/// The word of the event that belongs to a state.
fn event_of(ready: &str, reason: &str, phase: VMPhase) -> Reason {
    match (ready, phase) {
        ("True", VMPhase::Running) => Reason::Running,
        ("True", _) => Reason::Stopped,
        _ => Reason::parse(reason).expect("a known reason"),
    }
}

#[tokio::test]
async fn a_paused_vm_is_left_alone_until_the_pause_ends() {
    let (world, mock) = World::furnished("pause", MockConfig::default()).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    world
        .annotate("web", names::PAUSED_ANNOTATION, "true")
        .await;
    let paused = |vm: &VirtualMachine| reason(vm) == Reason::Paused.as_str();
    world.vm("web", "is paused", paused).await;
    let before = mock.counts().mutations();
    world
        .edit_spec("web", json!({"powerState": "Off", "resources": {"cpu": 4}}))
        .await;
    mock.out_of_band()
        .resize(&mock.vms()[0].id, 8, 4096)
        .expect("resized");
    world.reconciled_again("web").await;
    assert_eq!(mock.counts().mutations(), before, "nothing is changed");
    world
        .annotate("web", names::PAUSED_ANNOTATION, json!(null))
        .await;
    world.vm("web", "is off", stands).await;
    assert_eq!(mock.vms()[0].cpu, 4);
}

#[tokio::test]
async fn a_vm_that_is_declared_paused_is_not_created() {
    let (world, mock) = World::furnished("pause-early", MockConfig::default()).await;
    world
        .create(vm("web").annotated(names::PAUSED_ANNOTATION, "true"))
        .await;
    world
        .vm("web", "is paused", |vm| {
            reason(vm) == Reason::Paused.as_str()
        })
        .await;
    assert_eq!((mock.vms().len(), mock.counts().mutations()), (0, 0));
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
}

#[tokio::test]
async fn a_paused_vm_is_deleted_when_the_pause_ends() {
    let (world, mock) = World::furnished("pause-delete", MockConfig::default()).await;
    world.create(vm("web")).await;
    let id = id(&world.vm("web", "runs", runs).await);
    world
        .annotate("web", names::PAUSED_ANNOTATION, "true")
        .await;
    world.delete::<VirtualMachine>("web").await;
    world.reconciled_again("web").await;
    assert!(mock.vm(&id).is_some(), "a paused VM stays");
    world
        .annotate("web", names::PAUSED_ANNOTATION, json!(null))
        .await;
    world.gone::<VirtualMachine>("web").await;
    assert!(mock.vm(&id).is_none());
}

#[tokio::test]
async fn many_vms_are_created_side_by_side() {
    let (world, mock) = World::furnished("many", slow()).await;
    for number in 0..30 {
        world.create(vm(&format!("vm-{number}"))).await;
    }
    for number in 0..30 {
        world.vm(&format!("vm-{number}"), "runs", runs).await;
    }
    assert_eq!(mock.vms().len(), 30);
}
