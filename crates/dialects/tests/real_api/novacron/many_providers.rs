//! Several Providers: which one a VM goes to.

use std::time::Duration;

use polyvirt_api::novacron::Obstacle;
use polyvirt_contract::model::HostHealth;
use polyvirt_provider_mock::{HostPool, MockConfig};

use super::*;
use crate::world::pair;

/// Hosts that have room for two VMs of the README each.
fn hosts(count: u16, gpus: u32) -> MockConfig {
    MockConfig {
        hosts: HostPool {
            count,
            cpus: 16,
            memory_mib: 9 * 1024,
            gpus,
            ..HostPool::default()
        },
        ..MockConfig::default()
    }
}

async fn with(topic: &str, all: &[(&str, MockConfig)]) -> (World, Vec<Arc<Mock>>) {
    let mut world = World::empty(topic).await;
    catalogue(&world).await;
    let mut mocks = Vec::new();
    for (name, config) in all {
        mocks.push(world.provider_of(name, config.clone()).await);
    }
    world.start(|_| {}).await;
    (world, mocks)
}

fn counts(mocks: &[Arc<Mock>]) -> Vec<usize> {
    mocks.iter().map(|mock| mock.vms().len()).collect()
}

#[tokio::test]
async fn the_one_with_what_it_asks_for_is_chosen_and_then_it_stays() {
    let all = [("plain", hosts(3, 0)), ("with-gpus", hosts(1, 2))];
    let (world, mocks) = with("nova-best", &all).await;
    let gpu = json!({"devices": [{"type": "gpu", "count": 1}]});
    apply(&world, readme("my-vm", made_of(gpu))).await;
    stands(&world, "my-vm", "Running").await;
    assert_eq!(counts(&mocks), [0, 1]);
    let made = world.get::<infra::VirtualMachine>("my-vm").await;
    assert_eq!(made.spec.provider_ref.name, "with-gpus");
    patch(&world, "my-vm", json!({"spec": {"running": false}})).await;
    let vm = stands(&world, "my-vm", "Stopped").await;
    assert_eq!(condition(&vm, "Ready"), pair("False", "Stopped"));
    assert_eq!(counts(&mocks), [0, 1]);
}

#[tokio::test]
async fn an_annotation_goes_before_the_choice() {
    let all = [("one", hosts(1, 0)), ("two", hosts(1, 0))];
    let (world, mocks) = with("nova-named", &all).await;
    let mut object = readme("my-vm", json!({}));
    object["metadata"]["annotations"] = json!({"novacron.io/provider": "two"});
    apply(&world, object).await;
    stands(&world, "my-vm", "Running").await;
    assert_eq!(counts(&mocks), [0, 1]);
}

#[tokio::test]
async fn many_at_once_fill_all_and_one_too_many_waits_and_says_why() {
    let all = [("one", hosts(1, 0)), ("two", hosts(1, 0))];
    let (world, mocks) = with("nova-many", &all).await;
    for number in 1..=4 {
        apply(&world, readme(&format!("vm-{number}"), json!({}))).await;
    }
    for number in 1..=4 {
        stands(&world, &format!("vm-{number}"), "Running").await;
    }
    assert_eq!(counts(&mocks), [2, 2]);
    apply(&world, readme("late", json!({}))).await;
    let vm = says(&world, "late", "False", "NodeSelectionFailed").await;
    let status = vm.status.unwrap();
    let message = status.conditions[0].message.clone().unwrap_or_default();
    let why = "0/2 hosts are available: 2 too little memory";
    assert!(message.contains(why), "{message}");
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    let found = status.placement.expect("what is against each");
    let named: Vec<_> = found.hosts.iter().map(named).collect();
    let own = |provider: &str| format!("{}/{provider} host-1", world.namespace);
    assert_eq!(named, [own("one"), own("two")], "{found:?}");
    let memory = |o: &Obstacle| o.message.contains("memory");
    assert!(found.hosts.iter().all(memory), "{found:?}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(counts(&mocks), [2, 2]);
    world.delete::<VirtualMachine>("vm-1").await;
    let vm = stands(&world, "late", "Running").await;
    assert_eq!(vm.status.and_then(|s| s.placement), None, "one takes it");
}

fn named(obstacle: &Obstacle) -> String {
    let host = obstacle.host.as_deref().unwrap_or("-");
    format!("{} {host}", obstacle.provider)
}

#[tokio::test]
async fn one_that_does_not_answer_is_named_too() {
    let mut world = World::empty("nova-away").await;
    catalogue(&world).await;
    world.provider_of("small", hosts(1, 0)).await;
    let away = infra::Provider::new(
        "away",
        serde_json::from_value(json!({
            "type": "libvirt", "endpoint": "tls://127.0.0.1:1", "runtime": {"mode": "Remote"},
        }))
        .unwrap(),
    );
    world.apply(away).await;
    world.start(|_| {}).await;
    let large = made_of(json!({"resources": {"memory": "400Gi"}}));
    apply(&world, readme("my-vm", large)).await;
    let vm = says(&world, "my-vm", "False", "NodeSelectionFailed").await;
    let found = vm.status.unwrap().placement.expect("what is against each");
    let of = |name: &str| {
        let name = format!("{}/{name}", world.namespace);
        found.hosts.iter().find(|o| o.provider == name)
    };
    assert!(of("small").is_some_and(|o| o.host.is_some()), "{found:?}");
    assert!(of("away").is_some_and(|o| o.host.is_none()), "{found:?}");
}

#[tokio::test]
async fn a_closed_one_is_passed_over() {
    let all = [("closed", hosts(1, 0)), ("open", hosts(1, 0))];
    let (world, mocks) = with("nova-closed", &all).await;
    let closed = mocks[0].out_of_band();
    closed
        .host_health("host-1", HostHealth::Cordoned)
        .expect("a host");
    apply(&world, readme("my-vm", json!({}))).await;
    stands(&world, "my-vm", "Running").await;
    assert_eq!(counts(&mocks), [0, 1]);
}

/// The one that it was given may fill up before the VM is made there.
#[tokio::test]
async fn one_that_its_provider_does_not_take_after_all_goes_to_another() {
    let all = [("one", hosts(1, 0)), ("two", hosts(1, 0))];
    let (world, mocks) = with("nova-again", &all).await;
    for mock in &mocks {
        let closed = mock.out_of_band();
        closed
            .host_health("host-1", HostHealth::Cordoned)
            .expect("a host");
    }
    let mut object = readme(
        "my-vm",
        made_of(json!({"nodeSelector": {"kubernetes.io/hostname": "host-1"}})),
    );
    object["metadata"]["annotations"] = json!({"novacron.io/provider": "one"});
    apply(&world, object).await;
    world
        .until("my-vm", "found no host", |vm: &infra::VirtualMachine| {
            let conditions = vm.status.as_ref().map(|s| s.conditions.clone());
            let ready = conditions
                .unwrap_or_default()
                .into_iter()
                .find(|c| c.type_ == "Ready");
            ready.is_some_and(|c| c.reason == "Unschedulable")
        })
        .await;
    let open = mocks[1].out_of_band();
    open.host_health("host-1", HostHealth::Ready)
        .expect("a host");
    patch(
        &world,
        "my-vm",
        json!({"metadata": {"annotations": {"novacron.io/provider": null}}}),
    )
    .await;
    stands(&world, "my-vm", "Running").await;
    assert_eq!(counts(&mocks), [0, 1]);
}
