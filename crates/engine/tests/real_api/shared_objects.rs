//! Classes and networks: what they are good for, who uses them, and that they stay while somebody does.

use polyvirt_api::infra::{VMClass, VMNetworkAttachment, VirtualMachine};
use polyvirt_plan::Reason;
use polyvirt_provider_mock::MockConfig;
use serde_json::json;

use crate::support::look::{condition, ready, runs, says};
use crate::support::world::HYPERVISOR;
use crate::support::{SMALL, World, network, vm};

fn used_by(class: &VMClass) -> Option<i32> {
    class.status.as_ref().and_then(|status| status.used_by_vms)
}

#[tokio::test]
async fn a_class_tells_who_uses_it_and_where_it_works() {
    let (world, _mock) = World::furnished("class", MockConfig::default()).await;
    world.create(vm("a")).await;
    world.create(vm("b")).await;
    let both = |class: &VMClass| ready(class) && used_by(class) == Some(2);
    let class = world.until(SMALL, "is used by two", both).await;
    let status = class.status.unwrap_or_default();
    assert_eq!(status.supported_providers, [HYPERVISOR]);
    assert!(status.validation_results[HYPERVISOR].valid);
    world.delete::<VirtualMachine>("b").await;
    world
        .until(SMALL, "is used by one", |class| used_by(class) == Some(1))
        .await;
}

#[tokio::test]
async fn a_class_warns_of_what_a_provider_ignores() {
    let (world, _mock) = World::furnished("class-warns", MockConfig::default()).await;
    let spec = json!({"spec": {"performanceProfile": {"nestedVirtualization": true}}});
    world.edit::<VMClass>(SMALL, spec).await;
    let warned = |class: &VMClass| {
        let results = class
            .status
            .as_ref()
            .map(|status| &status.validation_results);
        let result = results.and_then(|results| results.get(HYPERVISOR));
        result.is_some_and(|r| {
            r.warnings
                .iter()
                .any(|w| w.contains("nestedVirtualization"))
        })
    };
    let class = world.until(SMALL, "warns", warned).await;
    assert!(
        class
            .status
            .unwrap_or_default()
            .supported_providers
            .is_empty()
    );
}

#[tokio::test]
async fn a_class_in_use_is_not_deleted_and_says_by_whom() {
    let (world, _mock) = World::furnished("class-held", MockConfig::default()).await;
    world.create(vm("web")).await;
    world
        .until(SMALL, "is used", |class| used_by(class) == Some(1))
        .await;
    world.delete::<VMClass>(SMALL).await;
    let blocked = |class: &VMClass| says(class, "Deleting", "True", Reason::InUse);
    let class = world.until(SMALL, "is held", blocked).await;
    let text = &condition(&class, "Deleting").expect("told").message;
    assert!(text.contains(&format!("{}/web", world.namespace)), "{text}");
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VMClass>(SMALL).await;
}

#[tokio::test]
async fn a_class_that_nobody_uses_goes_at_once() {
    let (world, _mock) = World::furnished("class-free", MockConfig::default()).await;
    world.until(SMALL, "is looked at", ready::<VMClass>).await;
    world.delete::<VMClass>(SMALL).await;
    world.gone::<VMClass>(SMALL).await;
}

#[tokio::test]
async fn a_network_tells_who_is_connected_and_with_which_address() {
    let (world, _mock) = World::furnished("network", MockConfig::default()).await;
    world.create(network("lan")).await;
    let card = json!({"name": "eth0", "networkRef": {"name": "lan"}, "ipAddress": "192.0.2.9", "prefix": 24});
    world
        .create(vm("web").spec(json!({"networks": [card]})))
        .await;
    let connected = |n: &VMNetworkAttachment| {
        ready(n) && n.status.as_ref().and_then(|s| s.connected_vms) == Some(1)
    };
    let lan = world.until("lan", "has one VM", connected).await;
    let status = lan.status.unwrap_or_default();
    assert_eq!(status.available_on, [HYPERVISOR]);
    assert_eq!(status.ip_allocations.len(), 1);
    let address = &status.ip_allocations[0];
    assert_eq!(
        (address.ip.as_str(), &address.vm),
        ("192.0.2.9", &format!("{}/web", world.namespace))
    );
}

#[tokio::test]
async fn a_network_in_use_is_not_deleted_and_goes_when_it_is_free() {
    let (world, _mock) = World::furnished("network-held", MockConfig::default()).await;
    world.create(network("lan")).await;
    let card = json!({"name": "eth0", "networkRef": {"name": "lan"}});
    world
        .create(vm("web").spec(json!({"networks": [card]})))
        .await;
    world.vm("web", "runs", runs).await;
    let connected =
        |n: &VMNetworkAttachment| n.status.as_ref().and_then(|s| s.connected_vms) == Some(1);
    world.until("lan", "is used", connected).await;
    world.delete::<VMNetworkAttachment>("lan").await;
    let blocked = |n: &VMNetworkAttachment| says(n, "Deleting", "True", Reason::InUse);
    world.until("lan", "is held", blocked).await;
    world.edit_spec("web", json!({"networks": null})).await;
    world.gone::<VMNetworkAttachment>("lan").await;
    world.vm("web", "runs without it", runs).await;
}
