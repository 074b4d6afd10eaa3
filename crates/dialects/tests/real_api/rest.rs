//! At rest nothing is written, whatever wakes the controller, and a new one writes nothing either.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::ListParams;
use polyvirt_api::infra::{Provider, VirtualMachine};
use polyvirt_api::vitistack::{KubevirtConfig, Machine, NetworkConfiguration};
use serde_json::json;

use crate::world::{Object, World, machine};

const REST: Duration = Duration::from_secs(6);

async fn versions<K: Object>(world: &World) -> Vec<(String, Option<String>)> {
    let list = world.api::<K>().list(&ListParams::default()).await.unwrap();
    let each = list.items.iter();
    each.map(|o| (o.name_any(), o.resource_version())).collect()
}

async fn all(world: &World) -> Vec<Vec<(String, Option<String>)>> {
    vec![
        versions::<Machine>(world).await,
        versions::<KubevirtConfig>(world).await,
        versions::<NetworkConfiguration>(world).await,
        versions::<VirtualMachine>(world).await,
        versions::<Provider>(world).await,
    ]
}

/// Until nothing was written for a while.
async fn settled(world: &World) -> Vec<Vec<(String, Option<String>)>> {
    for _ in 0..10 {
        let before = all(world).await;
        tokio::time::sleep(REST).await;
        if all(world).await == before {
            return before;
        }
    }
    panic!("it never comes to rest");
}

#[tokio::test]
async fn nothing_is_written_at_rest_nor_by_a_new_manager() {
    let (mut world, east) = World::furnished("rest").await;
    for name in ["a", "b", "c"] {
        world
            .apply(machine(name, json!({"template": "small"})))
            .await;
    }
    for name in ["a", "b", "c"] {
        world.machine(name, "Running").await;
    }
    let before = settled(&world).await;
    world.stop();
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.start(|_| {}).await;
    tokio::time::sleep(REST).await;
    // A Provider notes when it was reached again.
    let (now, then) = (all(&world).await, before);
    assert_eq!(now[..4], then[..4]);
    assert_eq!(east.vms().len(), 3);
}

#[tokio::test]
async fn a_vm_from_manifest_to_running_costs_few_writes() {
    let (world, _east) = World::furnished("writes").await;
    world
        .apply(machine("web", json!({"template": "small"})))
        .await;
    world.machine("web", "Running").await;
    settled(&world).await;
    let found = world.get::<Machine>("web").await;
    // The finalizer does not count as a generation, and nothing of ours changes the spec.
    assert_eq!(found.metadata.generation, Some(1));
    let mut text = String::new();
    let mut registry = prometheus_client::registry::Registry::default();
    world.metrics.register(&mut registry);
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        "kubevirt_operator_machines_total{phase=\"Running\",template=\"small\"} 1",
        "kubevirt_operator_virtual_machines_total{status=\"Running\"} 1",
        "kubevirt_operator_storage_provisioning_duration_seconds_count{storage_class=\"default\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

/// Every version of a Machine that anybody sees is one write.
#[tokio::test]
async fn a_machine_is_written_a_few_times_on_its_way() {
    use futures::StreamExt as _;
    use kube::runtime::watcher;
    let (world, _east) = World::furnished("counted").await;
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let (api, into) = (world.api::<Machine>(), seen.clone());
    let watch = tokio::spawn(async move {
        let mut stream = watcher(api, watcher::Config::default()).boxed();
        while let Some(event) = stream.next().await {
            if let Ok(watcher::Event::Apply(machine)) = event {
                let phase = machine.status.and_then(|s| s.phase);
                into.lock().unwrap().push(phase);
            }
        }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    world
        .apply(machine("web", json!({"template": "small"})))
        .await;
    world.machine("web", "Running").await;
    settled(&world).await;
    watch.abort();
    let phases = seen.lock().unwrap().clone();
    // The user's own, finalizer and annotation, Creating, Running; addresses may come later.
    assert!(phases.len() <= 6, "{phases:?}");
}
