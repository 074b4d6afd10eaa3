//! Hosts and HostPools: what they show, and that the scheduler goes by them.

use polyvirt_api::infra::{Host, HostHealth, HostPool, Provider, VirtualMachine};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::placement::{hosts, placed, refused};
use crate::support::look::runs;
use crate::support::world::{GLANCE, HYPERVISOR, Manifest, Object, PATIENCE};
use crate::support::{World, vm};

fn host(name: &str, spec: Value) -> Manifest<Host> {
    let all = json!({"providerRef": {"name": HYPERVISOR}});
    Manifest::new(name, all).changed(json!({ "spec": spec }))
}

async fn until<K: Object>(world: &World, name: &str, what: &str, holds: impl Fn(&K) -> bool) -> K {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = world.get::<K>(name).await;
        if holds(&found) {
            return found;
        }
        assert!(Instant::now() < deadline, "never: {what}: {found:?}");
        sleep(GLANCE).await;
    }
}

fn shows(host: &Host, health: HostHealth, vms: i32) -> bool {
    let status = host.status.clone().unwrap_or_default();
    status.health == Some(health) && status.bound_vms == Some(vms)
}

fn is_on(vm: &VirtualMachine, host: &str) -> bool {
    runs(vm) && vm.status.as_ref().and_then(|s| s.host.as_deref()) == Some(host)
}

#[tokio::test]
async fn a_host_shows_what_the_inventory_says_and_is_written_once() {
    let (world, mock) = World::furnished("hosts-show", hosts(2)).await;
    world
        .create(host(
            "host-1",
            json!({"endpoint": "qemu+ssh://host-1/system"}),
        ))
        .await;
    world.create(host("stranger", json!({}))).await;
    let known = |host: &Host| shows(host, HostHealth::Ready, 0);
    let first: Host = until(&world, "host-1", "is known", known).await;
    let status = first.status.unwrap_or_default();
    assert_eq!(
        (status.allocatable_cpu, status.allocatable_memory_mib),
        (Some(8), Some(4096))
    );
    let idle = status
        .conditions
        .iter()
        .find(|c| c.type_ == "FieldsHonoured");
    assert!(idle.is_some_and(|c| c.message.contains("spec.endpoint")));
    let unknown = |host: &Host| shows(host, HostHealth::Unknown, 0);
    until::<Host>(&world, "stranger", "is not known", unknown).await;
    world
        .create(placed(
            "web",
            json!({"nodeSelector": {"kubernetes.io/hostname": "host-1"}}),
        ))
        .await;
    world.vm("web", "runs", |vm| is_on(vm, "host-1")).await;
    let bound = |host: &Host| shows(host, HostHealth::Ready, 1);
    let before: Host = until(&world, "host-1", "counts its VM", bound).await;
    world.at_rest(&mock).await;
    let after = world.get::<Host>("host-1").await;
    assert_eq!(
        before.metadata.resource_version,
        after.metadata.resource_version
    );
}

#[tokio::test]
async fn a_host_that_is_not_schedulable_gets_no_vms_until_it_is() {
    let (world, _mock) = World::furnished("hosts-closed", hosts(1)).await;
    world
        .create(host(
            "host-1",
            json!({"schedulable": false, "labels": {"tier": "gold"}}),
        ))
        .await;
    world
        .create(placed("web", json!({"nodeSelector": {"tier": "gold"}})))
        .await;
    world.vm("web", "is refused", refused).await;
    world
        .edit::<Host>("host-1", json!({"spec": {"schedulable": true}}))
        .await;
    world.vm("web", "runs", |vm| is_on(vm, "host-1")).await;
}

#[tokio::test]
async fn a_pool_counts_its_hosts_and_the_vm_says_which_pool_it_is_in() {
    let (world, _mock) = World::furnished("hosts-pool", hosts(2)).await;
    let pool = json!({"providerRef": {"name": HYPERVISOR}, "strategy": "BinPack", "networks": [{"name": "br0"}]});
    world.create(Manifest::<HostPool>::new("fast", pool)).await;
    for (name, open) in [("host-1", true), ("host-2", false)] {
        world
            .create(host(
                name,
                json!({"poolRef": {"name": "fast"}, "schedulable": open}),
            ))
            .await;
    }
    let counted = |pool: &HostPool| {
        let status = pool.status.clone().unwrap_or_default();
        (
            status.total_hosts,
            status.ready_hosts,
            status.schedulable_hosts,
        ) == (Some(2), Some(2), Some(1))
    };
    let pool: HostPool = until(&world, "fast", "counts", counted).await;
    let all = pool.status.unwrap_or_default().conditions;
    let idle = all.iter().find(|c| c.type_ == "FieldsHonoured");
    assert!(idle.is_some_and(|c| c.message.contains("spec.networks")));
    world
        .edit::<Provider>(HYPERVISOR, json!({"spec": {"topology": "cluster"}}))
        .await;
    world.create(vm("web")).await;
    let web = world.vm("web", "runs", |vm| is_on(vm, "host-1")).await;
    let placement = web.status.and_then(|s| s.placement).expect("scheduled");
    assert_eq!(placement.pool.as_deref(), Some("fast"));
}

#[tokio::test]
async fn a_provider_of_topology_single_is_not_scheduled() {
    let (world, _mock) = World::furnished("hosts-single", hosts(2)).await;
    world
        .edit::<Provider>(HYPERVISOR, json!({"spec": {"topology": "single"}}))
        .await;
    world
        .create(placed("web", json!({"nodeSelector": {"tier": "none"}})))
        .await;
    let web = world.vm("web", "runs", runs).await;
    let status = web.status.unwrap_or_default();
    assert!(status.placement.is_none(), "{:?}", status.placement);
    let idle = status
        .conditions
        .iter()
        .find(|c| c.type_ == "FieldsHonoured");
    assert!(idle.is_some_and(|c| c.message.contains("spec.placement.nodeSelector")));
}
