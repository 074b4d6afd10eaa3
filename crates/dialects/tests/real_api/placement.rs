//! Which cluster a Machine runs in.

use polyvirt_api::vitistack::{KubevirtConfig, Machine};
use polyvirt_testkit::namespace;
use serde_json::json;

use crate::world::{World, annotated, config, machine};

fn message(machine: &Machine) -> String {
    machine.status.as_ref().unwrap().message.clone().unwrap()
}

#[tokio::test]
async fn without_a_cluster_it_waits_for_one() {
    let mut world = World::empty("nowhere").await;
    world.start(|_| {}).await;
    world
        .apply(machine("web", json!({"instanceType": "medium"})))
        .await;
    let failed = world.fails("web", "KubevirtConfigNotFound").await;
    let text = "Machine web has no KubevirtConfig reference and no KubevirtConfigs are available";
    assert!(message(&failed).starts_with(text), "{}", message(&failed));
    world.cluster("east").await;
    world.machine("web", "Running").await;
}

#[tokio::test]
async fn two_clusters_need_a_word() {
    let mut world = World::empty("two").await;
    let (east, west) = (world.cluster("east").await, world.cluster("west").await);
    world.start(|_| {}).await;
    world
        .apply(machine("web", json!({"instanceType": "medium"})))
        .await;
    let text =
        "has no KubevirtConfig reference and 2 configs are available - cannot determine placement";
    let told = |m: &Machine| m.status.is_some() && message(m).contains(text);
    world.until::<Machine>("web", "is undecided", told).await;
    assert!(east.vms().is_empty() && west.vms().is_empty());
    let word = json!({"metadata": {"annotations": {"vitistack.io/kubevirt-config": "west"}}});
    world.merge::<Machine>("web", word).await;
    world.machine("web", "Running").await;
    assert_eq!((east.vms().len(), west.vms().len()), (0, 1));
}

#[tokio::test]
async fn a_silent_cluster_may_have_the_vm() {
    let mut world = World::empty("silent").await;
    let east = world.cluster("east").await;
    world.apply(config("north")).await;
    world.start(|_| {}).await;
    world
        .apply(machine("web", json!({"instanceType": "medium"})))
        .await;
    let told = |m: &Machine| m.status.is_some() && message(m).contains("do not answer: north");
    world.until::<Machine>("web", "waits for north", told).await;
    assert!(east.vms().is_empty());
    world.delete::<KubevirtConfig>("north").await;
    world.machine("web", "Running").await;
    assert_eq!(east.vms().len(), 1);
}

#[tokio::test]
async fn the_cluster_that_has_the_vm_is_found() {
    let mut world = World::empty("found").await;
    let (east, west) = (world.cluster("east").await, world.cluster("west").await);
    west.out_of_band().create_stranger("vm-web").expect("made");
    world.start(|_| {}).await;
    world
        .apply(machine("web", json!({"instanceType": "medium"})))
        .await;
    let found = world.machine("web", "Running").await;
    let annotations = found.metadata.annotations.unwrap();
    assert_eq!(annotations["vitistack.io/kubevirt-config"], "west");
    assert!(east.vms().is_empty());
}

#[tokio::test]
async fn a_default_goes_before_a_search_and_a_name_before_the_default() {
    let mut world = World::empty("default").await;
    let (east, west) = (world.cluster("east").await, world.cluster("west").await);
    world
        .start(|s| s.default_config = Some("east".to_owned()))
        .await;
    world
        .apply(machine("a", json!({"template": "small"})))
        .await;
    let name = json!({"vitistack.io/kubevirt-config": "west"});
    world
        .apply(annotated("b", json!({"template": "small"}), name))
        .await;
    world
        .apply(machine(
            "c",
            json!({"template": "small", "kubevirtConfigRef": "west"}),
        ))
        .await;
    for name in ["a", "b", "c"] {
        world.machine(name, "Running").await;
    }
    assert_eq!((east.vms().len(), west.vms().len()), (1, 2));
}

