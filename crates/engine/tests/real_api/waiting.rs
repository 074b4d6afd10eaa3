//! Who waits for a host hears of what may make room: labels of namespaces, and hosts that are opened.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams};
use polyvirt_api::infra::{Provider, VirtualMachine};
use polyvirt_plan::Reason;
use polyvirt_testkit::ControlPlane;
use serde_json::{Value, json};

use crate::placement::{hosts, placed, refused};
use crate::support::look::{runs, says};
use crate::support::world::{HYPERVISOR, Manifest};
use crate::support::{World, message, plane, vm};

/// Away from all VMs of namespaces with the label.
fn away_from(name: &str, label: &str) -> Manifest<VirtualMachine> {
    let selector = json!({"matchLabels": {label: "yes"}});
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": selector});
    let affinity =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    placed(name, json!({ "affinity": affinity }))
}

async fn label(world: &World, name: &str, value: Value) {
    let api: Api<Namespace> = Api::all(world.client.clone());
    let patch = Patch::Merge(json!({"metadata": {"labels": {name: value}}}));
    let written = api
        .patch(&world.namespace, &PatchParams::default(), &patch)
        .await;
    written.expect("labelled");
}

#[tokio::test]
async fn namespaces_are_known_by_their_labels_and_a_change_wakes_who_waits() {
    let plane = plane::own(ControlPlane::builder().ephemeral()).await;
    let mut world = World::empty_on(&plane, "labels").await;
    world.manages_all();
    let mut room = hosts(1);
    room.hosts.memory_mib = 16_384;
    world.furnish(room).await;
    label(&world, "noisy", json!("yes")).await;
    world.start().await;
    world.create(vm("there")).await;
    world.vm("there", "runs", runs).await;
    world.create(away_from("quiet", "noisy")).await;
    world.vm("quiet", "is refused", refused).await;
    world.create(away_from("any", "other")).await;
    world.vm("any", "runs", runs).await;
    label(&world, "noisy", Value::Null).await;
    world.vm("quiet", "runs", runs).await;
}

#[tokio::test]
async fn a_manager_of_some_namespaces_says_that_it_does_not_know_their_labels() {
    let (world, _mock) = World::furnished("no-labels", hosts(1)).await;
    world.create(away_from("quiet", "noisy")).await;
    let told = |vm: &VirtualMachine| says(vm, "Ready", "False", Reason::InvalidSpec);
    let vm = world.vm("quiet", "is refused", told).await;
    assert!(
        message(&vm).contains("\"noisy\" of namespaces"),
        "{}",
        message(&vm)
    );
}

#[tokio::test]
async fn a_host_that_is_opened_wakes_who_waits() {
    let (world, _mock) = World::furnished("opened", hosts(1)).await;
    let closed = json!({"spec": {"cordonedHosts": ["host-1"]}});
    world.edit::<Provider>(HYPERVISOR, closed).await;
    let selector = json!({"nodeSelector": {"kubernetes.io/hostname": "host-1"}});
    world.create(placed("web", selector)).await;
    world.vm("web", "is refused", refused).await;
    // So that the next look by itself is far away.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let open = json!({"spec": {"cordonedHosts": null}});
    world.edit::<Provider>(HYPERVISOR, open).await;
    let begin = std::time::Instant::now();
    world.vm("web", "runs", runs).await;
    assert!(begin.elapsed() < Duration::from_secs(6), "nobody woke it");
}
