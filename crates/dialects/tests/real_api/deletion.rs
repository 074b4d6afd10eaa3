//! The end of Machines.

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use polyvirt_api::infra::VirtualMachine;
use polyvirt_api::vitistack::{Machine, NetworkConfiguration};
use serde_json::json;

use crate::world::{World, annotated, machine};

#[tokio::test]
async fn a_machine_takes_its_vm_and_its_interfaces_along() {
    let (world, east) = World::furnished("delete").await;
    world
        .apply(machine("web", json!({"template": "small"})))
        .await;
    world.machine("web", "Running").await;
    let both = json!([
        "machine.vitistack.io/cleanup",
        "machine.vitistack.io/finalizer"
    ]);
    world
        .merge::<Machine>("web", json!({"metadata": {"finalizers": both}}))
        .await;
    world.delete::<Machine>("web").await;
    world.gone::<Machine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    world.gone::<NetworkConfiguration>("web").await;
    assert!(east.vms().is_empty());
}

#[tokio::test]
async fn an_orphan_stays() {
    let (world, east) = World::furnished("orphan").await;
    world
        .apply(machine("web", json!({"template": "small"})))
        .await;
    world.machine("web", "Running").await;
    let orphan = json!({"metadata": {"annotations": {"vitistack.io/orphan": "true"}}});
    world.merge::<Machine>("web", orphan).await;
    world.delete::<Machine>("web").await;
    world.gone::<Machine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    assert_eq!(east.vms().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_made_can_be_deleted() {
    let (world, _east) = World::furnished("delete-failed").await;
    let name = json!({"vitistack.io/kubevirt-config": "north"});
    world.apply(annotated("web", json!({}), name)).await;
    world.fails("web", "KubevirtConfigNotFound").await;
    world.delete::<Machine>("web").await;
    world.gone::<Machine>("web").await;
}

#[tokio::test]
async fn a_silent_cluster_keeps_the_machine_until_it_is_forced() {
    let (world, east) = World::furnished("force").await;
    world
        .apply(machine("web", json!({"template": "small"})))
        .await;
    world.machine("web", "Running").await;
    east.faults()
        .parse("fail=Delete:Unavailable:1000")
        .expect("a rule");
    world.delete::<Machine>("web").await;
    let waits = world.machine("web", "Terminating").await;
    assert!(waits.metadata.finalizers.is_some_and(|f| !f.is_empty()));
    let force = json!({"metadata": {"annotations": {"vitistack.io/force-delete": "true"}}});
    world.merge::<Machine>("web", force).await;
    world.gone::<Machine>("web").await;
    let told = left_behind(&world).await;
    assert!(told.contains("VirtualMachine vm-web"), "{told}");
    assert!(
        told.contains("the cluster of KubevirtConfig east"),
        "{told}"
    );
    assert!(told.contains("-l vitistack.io/machine=web"), "{told}");
}

/// Somebody writes another provider into a Machine that has a VM. It is left alone from then on, and still takes its VM along.
#[tokio::test]
async fn a_machine_that_was_for_kubevirt_once_takes_its_vm_along() {
    let (world, east) = World::furnished("once").await;
    let theirs = "machine.vitistack.io/finalizer";
    for name in ["web", "px"] {
        let provider = if name == "web" { "kubevirt" } else { "proxmox" };
        world
            .apply(machine(
                name,
                json!({"template": "small", "provider": provider}),
            ))
            .await;
    }
    world.machine("web", "Running").await;
    let change = json!({"spec": {"provider": "proxmox"}});
    world.merge::<Machine>("web", change).await;
    world.delete::<Machine>("web").await;
    world.gone::<Machine>("web").await;
    assert!(east.vms().is_empty());

    let marked = json!({"metadata": {"finalizers": [theirs]}});
    world.merge::<Machine>("px", marked).await;
    world.delete::<Machine>("px").await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let other = world.get::<Machine>("px").await;
    assert_eq!(other.metadata.finalizers, Some(vec![theirs.to_owned()]));
    let over = json!({"metadata": {"finalizers": []}});
    world.merge::<Machine>("px", over).await;
}

/// What the event says that tells what may remain.
async fn left_behind(world: &World) -> String {
    let api: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    for _ in 0..200 {
        let all = api.list(&ListParams::default()).await.expect("events");
        let of_machine = |event: &Event| {
            let about = event.regarding.as_ref().and_then(|r| r.kind.clone());
            about.as_deref() == Some("Machine") && event.reason.as_deref() == Some("ForceDeleted")
        };
        if let Some(event) = all.items.into_iter().find(of_machine) {
            return event.note.unwrap_or_default();
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("nobody tells what may remain");
}