#[tokio::test]
async fn configs_have_a_namespace_of_their_own() {
    let mut world = World::empty("machines").await;
    let space = namespace(&world.client, "configs").await;
    world.configs = space.expect("a namespace");
    let east = world.cluster("east").await;
    world.start(|_| {}).await;
    world
        .apply(machine("web", json!({"instanceType": "medium"})))
        .await;
    world.machine("web", "Running").await;
    let provider = world.vm("web").await.spec.provider_ref;
    assert_eq!(provider.name, "east");
    assert_eq!(provider.namespace.as_ref(), Some(&world.configs));
    world.delete::<Machine>("web").await;
    world.gone::<Machine>("web").await;
    assert!(east.vms().is_empty());
}

#[tokio::test]
async fn a_config_that_does_not_exist_fails_the_machine() {
    let (world, east) = World::furnished("wrong-config").await;
    let name = json!({"vitistack.io/kubevirt-config": "north"});
    world
        .apply(annotated("web", json!({"template": "small"}), name))
        .await;
    let failed = world.fails("web", "KubevirtConfigNotFound").await;
    assert!(message(&failed).contains("There is no KubevirtConfig north"));
    assert_eq!(failed.status.unwrap().phase.as_deref(), Some("Failed"));
    assert!(east.vms().is_empty());
}

/// A VM stays where it is, and its Machine goes on to tell where that is.
#[tokio::test]
async fn another_name_does_not_move_a_vm() {
    let mut world = World::empty("moved").await;
    let (east, west) = (world.cluster("east").await, world.cluster("west").await);
    world.start(|_| {}).await;
    let place = json!({"vitistack.io/kubevirt-config": "east"});
    world
        .apply(annotated("web", json!({"template": "small"}), place))
        .await;
    world.machine("web", "Running").await;
    let word =
        |name: &str| json!({"metadata": {"annotations": {"vitistack.io/kubevirt-config": name}}});
    world.merge::<Machine>("web", word("west")).await;
    let told = world.fails("web", "InvalidSpec").await;
    let text = message(&told);
    assert!(text.contains("names KubevirtConfig west"), "{text}");
    assert!(
        text.contains("A VM does not move by an edit: name east again"),
        "{text}"
    );
    let status = told.status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.kubevirt_config_ref.as_deref(), Some("east"));
    let id = format!("kubevirt://east/{}/vm-web", world.namespace);
    assert_eq!(status.provider_id, Some(id));
    assert_eq!((east.vms().len(), west.vms().len()), (1, 0));
    world.merge::<Machine>("web", word("east")).await;
    let well = |m: &Machine| m.status.as_ref().unwrap().failure_reason.is_none();
    world.until::<Machine>("web", "is well again", well).await;
}

/// Where nothing was made yet, and the cluster says so, a Machine may go elsewhere.
#[tokio::test]
async fn a_machine_whose_vm_was_never_made_may_go_elsewhere() {
    let mut world = World::empty("never-made").await;
    let (east, west) = (world.cluster("east").await, world.cluster("west").await);
    east.faults()
        .parse("fail=Create:Exhausted:1000")
        .expect("a rule");
    world.start(|_| {}).await;
    let place = json!({"vitistack.io/kubevirt-config": "east"});
    world
        .apply(annotated("web", json!({"template": "small"}), place))
        .await;
    world.fails("web", "InsufficientResources").await;
    let word = json!({"metadata": {"annotations": {"vitistack.io/kubevirt-config": "west"}}});
    world.merge::<Machine>("web", word).await;
    let there = world.machine("web", "Running").await;
    let place = there.status.unwrap().kubevirt_config_ref;
    assert_eq!(place.as_deref(), Some("west"));
    assert_eq!((east.vms().len(), west.vms().len()), (0, 1));
}
