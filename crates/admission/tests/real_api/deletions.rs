//! Deletion of what is in use.

use std::time::Duration;

use kube::api::{DeleteParams, ListParams};
use serde_json::json;
use tokio::time::Instant;

use crate::world::{PATIENCE, World, until, vm};

async fn delete(world: &World, kind: &str, name: &str) -> Result<(), kube::Error> {
    let deleted = world.api(kind).delete(name, &DeleteParams::default()).await;
    deleted.map(drop)
}

const USED: [(&str, &str); 3] = [
    ("Provider", "hv"),
    ("VMClass", "small"),
    ("VMImage", "base"),
];

#[tokio::test(flavor = "multi_thread")]
async fn deletion_of_what_a_vm_uses_is_accepted_and_waits_for_the_vm() {
    let world = World::furnished("guard").await;
    let made = world.create("VirtualMachine", "a", vm(json!({}))).await;
    made.expect("made");
    until("it runs", || async {
        let vm = world.api("VirtualMachine").get("a").await.expect("there");
        (vm.data["status"]["phase"] == "Running").then_some(())
    })
    .await;
    for (kind, name) in USED {
        until("it is held", || async {
            let object = world.api(kind).get(name).await.expect("there");
            object.metadata.finalizers.filter(|all| !all.is_empty())
        })
        .await;
        delete(&world, kind, name).await.expect("accepted");
        until("it says what it waits for", || async {
            let object = world.api(kind).get(name).await.expect("still there");
            let text = object.data["status"]["conditions"].to_string();
            let wanted = format!(
                "Deletion is waiting for 1 VirtualMachines that use it: {}/a",
                world.namespace
            );
            text.contains(&wanted).then_some(())
        })
        .await;
    }
    assert_eq!(
        world.reviews("verdict=\"warned\""),
        3,
        "each deletion names the VM"
    );
    delete(&world, "VirtualMachine", "a").await.expect("taken");
    for (kind, name) in USED {
        until("it is gone", || async {
            let found = world.api(kind).get_opt(name).await.expect("an answer");
            found.is_none().then_some(())
        })
        .await;
    }
}

/// A Provider is held before the first VM is there: deleted together with it, it is deleted after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_is_held_as_soon_as_it_is_connected() {
    let world = World::furnished("held").await;
    until("it is held", || async {
        let provider = world.api("Provider").get("hv").await.expect("there");
        provider.metadata.finalizers.filter(|all| !all.is_empty())
    })
    .await;
    delete(&world, "Provider", "hv").await.expect("accepted");
    until("it is gone", || async {
        let found = world
            .api("Provider")
            .get_opt("hv")
            .await
            .expect("an answer");
        found.is_none().then_some(())
    })
    .await;
}

/// As the controller of namespaces does it: all of each kind, in any order, again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_whole_namespace_can_be_emptied_in_the_worst_order() {
    let world = World::furnished("emptied").await;
    for name in ["a", "b", "c"] {
        world
            .create("VirtualMachine", name, vm(json!({})))
            .await
            .expect("made");
    }
    until("they run", || async {
        let vms = world
            .api("VirtualMachine")
            .list(&ListParams::default())
            .await;
        let vms = vms.expect("a list").items;
        let all = vms.iter().all(|vm| vm.data["status"]["phase"] == "Running");
        all.then_some(())
    })
    .await;
    let kinds = ["Provider", "VMClass", "VMImage", "VirtualMachine"];
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut left = Vec::new();
        for kind in kinds {
            let api = world.api(kind);
            let _ = api
                .delete_collection(&DeleteParams::default(), &ListParams::default())
                .await;
            let list = api.list(&ListParams::default()).await.expect("a list");
            left.extend(list.items);
        }
        if left.is_empty() {
            return;
        }
        let text = serde_json::to_string_pretty(&left).expect("JSON");
        assert!(Instant::now() < deadline, "never gone: {text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
