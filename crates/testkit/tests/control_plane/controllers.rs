//! Namespaces and dependents are deleted as in a cluster with kube-controller-manager.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use polyvirt_testkit::{ControlPlane, controllers, namespace};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::config_map;

const LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// Whether an owner waits for its dependent in a foreground deletion.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocks {
    Yes,
    No,
}

#[tokio::test]
async fn namespaces_and_dependents_are_deleted_as_in_a_cluster() {
    let plane = ControlPlane::builder().ephemeral().start().await.unwrap();
    let running = tokio::spawn(controllers::run(plane.config()));
    let client = plane.client().unwrap();
    tokio::join!(
        an_empty_namespace_is_deleted(&client),
        a_namespace_waits_for_the_finalizers_in_it(&client),
        dependents_are_deleted_with_their_last_owner(&client),
        foreground_deletion_deletes_dependents_first(&client),
        orphans_are_kept(&client),
        an_object_that_names_a_missing_owner_is_deleted(&client),
    );
    deletions_continue_after_a_restart(&plane, running).await;
    plane.stop().await.unwrap();
}

async fn an_empty_namespace_is_deleted(client: &Client) {
    let space = namespace(client, "empty").await.unwrap();
    let all = Api::<Namespace>::all(client.clone());
    all.delete(&space, &DeleteParams::default()).await.unwrap();
    until(async || all.get_opt(&space).await.unwrap().is_none()).await;
}

async fn a_namespace_waits_for_the_finalizers_in_it(client: &Client) {
    let space = namespace(client, "held").await.unwrap();
    let maps = maps(client, &space);
    let mut held = config_map("held");
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    for map in [held, config_map("free")] {
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    let all = Api::<Namespace>::all(client.clone());
    all.delete(&space, &DeleteParams::default()).await.unwrap();
    until(async || remaining(&all, &space).await.contains("1 configmaps")).await;
    assert!(maps.get_opt("free").await.unwrap().is_none());
    assert!(maps.get_opt("held").await.unwrap().is_some());
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let params = PatchParams::default();
    maps.patch("held", &params, &release).await.unwrap();
    until(async || all.get_opt(&space).await.unwrap().is_none()).await;
}

/// What the condition of the namespace says.
async fn remaining(all: &Api<Namespace>, space: &str) -> String {
    let status = all.get(space).await.unwrap().status.unwrap_or_default();
    let mut conditions = status.conditions.unwrap_or_default().into_iter();
    let found = conditions.find(|c| c.type_ == "NamespaceContentRemaining");
    found.and_then(|c| c.message).unwrap_or_default()
}

async fn dependents_are_deleted_with_their_last_owner(client: &Client) {
    let space = namespace(client, "owners").await.unwrap();
    let maps = maps(client, &space);
    let first = create(&maps, "first", vec![]).await;
    let second = create(&maps, "second", vec![]).await;
    let both = vec![owned_by(&first, Blocks::No), owned_by(&second, Blocks::No)];
    let child = create(&maps, "child", both).await;
    create(&maps, "grandchild", vec![owned_by(&child, Blocks::No)]).await;
    let background = DeleteParams::background();
    maps.delete("first", &background).await.unwrap();
    until(async || maps.get("child").await.unwrap().owner_references().len() == 1).await;
    maps.delete("second", &background).await.unwrap();
    until(async || maps.get_opt("grandchild").await.unwrap().is_none()).await;
    assert!(maps.get_opt("child").await.unwrap().is_none());
}

async fn foreground_deletion_deletes_dependents_first(client: &Client) {
    let space = namespace(client, "foreground").await.unwrap();
    let maps = maps(client, &space);
    let owner = create(&maps, "owner", vec![]).await;
    create(&maps, "child", vec![owned_by(&owner, Blocks::Yes)]).await;
    maps.delete("owner", &DeleteParams::foreground())
        .await
        .unwrap();
    until(async || maps.get_opt("owner").await.unwrap().is_none()).await;
    assert!(maps.get_opt("child").await.unwrap().is_none());
}

async fn orphans_are_kept(client: &Client) {
    let space = namespace(client, "orphan").await.unwrap();
    let maps = maps(client, &space);
    let owner = create(&maps, "owner", vec![]).await;
    create(&maps, "child", vec![owned_by(&owner, Blocks::Yes)]).await;
    maps.delete("owner", &DeleteParams::orphan()).await.unwrap();
    until(async || maps.get_opt("owner").await.unwrap().is_none()).await;
    let child = maps.get("child").await.unwrap();
    assert_eq!(child.owner_references(), []);
}

async fn an_object_that_names_a_missing_owner_is_deleted(client: &Client) {
    let space = namespace(client, "missing").await.unwrap();
    let maps = maps(client, &space);
    let present = create(&maps, "present", vec![]).await;
    let owner = OwnerReference {
        // The name is there, but it is another object.
        uid: "5e1f4d1e-0000-4000-8000-000000000001".to_owned(),
        ..owned_by(&present, Blocks::No)
    };
    create(&maps, "child", vec![owner]).await;
    until(async || maps.get_opt("child").await.unwrap().is_none()).await;
    assert!(maps.get_opt("present").await.unwrap().is_some());
}

/// What was deleted while no controller ran is found by the next one.
async fn deletions_continue_after_a_restart(
    plane: &ControlPlane,
    running: JoinHandle<Result<(), polyvirt_testkit::Error>>,
) {
    running.abort();
    let _ = running.await;
    let client = plane.client().unwrap();
    let space = namespace(&client, "late").await.unwrap();
    let maps = maps(&client, &space);
    let owner = create(&maps, "owner", vec![]).await;
    create(&maps, "child", vec![owned_by(&owner, Blocks::No)]).await;
    maps.delete("owner", &DeleteParams::background())
        .await
        .unwrap();
    let other = namespace(&client, "late").await.unwrap();
    let all = Api::<Namespace>::all(client.clone());
    all.delete(&other, &DeleteParams::default()).await.unwrap();
    let running = tokio::spawn(controllers::run(plane.config()));
    until(async || maps.get_opt("child").await.unwrap().is_none()).await;
    until(async || all.get_opt(&other).await.unwrap().is_none()).await;
    running.abort();
}

fn maps(client: &Client, space: &str) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), space)
}

async fn create(maps: &Api<ConfigMap>, name: &str, owners: Vec<OwnerReference>) -> ConfigMap {
    let map = ConfigMap {
        metadata: ObjectMeta {
            owner_references: Some(owners),
            ..config_map(name).metadata
        },
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &map).await.unwrap()
}

fn owned_by(owner: &ConfigMap, blocks: Blocks) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap(),
        block_owner_deletion: Some(blocks == Blocks::Yes),
        ..OwnerReference::default()
    }
}

#[track_caller]
fn until<F>(mut holds: F) -> impl Future<Output = ()>
where
    F: AsyncFnMut() -> bool,
{
    let caller = std::panic::Location::caller();
    async move {
        let start = Instant::now();
        while !holds().await {
            assert!(start.elapsed() < LIMIT, "not within {LIMIT:?}: {caller}");
            tokio::time::sleep(POLL).await;
        }
    }
}
