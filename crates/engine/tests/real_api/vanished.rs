//! An object that the API server removed in spite of our finalizer takes what it stood for with it, and nothing that a user writes
//! into an object makes it look like one.

use std::time::Duration;

use polyvirt_api::infra::{VMImage, VMSnapshot, VirtualMachine};
use polyvirt_api::names;
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{MockConfig, Rpc, TaskMode, Times};
use serde_json::json;

use crate::images::from;
use crate::snapshots::{is_ready, on, with_vm};
use crate::support::look::{id, ready, runs};
use crate::support::plane;
use crate::support::world::{HYPERVISOR, Object, eventually};
use crate::support::{World, download, phase, snapshot, vm};

/// The annotation that former versions used as their mark.
const FORMER_MARK: &str = "cache.polyvirt.io/vanished";

/// What the API server does when a DELETE overlooks a finalizer that was just added: the object is gone with it.
async fn erase<K: Object>(world: &World, name: &str) {
    let plural = K::plural(&());
    let place = format!("{}/{plural}/{}/{name}", names::GROUP, world.namespace);
    let plane = plane::everybodys().await;
    plane.erase(&place).await.expect("it was there");
}

#[tokio::test]
async fn an_object_that_the_api_server_removed_in_spite_of_its_finalizer_takes_its_vm_with_it() {
    let config = MockConfig {
        tasks: TaskMode::Async,
        times: Times {
            delete: Duration::from_millis(300),
            ..Times::default()
        },
        ..MockConfig::default()
    };
    let (world, mock) = World::furnished("vanished", config).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    mock.faults()
        .parse("fail=Delete:Unavailable:1")
        .expect("a rule");
    erase::<VirtualMachine>(&world, "web").await;
    eventually("its VM is gone", || mock.vms().is_empty()).await;
    world.told("web", Reason::Deleted).await;
    world.create(vm("web")).await;
    world.vm("web", "runs again", runs).await;
}

#[tokio::test]
async fn a_vm_whose_object_went_while_nobody_looked_is_counted_and_left_alone() {
    let (mut world, mock) = World::furnished("unclaimed", MockConfig::default()).await;
    world.create(vm("web")).await;
    let id = id(&world.vm("web", "runs", runs).await);
    world.stop().await;
    erase::<VirtualMachine>(&world, "web").await;
    world.start().await;
    let line = format!("provider=\"{}/{HYPERVISOR}\"}} 1", world.namespace);
    let counted = || {
        let metrics = world.metrics();
        let mut lines = metrics.lines();
        lines.any(|l| l.starts_with("virtrigaud_provider_unclaimed_vms") && l.ends_with(&line))
    };
    eventually("it is counted", counted).await;
    assert!(mock.vm(&id).is_some());
    assert_eq!(mock.counts().of(Rpc::Delete).calls, 0);
}

/// C2: the mark belongs to the cache. A user who writes it changes nothing.
#[tokio::test]
async fn a_user_who_sets_the_former_mark_on_a_new_object_gets_an_ordinary_vm() {
    let (world, mock) = World::furnished("mark-new", MockConfig::default()).await;
    world.create(vm("web").annotated(FORMER_MARK, "")).await;
    let made = world.vm("web", "runs", runs).await;
    let marks = made.metadata.finalizers.clone().unwrap_or_default();
    assert!(
        marks.iter().any(|m| m == names::VIRTUAL_MACHINE_FINALIZER),
        "{marks:?}"
    );
    let annotations = made.metadata.annotations.clone().unwrap_or_default();
    assert!(annotations.contains_key(names::IDENTITY_ANNOTATION));
    assert!(mock.vm(&id(&made)).is_some());
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    assert!(mock.vms().is_empty());
}

#[tokio::test]
async fn a_user_who_sets_the_former_mark_on_a_vm_sees_its_status_and_its_deletion() {
    let (world, mock) = with_vm("mark-old", MockConfig::default()).await;
    world.annotate("web", FORMER_MARK, "").await;
    let off = json!({"powerState": "OffGraceful", "gracefulShutdownTimeout": "1s"});
    world.edit_spec("web", off).await;
    let stopped = |vm: &VirtualMachine| {
        let status = vm.status.as_ref();
        let seen = status.and_then(|s| s.observed_generation) == vm.metadata.generation;
        seen && phase(vm) == Some(polyvirt_api::infra::VMPhase::Stopped)
    };
    world.vm("web", "is stopped", stopped).await;
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    assert!(mock.vms().is_empty());
}

/// D7: what holds for a VM holds for all that is left on a hypervisor.
#[tokio::test]
async fn a_snapshot_whose_object_was_removed_in_spite_of_its_finalizer_is_deleted() {
    let (world, mock) = with_vm("vanished-snap", MockConfig::default()).await;
    world.create(snapshot("before", "web")).await;
    world.until("before", "is ready", is_ready).await;
    mock.faults()
        .parse("fail=SnapshotDelete:Unavailable:1")
        .expect("a rule");
    erase::<VMSnapshot>(&world, "before").await;
    eventually("its snapshot is gone", || on(&mock).is_empty()).await;
    world.told("before", Reason::SnapshotDeleted).await;
    world.create(snapshot("before", "web")).await;
    world.until("before", "is ready again", is_ready).await;
}

#[tokio::test]
async fn copies_of_an_image_that_was_removed_in_spite_of_its_finalizer_are_deleted() {
    let (world, mock) = World::furnished("vanished-image", MockConfig::default()).await;
    world.create(download("debian")).await;
    world.create(from("debian", "web")).await;
    world.vm("web", "runs", runs).await;
    let _: VMImage = world.until("debian", "is ready", ready).await;
    erase::<VMImage>(&world, "debian").await;
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    let deleted = || mock.counts().of(Rpc::DeleteImage).mutations == 1;
    eventually("its copy is gone", deleted).await;
}
