//! A VM moves once to where it is to go, whatever dies; and nobody changes it on its way.

use std::sync::Arc;
use std::time::Duration;

use polyvirt_api::infra::{MigrationPhase, VMMigration, VMPhase, VirtualMachine};
use polyvirt_contract::model::PowerState;
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{Happened, HostPool, Mock, MockConfig, Offer, Rpc, TaskMode, Times};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::support::look::{runs, says};
use crate::support::world::{HYPERVISOR, Manifest};
use crate::support::{World, message, phase, vm};

/// A hypervisor of three hosts whose moves take this long.
pub fn slow(time: Duration) -> MockConfig {
    MockConfig {
        tasks: TaskMode::Async,
        times: Times {
            reconfigure: time,
            ..Times::default()
        },
        hosts: HostPool {
            count: 3,
            cpus: 8,
            memory_mib: 65_536,
            ..HostPool::default()
        },
        ..MockConfig::default()
    }
}

pub async fn with_vm(topic: &str, time: Duration) -> (World, Arc<Mock>) {
    let (world, mock) = World::furnished(topic, slow(time)).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    (world, mock)
}

pub fn migration(name: &str, target: Value) -> Manifest<VMMigration> {
    let spec = json!({
        "source": {"vmRef": {"name": "web"}},
        "target": {"providerRef": {"name": HYPERVISOR}},
    });
    Manifest::new(name, spec).spec(json!({ "target": target }))
}

pub fn at(migration: &VMMigration) -> Option<MigrationPhase> {
    migration.status.as_ref().and_then(|s| s.phase)
}

pub fn is(wanted: MigrationPhase) -> impl Fn(&VMMigration) -> bool {
    move |migration| at(migration) == Some(wanted)
}

pub fn host(mock: &Mock) -> String {
    let vms = mock.vms();
    assert_eq!(vms.len(), 1, "one VM and no other: {vms:?}");
    vms[0].host.clone()
}

/// A host that the VM is not on.
pub fn elsewhere(mock: &Mock) -> String {
    let here = host(mock);
    let mut all = ["host-1", "host-2", "host-3"].into_iter();
    all.rfind(|name| *name != here).expect("one").to_owned()
}

pub fn moves(mock: &Mock) -> usize {
    let all = mock.journal().into_iter();
    all.filter(|entry| entry.what == Happened::Migrated).count()
}

pub async fn under_way(world: &World, name: &str) -> VMMigration {
    world
        .until(name, "is under way", |m: &VMMigration| {
            let task = m.status.as_ref().and_then(|s| s.task_ref.as_ref());
            at(m) == Some(MigrationPhase::Transferring) && task.is_some()
        })
        .await
}

/// A host that is named is looked at before anything is asked of it: until it can take the VM, the VM is free for all else.
#[tokio::test]
async fn a_host_that_is_named_must_be_there_and_have_the_memory() {
    let mut config = slow(Duration::ZERO);
    config.hosts.memory_mib = 3000;
    let (world, mock) = World::furnished("named", config).await;
    world
        .create(vm("web").spec(json!({"placement": {"host": "host-1"}})))
        .await;
    world
        .create(vm("big").spec(json!({"placement": {"host": "host-2"}})))
        .await;
    for name in ["web", "big"] {
        world.vm(name, "runs", runs).await;
    }
    let pending = MigrationPhase::Pending;
    for (name, target, why, phase) in [
        ("m1", "host-9", "There is no host", MigrationPhase::Failed),
        ("m2", "host-2", "too little memory", pending),
    ] {
        world
            .create(migration(name, json!({ "host": target })))
            .await;
        let told = |m: &VMMigration| message(m).contains(why);
        let refused = world.until(name, "is refused", told).await;
        assert_eq!(at(&refused), Some(phase), "{target}");
        world.delete::<VMMigration>(name).await;
    }
    assert_eq!(moves(&mock), 0);
    world
        .create(migration("m3", json!({ "host": "host-3" })))
        .await;
    world
        .until("m3", "is there", is(MigrationPhase::Ready))
        .await;
}

