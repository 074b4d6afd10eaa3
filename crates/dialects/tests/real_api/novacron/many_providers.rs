//! Several Providers: which one a VM goes to.

use std::time::Duration;

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
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(counts(&mocks), [2, 2]);
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
