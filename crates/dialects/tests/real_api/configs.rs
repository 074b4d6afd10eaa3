//! KubevirtConfigs and their Providers.

use polyvirt_api::infra::Provider;
use polyvirt_api::vitistack::KubevirtConfig;
use serde_json::json;

use crate::world::{World, config};

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