#[tokio::test]
async fn a_vm_moves_to_the_host_that_is_named_and_all_is_told() {
    let (world, mock) = with_vm("move", Duration::from_secs(7)).await;
    let (from, to) = (host(&mock), elsewhere(&mock));
    world.create(migration("m", json!({ "host": to }))).await;
    let begun = under_way(&world, "m").await;
    let moved = begun
        .status
        .clone()
        .expect("a status")
        .host_move
        .expect("a move");
    assert_eq!(moved.source_host.as_deref(), Some(from.as_str()));
    assert_eq!(moved.target_host.as_deref(), Some(to.as_str()));
    let moving = |vm: &VirtualMachine| phase(vm) == Some(VMPhase::Migrating);
    let machine = world.vm("web", "moves", moving).await;
    assert!(
        says(&machine, "Ready", "True", Reason::Migrating),
        "it serves"
    );
    let progress = |m: &VMMigration| {
        let status = m.status.clone().unwrap_or_default();
        status
            .progress
            .and_then(|p| p.percentage)
            .is_some_and(|p| p > 30)
    };
    let half = world.until("m", "is half there", progress).await;
    let moved = half.status.expect("a status").host_move.expect("a move");
    assert!(moved.remaining_bytes.is_some() && moved.expected_downtime_ms == Some(300));
    let done = world
        .until("m", "is there", is(MigrationPhase::Ready))
        .await;
    let status = done.status.clone().expect("a status");
    assert!(status.start_time <= status.completion_time);
    assert_eq!(status.task_ref, None);
    assert_eq!(status.host_move.expect("a move").downtime_ms, Some(120));
    assert!(message(&done).contains("120 ms"), "{}", message(&done));
    assert_eq!((host(&mock), moves(&mock)), (to.clone(), 1));
    let there = |vm: &VirtualMachine| {
        runs(vm) && vm.status.as_ref().and_then(|s| s.host.clone()) == Some(to.clone())
    };
    world.vm("web", "runs there", there).await;
    for reason in [Reason::Migrating, Reason::Migrated] {
        world.told("m", reason).await;
    }
    let metrics = world.metrics();
    let counted = r#"virtrigaud_vm_migrations_total{provider_type="mock",result="moved"} 1"#;
    assert!(metrics.contains(counted), "{metrics}");
    assert!(
        metrics.contains("virtrigaud_vm_migration_downtime_seconds_count"),
        "{metrics}"
    );
}

#[tokio::test]
async fn at_rest_a_move_costs_nothing_and_on_its_way_few_writes() {
    let (mut world, mock) = with_vm("move-rest", Duration::from_secs(11)).await;
    let to = elsewhere(&mock);
    world.create(migration("m", json!({ "host": to }))).await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..2000 {
        let now: VMMigration = world.get("m").await;
        seen.insert(now.metadata.resource_version.clone());
        if at(&now) == Some(MigrationPhase::Ready) {
            break;
        }
        sleep(Duration::from_millis(25)).await;
    }
    // Made, claimed, begun, its task with the first figures, two more of them, and its end.
    assert!(seen.len() <= 7, "{} writes in 11 s: {seen:?}", seen.len());
    world.at_rest(&mock).await;
    let versions = |world: &World| {
        let (vms, moves) = (world.api::<VirtualMachine>(), world.api::<VMMigration>());
        async move {
            let vm = vms
                .get("web")
                .await
                .expect("a VM")
                .metadata
                .resource_version;
            (
                vm,
                moves
                    .get("m")
                    .await
                    .expect("a move")
                    .metadata
                    .resource_version,
            )
        }
    };
    let before = versions(&world).await;
    world.stop().await;
    world.start().await;
    world.at_rest(&mock).await;
    assert_eq!(versions(&world).await, before, "a restart writes nothing");
    assert_eq!(moves(&mock), 1);
}

