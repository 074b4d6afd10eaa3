//! When the origin of an image is asked: once for all VMs, for each new one, or never.

use polyvirt_api::infra::VirtualMachine;
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{Mock, MockConfig, Rpc, TaskMode};
use serde_json::json;

use crate::support::look::{field, runs};
use crate::support::world::Manifest;
use crate::support::{World, download, message, reason, vm};

const URL: &str = "https://images.example.com/debian.qcow2";

fn pulling(name: &str, policy: &str) -> Manifest<VirtualMachine> {
    vm(name).spec(json!({"imageRef": {"name": "debian"}, "imagePullPolicy": policy}))
}

fn prepares(mock: &Mock) -> u64 {
    mock.counts().of(Rpc::ImagePrepare).calls
}

async fn runs_from(world: &World, name: &str, image: &str) {
    let vm = world.vm(name, "runs", runs).await;
    assert!(
        field(&vm, "image").contains(image),
        "{name} is made from {}",
        field(&vm, "image")
    );
}

fn has_no_image(vm: &VirtualMachine) -> bool {
    reason(vm) == Reason::ImageFailed.as_str()
}

#[tokio::test]
async fn a_vm_that_may_not_fetch_waits_for_others_who_may() {
    let (world, mock) = World::furnished("pull-never", MockConfig::default()).await;
    world.create(download("debian")).await;
    world.create(pulling("strict", "Never")).await;
    let vm = world
        .vm("strict", "tells that it has no image", has_no_image)
        .await;
    let words = "spec.imagePullPolicy is Never";
    assert!(message(&vm).contains(words), "{}", message(&vm));
    assert_eq!(prepares(&mock), 0, "nothing was fetched for it");

    world.create(pulling("eager", "IfNotPresent")).await;
    runs_from(&world, "eager", "image-1").await;
    runs_from(&world, "strict", "image-1").await;
    assert_eq!(mock.images_prepared(), 1);
}

async fn newer_for_new_ones(name: &str, config: MockConfig) {
    let (world, mock) = World::furnished(name, config).await;
    world.create(download("debian")).await;
    world.create(pulling("first", "IfNotPresent")).await;
    runs_from(&world, "first", "image-1").await;

    mock.faults().change_image(URL);
    world.create(pulling("content", "IfNotPresent")).await;
    runs_from(&world, "content", "image-1").await;
    world.create(pulling("fresh", "Always")).await;
    runs_from(&world, "fresh", "image-2").await;
    let before = prepares(&mock);
    world.create(pulling("also-fresh", "Always")).await;
    runs_from(&world, "also-fresh", "image-2").await;
    assert!(prepares(&mock) > before, "the origin was looked at for it");
    assert_eq!(mock.images_prepared(), 2, "and had not changed");
    runs_from(&world, "first", "image-1").await;
}

#[tokio::test]
async fn the_origin_is_looked_at_for_each_new_vm_and_vms_keep_their_disks() {
    newer_for_new_ones("pull-always", MockConfig::default()).await;
}

#[tokio::test]
async fn also_where_imports_take_their_time() {
    let config = MockConfig {
        tasks: TaskMode::Async,
        ..MockConfig::default()
    };
    newer_for_new_ones("pull-tasks", config).await;
}

#[tokio::test]
async fn an_origin_that_is_gone_holds_up_only_those_who_asked_for_it() {
    let (world, mock) = World::furnished("pull-gone", MockConfig::default()).await;
    world.create(download("debian")).await;
    world.create(pulling("first", "IfNotPresent")).await;
    runs_from(&world, "first", "image-1").await;
    mock.faults().lose_image(URL);
    world.create(pulling("fresh", "Always")).await;
    world
        .vm("fresh", "tells that it has no image", has_no_image)
        .await;
    world.create(pulling("content", "IfNotPresent")).await;
    runs_from(&world, "content", "image-1").await;
}

#[tokio::test]
async fn an_image_in_place_is_asked_for_as_its_vm_says() {
    let (world, _mock) = World::furnished("pull-inline", MockConfig::default()).await;
    let inline = |name: &str, policy: &str| {
        let image = json!({"http": {"url": URL}});
        vm(name).spec(json!({"imageRef": null, "image": image, "imagePullPolicy": policy}))
    };
    world.create(inline("strict", "Never")).await;
    let refused = |vm: &VirtualMachine| message(vm).contains("may not be fetched");
    let vm = world.vm("strict", "tells what is missing", refused).await;
    let field = "spec.imagePullPolicy";
    assert!(message(&vm).contains(field), "{}", message(&vm));
    world.create(inline("eager", "IfNotPresent")).await;
    world.vm("eager", "runs", runs).await;
}
