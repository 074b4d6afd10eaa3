//! A move that is stopped, and what dies on the way: replies, tasks, providers, managers.

use std::time::Duration;

use polyvirt_api::infra::{MigrationPhase, VMMigration, VirtualMachine};
use polyvirt_plan::Reason;
use polyvirt_provider_mock::Rpc;
use serde_json::json;
use tokio::time::sleep;

use crate::moves::{at, elsewhere, host, is, migration, moves, slow, under_way, with_vm};
use crate::support::fleet::Route;
use crate::support::life::Doomed;
use crate::support::look::{condition, runs, says};
use crate::support::wire::{Services, WireServer};
use crate::support::world::{HYPERVISOR, eventually};
use crate::support::{World, message, plane, vm};

#[tokio::test]
async fn a_move_is_stopped_and_the_vm_goes_on_where_it_was() {
    let (world, mock) = with_vm("move-cancel", Duration::from_secs(60)).await;
    let (from, to) = (host(&mock), elsewhere(&mock));
    world.create(migration("m", json!({ "host": to }))).await;
    under_way(&world, "m").await;
    world
        .edit::<VMMigration>("m", json!({"spec": {"cancel": true}}))
        .await;
    let over = world
        .until("m", "is stopped", is(MigrationPhase::Cancelled))
        .await;
    let told = message(&over).to_owned();
    assert!(
        told.contains(&format!("goes on where it was, on {from}")),
        "{told}"
    );
    world.vm("web", "runs", runs).await;
    assert_eq!((host(&mock), moves(&mock)), (from, 0));
}

#[tokio::test]
async fn the_object_goes_when_its_move_is_stopped() {
    let (world, mock) = with_vm("move-delete", Duration::from_secs(60)).await;
    let from = host(&mock);
    let to = elsewhere(&mock);
    world.create(migration("m", json!({ "host": to }))).await;
    under_way(&world, "m").await;
    world.delete::<VMMigration>("m").await;
    world.gone::<VMMigration>("m").await;
    world.vm("web", "runs", runs).await;
    assert_eq!((host(&mock), moves(&mock)), (from, 0));
    // Once to stop it, and once more if a request that was on its way had to be waited for.
    let asked = mock.counts().of(Rpc::CancelMigration).calls;
    assert!((1..=2).contains(&asked), "{asked}");
}

#[tokio::test]
async fn a_vm_that_is_deleted_on_its_way_goes() {
    let (world, mock) = with_vm("move-gone", Duration::from_secs(60)).await;
    let to = elsewhere(&mock);
    world.create(migration("m", json!({ "host": to }))).await;
    under_way(&world, "m").await;
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    assert!(mock.vms().is_empty());
    let over = world
        .until("m", "is over", is(MigrationPhase::Cancelled))
        .await;
    assert!(
        message(&over).contains("being deleted"),
        "{}",
        message(&over)
    );
    assert_eq!(moves(&mock), 0);
}

#[tokio::test]
async fn a_reply_that_is_lost_and_a_task_that_is_forgotten_change_nothing() {
    for fault in [
        "lose=Migrate:Timeout:2",
        "drop=Migrate:1",
        "forget=1",
        "lose=TaskStatus:Unavailable:2",
    ] {
        let (world, mock) = with_vm("move-lost", Duration::from_secs(1)).await;
        let to = elsewhere(&mock);
        mock.faults().parse(fault).expect("a fault");
        world.create(migration("m", json!({ "host": to }))).await;
        let done = |m: &VMMigration| at(m) == Some(MigrationPhase::Ready);
        world.until("m", fault, done).await;
        assert_eq!((host(&mock), moves(&mock)), (to, 1), "{fault}");
        world.vm("web", "runs", runs).await;
    }
}

