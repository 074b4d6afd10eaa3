//! A manager that dies again and again, in the middle of anything, makes each VM once and takes each down.

use std::time::Duration;

use polyvirt_api::vitistack::{Machine, NetworkConfiguration};
use polyvirt_provider_mock::Happened;
use serde_json::json;

use crate::world::{World, machine};

const MACHINES: usize = 6;
const DEATHS: u64 = 12;

async fn deaths(world: &World) {
    for life in 0..DEATHS {
        let doomed = world.doomed();
        tokio::time::sleep(Duration::from_millis(60 + 45 * life)).await;
        drop(doomed);
    }
}

#[tokio::test]
async fn deaths_cost_nothing_but_time() {
    let mut world = World::empty("deaths").await;
    let east = world.cluster("east").await;
    let names: Vec<_> = (0..MACHINES).map(|number| format!("m{number}")).collect();
    for name in &names {
        world
            .apply(machine(name, json!({"template": "small"})))
            .await;
    }
    deaths(&world).await;
    world.start(|_| {}).await;
    let mut macs = Vec::new();
    for name in &names {
        world.machine(name, "Running").await;
        let network = world.get::<NetworkConfiguration>(name).await;
        let mac = network.spec.network_interfaces[0].mac_address.clone();
        assert_eq!(world.vm(name).await.spec.networks[0].mac_address, mac);
        macs.push(mac);
    }
    macs.sort();
    macs.dedup();
    assert_eq!(macs.len(), MACHINES);
    let created = |east: &polyvirt_provider_mock::Mock| {
        let journal = east.journal();
        let made = journal.iter().filter(|e| e.what == Happened::Created);
        made.count()
    };
    assert_eq!((east.vms().len(), created(&east)), (MACHINES, MACHINES));
    world.stop();
    for name in &names {
        world.delete::<Machine>(name).await;
    }
    deaths(&world).await;
    world.start(|_| {}).await;
    for name in &names {
        world.gone::<Machine>(name).await;
        world.gone::<NetworkConfiguration>(name).await;
    }
    assert_eq!((east.vms().len(), created(&east)), (0, MACHINES));
}
