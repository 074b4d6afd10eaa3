//! A sick provider holds up its own VMs and nobody else's.

use std::time::{Duration, Instant};

use polyvirt_api::infra::Provider;
use polyvirt_provider_mock::{MockConfig, Rpc};
use serde_json::json;

use crate::support::look::{ready, runs};
use crate::support::world::eventually;
use crate::support::{World, vm};

#[tokio::test]
async fn a_provider_that_hangs_does_not_hold_up_another() {
    let mut world = World::empty("bulkhead").await;
    let _well = world.furnish(MockConfig::default()).await;
    let sick = world.hypervisor("sick", MockConfig::default()).await;
    world.at_most(4);
    world.start().await;
    // What waits for a connection is woken as background work, which has a part of the places only.
    world.until("sick", "is connected", ready::<Provider>).await;
    sick.faults().parse("hang=Create").expect("a rule");
    for number in 0..20 {
        let stuck = vm(&format!("stuck-{number}"));
        world
            .create(stuck.spec(json!({"providerRef": {"name": "sick"}})))
            .await;
    }
    let hangs = || sick.counts().of(Rpc::Create).calls >= 4;
    eventually("all places of the sick provider are taken", hangs).await;
    let begin = Instant::now();
    for number in 0..10 {
        world.create(vm(&format!("well-{number}"))).await;
    }
    for number in 0..10 {
        world.vm(&format!("well-{number}"), "runs", runs).await;
    }
    assert!(
        begin.elapsed() < Duration::from_secs(25),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(
        sick.counts().of(Rpc::Create).calls,
        4,
        "no more than its places"
    );
}

#[tokio::test]
async fn a_provider_that_does_not_answer_at_all_does_not_hold_up_another() {
    let mut world = World::empty("silent").await;
    let _well = world.furnish(MockConfig::default()).await;
    let silent = world.hypervisor("silent", MockConfig::default()).await;
    silent.faults().parse("hang=*").expect("a rule");
    world.start().await;
    world
        .create(vm("stuck").spec(json!({"providerRef": {"name": "silent"}})))
        .await;
    world.create(vm("well")).await;
    world.vm("well", "runs", runs).await;
    silent.faults().clear();
    world.vm("stuck", "runs", runs).await;
}
