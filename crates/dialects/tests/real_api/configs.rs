//! KubevirtConfigs and their Providers.

use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use polyvirt_api::infra::Provider;
use polyvirt_api::vitistack::{KubevirtConfig, Machine};
use polyvirt_dialects::vitistack::settings::ConfigsNamespace;
use serde_json::json;

use crate::world::{PATIENCE, World, config, machine};

fn stands(phase: &'static str, status: &'static str) -> impl Fn(&KubevirtConfig) -> bool {
    move |config| {
        let now = config.status.clone().unwrap_or_default();
        now.phase.as_deref() == Some(phase) && now.status.as_deref() == Some(status)
    }
}

#[tokio::test]
async fn a_config_has_a_provider_and_tells_how_it_is() {
    let (world, _east) = World::furnished("config").await;
    let ready = world
        .until("east", "is ready", stands("Ready", "Connected"))
        .await;
    assert_eq!(ready.status.unwrap().name.as_deref(), Some("east"));
    let provider = world.get::<Provider>("east").await;
    let spec = serde_json::to_value(&provider.spec).unwrap();
    assert_eq!(
        (&spec["type"], &spec["runtime"]["mode"]),
        (&json!("kubevirt"), &json!("InProcess"))
    );
    assert_eq!(
        spec["credentialSecretRef"],
        json!({"name": "east-kubeconfig"})
    );
    world.delete::<KubevirtConfig>("east").await;
    world.gone::<Provider>("east").await;
}

#[tokio::test]
async fn a_cluster_that_cannot_be_reached_is_told() {
    let mut world = World::empty("unreachable").await;
    world.apply(config("north")).await;
    world.start(|_| {}).await;
    let failed = world
        .until("north", "has failed", stands("Failed", "Disconnected"))
        .await;
    let message = failed.status.unwrap().message.unwrap();
    assert!(
        message.contains("This test knows no such cluster"),
        "{message}"
    );
}