#[tokio::test]
async fn without_a_name_a_host_is_chosen_and_the_reasons_told() {
    let (world, mock) = with_vm("move-choose", Duration::from_millis(300)).await;
    let from = host(&mock);
    let closed = if from == "host-1" { "host-2" } else { "host-1" };
    let cordon = json!({"spec": {"cordonedHosts": [closed]}});
    world
        .edit::<polyvirt_api::infra::Provider>(HYPERVISOR, cordon)
        .await;
    world.create(migration("m", json!({}))).await;
    let done = world
        .until("m", "is there", is(MigrationPhase::Ready))
        .await;
    assert!(![from.as_str(), closed].contains(&host(&mock).as_str()));
    let hosts = done
        .status
        .expect("a status")
        .host_move
        .expect("a move")
        .hosts;
    let against: Vec<_> = hosts.iter().filter(|h| !h.fits).collect();
    assert_eq!(against.len(), 2, "{hosts:?}");
    assert!(
        against
            .iter()
            .any(|h| h.name == closed && h.message.contains("cordoned")),
        "{hosts:?}"
    );
}

#[tokio::test]
async fn where_no_host_can_take_it_that_is_told_and_it_goes_when_one_can() {
    let (world, mock) = with_vm("move-full", Duration::from_millis(300)).await;
    let all = json!({"spec": {"cordonedHosts": ["host-1", "host-2", "host-3"]}});
    world
        .edit::<polyvirt_api::infra::Provider>(HYPERVISOR, all)
        .await;
    world.create(migration("m", json!({}))).await;
    let refused = |m: &VMMigration| says(m, "Ready", "False", Reason::Unschedulable);
    let waits = world.until("m", "waits", refused).await;
    assert_eq!(at(&waits), Some(MigrationPhase::Pending));
    assert_eq!(mock.counts().of(Rpc::Migrate).calls, 0);
    let open = json!({"spec": {"cordonedHosts": null}});
    world
        .edit::<polyvirt_api::infra::Provider>(HYPERVISOR, open)
        .await;
    world
        .until("m", "is there", is(MigrationPhase::Ready))
        .await;
}

#[tokio::test]
async fn what_is_not_supported_yet_is_said() {
    let (world, mock) = with_vm("move-other", Duration::ZERO).await;
    world.hypervisor("other", MockConfig::default()).await;
    let target = json!({"providerRef": {"name": "other"}});
    world.create(migration("m", target)).await;
    let refused = |m: &VMMigration| says(m, "Ready", "False", Reason::MigrationUnsupported);
    let told = world.until("m", "is refused", refused).await;
    assert_eq!(at(&told), Some(MigrationPhase::Failed));
    assert!(
        message(&told).contains("not supported yet"),
        "{}",
        message(&told)
    );
    assert_eq!(mock.counts().of(Rpc::Migrate).calls, 0);
    let absurd = migration("n", json!({"host": "host-2"}))
        .spec(json!({"options": {"live": {"bandwidth": "fast"}}}));
    world.create(absurd).await;
    let invalid = |m: &VMMigration| says(m, "Ready", "False", Reason::InvalidSpec);
    world.until("n", "is refused", invalid).await;
}

#[tokio::test]
async fn a_provider_that_does_not_move_vms_is_not_asked() {
    let config = MockConfig {
        offer: Offer::Basic,
        ..slow(Duration::ZERO)
    };
    let (world, mock) = World::furnished("move-basic", config).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    world
        .create(migration("m", json!({"host": "host-2"})))
        .await;
    let refused = |m: &VMMigration| says(m, "Ready", "False", Reason::UnsupportedByProvider);
    world.until("m", "is refused", refused).await;
    assert_eq!(mock.counts().of(Rpc::Migrate).calls, 0);
}