#[tokio::test]
async fn a_provider_that_dies_on_the_way_is_asked_again() {
    let (world, mock) = with_vm("move-crash", Duration::from_secs(2)).await;
    let to = elsewhere(&mock);
    world.create(migration("m", json!({ "host": to }))).await;
    under_way(&world, "m").await;
    mock.restart();
    world
        .until("m", "is there", is(MigrationPhase::Ready))
        .await;
    assert_eq!((host(&mock), moves(&mock)), (to, 1));
    assert!(mock.counts().of(Rpc::Migrate).calls >= 2);
}

#[tokio::test]
async fn a_failure_is_tried_again_as_the_policy_says() {
    let (world, mock) = with_vm("move-retry", Duration::from_millis(300)).await;
    let to = elsewhere(&mock);
    mock.faults()
        .parse("fail=Migrate:Exhausted:2")
        .expect("a fault");
    let options =
        json!({"retryPolicy": {"maxRetries": 2, "retryDelay": "1s", "backoffMultiplier": 1}});
    let stubborn = migration("m", json!({ "host": to })).spec(json!({ "options": options }));
    world.create(stubborn).await;
    let done = world
        .until("m", "is there", is(MigrationPhase::Ready))
        .await;
    assert_eq!(done.status.and_then(|s| s.retry_count), Some(2));
    assert_eq!((host(&mock), moves(&mock)), (to, 1));
    mock.faults()
        .parse("fail=Migrate:Exhausted:1")
        .expect("a fault");
    let meek = migration("n", json!({"host": elsewhere(&mock)}));
    world.create(meek).await;
    let failed = world
        .until("n", "fails at once", is(MigrationPhase::Failed))
        .await;
    assert!(says(&failed, "Ready", "False", Reason::MigrationFailed));
}

/// A manager is killed every so often while moves are made; each ends as it says, and there is one VM.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn managers_that_die_leave_one_vm_and_a_true_end() {
    let world = World::empty("move-deaths").await;
    let mock = world.furnish(slow(Duration::from_millis(700))).await;
    world.create(vm("web")).await;
    let shared = plane::everybodys().await;
    let first = Doomed::start(shared, world.config(), world.fleet.clone());
    world.vm("web", "runs", runs).await;
    drop(first);
    for number in 0..4 {
        let to = elsewhere(&mock);
        let name = format!("m{number}");
        world.create(migration(&name, json!({ "host": to }))).await;
        for life in 0..6_u64 {
            let doomed = Doomed::start(shared, world.config(), world.fleet.clone());
            sleep(Duration::from_millis(150 + 170 * life)).await;
            doomed.kill();
        }
        let last = Doomed::start(shared, world.config(), world.fleet.clone());
        let ended = |m: &VMMigration| at(m) == Some(MigrationPhase::Ready);
        world.until(&name, "is there", ended).await;
        last.kill();
        assert_eq!((host(&mock), moves(&mock)), (to, number + 1));
    }
    let _last = Doomed::start(shared, world.config(), world.fleet.clone());
    world.vm("web", "runs", runs).await;
    assert_eq!(mock.counts().of(Rpc::Create).mutations, 1);
}

/// The VM's provider is behind a port: the same over the wire.
#[tokio::test]
async fn a_move_and_its_end_over_the_wire() {
    let mut world = World::empty("move-wire").await;
    let mock = world.furnish(slow(Duration::from_secs(60))).await;
    let server = WireServer::start(mock.clone(), Services::Both);
    world
        .fleet
        .put(HYPERVISOR, Route::Wire(server.address.to_string()));
    world.start().await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    let from = host(&mock);
    world
        .create(migration("m", json!({"host": elsewhere(&mock)})))
        .await;
    under_way(&world, "m").await;
    world
        .edit::<VMMigration>("m", json!({"spec": {"cancel": true}}))
        .await;
    let over = world
        .until("m", "is stopped", is(MigrationPhase::Cancelled))
        .await;
    assert!(condition(&over, "Ready").is_some());
    eventually("it is where it was", || host(&mock) == from).await;
}