/// It was ignored in silence: no phase, no event.
#[tokio::test]
async fn a_config_in_a_namespace_that_is_not_read_says_so() {
    let mut world = World::empty("unread").await;
    world.apply(config("east")).await;
    let elsewhere = ConfigsNamespace::One("elsewhere".to_owned());
    world
        .start(|settings| settings.configs_namespace = elsewhere)
        .await;
    let unread = world
        .until(
            "east",
            "says that it is not read",
            stands("Failed", "Disconnected"),
        )
        .await;
    let message = unread.status.unwrap().message.unwrap();
    assert!(
        message.contains("namespace elsewhere only") && message.contains(&world.namespace),
        "{message}"
    );
    let begin = std::time::Instant::now();
    loop {
        let events = world.api::<Event>().list(&ListParams::default()).await;
        let mut events = events.expect("a list").items.into_iter();
        if events.any(|e| e.reason.as_deref() == Some("NamespaceNotRead")) {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "there is no event");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let providers = world.api::<Provider>().list(&ListParams::default()).await;
    assert!(providers.expect("a list").items.is_empty());
}

#[tokio::test]
async fn a_provider_of_somebody_else_is_not_taken_over() {
    let mut world = World::empty("foreign-provider").await;
    let object = json!({"metadata": {"name": "east"}, "spec": {"type": "mock", "runtime": {"mode": "InProcess"}}});
    world
        .apply(serde_json::from_value::<Provider>(object).unwrap())
        .await;
    world.apply(config("east")).await;
    world.start(|_| {}).await;
    let failed = world
        .until("east", "conflicts", stands("Failed", "Disconnected"))
        .await;
    assert!(
        failed
            .status
            .unwrap()
            .message
            .unwrap()
            .contains("was not made of this KubevirtConfig")
    );
    let spec = serde_json::to_value(world.get::<Provider>("east").await.spec).unwrap();
    assert_eq!(spec["type"], "mock");
}

/// Deleted by mistake, or brought back from a backup: its Machines run on, and are served again.
#[tokio::test]
async fn a_config_that_is_made_anew_has_its_machines_back() {
    let (world, east) = World::furnished("anew").await;
    world
        .apply(machine("web", json!({"template": "small"})))
        .await;
    world.machine("web", "Running").await;
    let held = |p: &Provider| {
        p.metadata
            .finalizers
            .as_ref()
            .is_some_and(|f| !f.is_empty())
    };
    let before = world.until::<Provider>("east", "is in use", held).await;
    world.delete::<KubevirtConfig>("east").await;
    let lost = world.fails("web", "KubevirtConfigNotFound").await;
    let status = lost.status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    let there = world.get::<Provider>("east").await.metadata;
    assert_eq!(
        (&there.uid, there.deletion_timestamp),
        (&before.metadata.uid, None)
    );
    // As the garbage collector does where no webhook keeps it from that.
    world.delete::<Provider>("east").await;
    let going = |p: &Provider| p.metadata.deletion_timestamp.is_some();
    world.until::<Provider>("east", "is to go", going).await;

    world.apply(config("east")).await;
    world
        .until("east", "is ready", stands("Ready", "Connected"))
        .await;
    assert_ne!(
        world.get::<Provider>("east").await.metadata.uid,
        before.metadata.uid
    );
    let well = |m: &Machine| m.status.as_ref().unwrap().failure_reason.is_none();
    world.until::<Machine>("web", "is well again", well).await;
    let power = json!({"metadata": {"annotations": {"vitistack.io/power-state": "Off"}}});
    world.merge::<Machine>("web", power).await;
    world.machine("web", "Stopped").await;
    assert_eq!(east.vms().len(), 1, "the VM is the one that it was");
    world.delete::<Machine>("web").await;
    world.gone::<Machine>("web").await;
    assert!(east.vms().is_empty());
}

/// A KubevirtConfig that is deleted for good: its Machines can still be deleted, and then its Provider goes.
#[tokio::test]
async fn machines_of_a_config_that_is_gone_can_be_deleted() {
    let (world, east) = World::furnished("forsaken").await;
    world
        .apply(machine("web", json!({"template": "small"})))
        .await;
    world.machine("web", "Running").await;
    world.delete::<KubevirtConfig>("east").await;
    world.fails("web", "KubevirtConfigNotFound").await;
    world.delete::<Machine>("web").await;
    world.gone::<Machine>("web").await;
    assert!(east.vms().is_empty());
    world.gone::<Provider>("east").await;
}

/// A Provider that could not be deleted, for a webhook keeps what is in use, belongs to the next KubevirtConfig of the name.
#[tokio::test]
async fn a_provider_that_was_kept_is_taken_over() {
    let mut world = World::empty("kept").await;
    world.cluster("east").await;
    let owner = json!([{
        "apiVersion": "vitistack.io/v1alpha1", "kind": "KubevirtConfig", "name": "east",
        "uid": "0b0d3b9a-0000-4000-8000-000000000000", "controller": true,
    }]);
    let object = json!({
        "metadata": {"name": "east", "ownerReferences": owner},
        "spec": {"type": "kubevirt", "runtime": {"mode": "InProcess"}},
    });
    let kept: Provider = serde_json::from_value(object).unwrap();
    let kept = world.apply(kept).await;
    world.start(|_| {}).await;
    let config = world
        .until("east", "is ready", stands("Ready", "Connected"))
        .await;
    let provider = world.get::<Provider>("east").await;
    assert_eq!(provider.metadata.uid, kept.metadata.uid);
    let owners = provider.metadata.owner_references.unwrap();
    let ours = |o: &_| -> bool {
        let o: &k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference = o;
        Some(&o.uid) == config.metadata.uid.as_ref()
    };
    assert!(owners.iter().any(ours), "{owners:?}");
}

/// One after the other: the Machine runs in each namespace's own cluster, and the names of clusters are told in full.
#[tokio::test]
async fn configs_of_several_namespaces_count_where_the_manager_says_so() {
    use polyvirt_dialects::vitistack::settings::ConfigsNamespace;
    let mut world = World::empty("several").await;
    let other = polyvirt_testkit::namespace(&world.client, "several-b").await;
    let first = world.configs.clone();
    let east = world.cluster("east").await;
    world.configs = other.expect("a namespace");
    world.cluster("north").await;
    let second = world.configs.clone();
    world
        .start(|s| s.configs_namespace = ConfigsNamespace::Every)
        .await;
    for (name, place) in [
        ("a", "east"),
        ("b", "north"),
        ("c", &format!("{second}/north")),
    ] {
        let spec = json!({"template": "small", "kubevirtConfigRef": place});
        world.apply(machine(name, spec)).await;
        world.machine(name, "Running").await;
    }
    assert_eq!(east.vms().len(), 1);
    let provider = world.vm("b").await.spec.provider_ref;
    assert_eq!(provider.namespace.as_ref(), Some(&second));
    assert_ne!(first, second);
}