#[tokio::test]
async fn a_host_that_does_not_exist_fails_and_the_vm_goes_on() {
    let (world, mock) = with_vm("move-nowhere", Duration::ZERO).await;
    let from = host(&mock);
    world
        .create(migration("m", json!({"host": "atlantis"})))
        .await;
    let failed = world.until("m", "fails", is(MigrationPhase::Failed)).await;
    let told = message(&failed).to_owned();
    assert!(
        told.contains(&format!("goes on where it was, on {from}")),
        "{told}"
    );
    assert!(world.told("m", Reason::MigrationFailed).await.warning);
    world.vm("web", "runs", runs).await;
    assert_eq!(moves(&mock), 0);
}

#[tokio::test]
async fn the_second_waits_for_the_first_by_name() {
    let (world, mock) = with_vm("move-two", Duration::from_secs(3)).await;
    let from = host(&mock);
    let to = elsewhere(&mock);
    world
        .create(migration("first", json!({ "host": to })))
        .await;
    under_way(&world, "first").await;
    world
        .create(migration("second", json!({ "host": from })))
        .await;
    let waits = |m: &VMMigration| says(m, "Ready", "False", Reason::MigrationQueued);
    let queued = world.until("second", "waits", waits).await;
    assert!(message(&queued).contains("first"), "{}", message(&queued));
    assert_eq!(at(&queued), Some(MigrationPhase::Pending));
    world
        .until("first", "is there", is(MigrationPhase::Ready))
        .await;
    world
        .until("second", "is back", is(MigrationPhase::Ready))
        .await;
    assert_eq!((host(&mock), moves(&mock)), (from, 2));
}

#[tokio::test]
async fn many_at_once_move_one_after_the_other() {
    let (world, mock) = with_vm("move-many", Duration::from_millis(400)).await;
    for number in 0..6 {
        let to = format!("host-{}", number % 3 + 1);
        world
            .create(migration(&format!("m{number}"), json!({ "host": to })))
            .await;
    }
    for number in 0..6 {
        let name = format!("m{number}");
        world
            .until(&name, "is over", is(MigrationPhase::Ready))
            .await;
    }
    world.vm("web", "runs", runs).await;
    let calls = mock.counts().of(Rpc::Migrate).calls;
    assert!(calls <= 6, "{calls} requests for six moves");
}

#[tokio::test]
async fn nobody_changes_a_vm_on_its_way() {
    let (world, mock) = with_vm("move-power", Duration::from_secs(4)).await;
    let to = elsewhere(&mock);
    world.create(migration("m", json!({ "host": to }))).await;
    under_way(&world, "m").await;
    let before = mock.counts();
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    let said = |vm: &VirtualMachine| message(vm).contains("VMMigration m");
    world.vm("web", "says why it waits", said).await;
    world.reconciled_again("web").await;
    for rpc in [Rpc::Power, Rpc::Reconfigure, Rpc::Create, Rpc::Delete] {
        assert_eq!(mock.counts().of(rpc), before.of(rpc), "{rpc}");
    }
    world
        .until("m", "is there", is(MigrationPhase::Ready))
        .await;
    let off = |vm: &VirtualMachine| phase(vm) == Some(VMPhase::Stopped);
    world.vm("web", "is off then", off).await;
    assert_eq!((host(&mock), moves(&mock)), (to, 1));
}

#[tokio::test]
async fn a_vm_that_is_off_waits_or_moves_cold() {
    let (world, mock) = with_vm("move-off", Duration::ZERO).await;
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    let off = |vm: &VirtualMachine| phase(vm) == Some(VMPhase::Stopped);
    world.vm("web", "is off", off).await;
    let to = elsewhere(&mock);
    world.create(migration("live", json!({ "host": to }))).await;
    let waits = |m: &VMMigration| message(m).contains("is off");
    world.until("live", "waits", waits).await;
    let cold = migration("cold", json!({ "host": to }))
        .spec(json!({"options": {"live": {"mode": "Cold"}}}));
    world.create(cold).await;
    world
        .until("cold", "is there", is(MigrationPhase::Ready))
        .await;
    assert_eq!(mock.vms()[0].power, PowerState::Off);
    world
        .until("live", "is there too", is(MigrationPhase::Ready))
        .await;
    assert_eq!((host(&mock), moves(&mock)), (to, 1));
}
