//! Deletion of what is in use.

use std::time::Duration;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use crate::world::{PATIENCE, World, refusal, until, vm};

async fn delete(world: &World, kind: &str, name: &str) -> Result<(), kube::Error> {
    let deleted = world.api(kind).delete(name, &DeleteParams::default()).await;
    deleted.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_vm_uses_stays_until_the_vm_goes() {
    let world = World::furnished("guard").await;
    world
        .create("VirtualMachine", "a", vm(json!({})))
        .await
        .expect("made");
    until("it runs", || async {
        let vm = world.api("VirtualMachine").get("a").await.expect("there");
        (vm.data["status"]["phase"] == "Running").then_some(())
    })
    .await;
    for (kind, name) in [
        ("Provider", "hv"),
        ("VMClass", "small"),
        ("VMImage", "base"),
    ] {
        let status = refusal(delete(&world, kind, name).await);
        assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
        let words = format!(
            "{kind} {0}/{name} is used by 1 VirtualMachine: {0}/a. Delete or change them first",
            world.namespace
        );
        assert!(status.message.contains(&words), "{}", status.message);
        let there = world.api(kind).get(name).await.expect("there");
        assert!(there.metadata.deletion_timestamp.is_none());
    }
    delete(&world, "VirtualMachine", "a").await.expect("taken");
    for (kind, name) in [
        ("Provider", "hv"),
        ("VMClass", "small"),
        ("VMImage", "base"),
    ] {
        until("it goes", || async {
            delete(&world, kind, name).await.ok()
        })
        .await;
        until("it is gone", || async {
            let found = world.api(kind).get_opt(name).await.expect("an answer");
            found.is_none().then_some(())
        })
        .await;
    }
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

#[tokio::test(flavor = "multi_thread")]
async fn what_is_marked_goes_when_nobody_uses_it_any_more() {
    let world = World::furnished("marked").await;
    world
        .create("VirtualMachine", "a", vm(json!({})))
        .await
        .expect("made");
    until("it is in use", || async {
        let class = world.api("VMClass").get("small").await.expect("there");
        class.metadata.finalizers.filter(|all| !all.is_empty())
    })
    .await;
    let mark = json!({"metadata": {"annotations": {"virtrigaud.io/force-delete": "true"}}});
    let params = PatchParams::default();
    let marked = world
        .api("VMClass")
        .patch("small", &params, &Patch::Merge(&mark))
        .await;
    marked.expect("marked");
    delete(&world, "VMClass", "small").await.expect("taken");
    let leaving = world
        .api("VMClass")
        .get("small")
        .await
        .expect("still there");
    assert!(leaving.metadata.deletion_timestamp.is_some());
    delete(&world, "VirtualMachine", "a").await.expect("taken");
    until("it is gone", || async {
        let found = world
            .api("VMClass")
            .get_opt("small")
            .await
            .expect("an answer");
        found.is_none().then_some(())
    })
    .await;
}
