//! A snapshot is taken once, told in full, and Ready only when the hypervisor lists it.

use std::sync::Arc;
use std::time::Duration;

use polyvirt_api::infra::{Provider as ProviderObject, SnapshotPhase, VMSnapshot, VirtualMachine};
use polyvirt_contract::model::{GuestDisks, SnapshotState, VmRef};
use polyvirt_contract::{Provider, SnapshotId};
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{Mock, MockConfig, Offer, Rpc, TaskMode, Times};
use serde_json::json;

use crate::support::fleet::Route;
use crate::support::look::{condition, id, ready, runs, says};
use crate::support::wire::{Services, WireServer};
use crate::support::world::{HYPERVISOR, eventually};
use crate::support::{World, message, reason, snapshot, vm};

/// A hypervisor that takes its time for snapshots.
pub fn slow(time: Duration) -> MockConfig {
    MockConfig {
        tasks: TaskMode::Async,
        times: Times {
            snapshot: time,
            ..Times::default()
        },
        ..MockConfig::default()
    }
}

/// A world with a VM that runs.
pub async fn with_vm(topic: &str, config: MockConfig) -> (World, Arc<Mock>) {
    let (world, mock) = World::furnished(topic, config).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    (world, mock)
}

/// A world with a VM that runs on a hypervisor behind a port.
pub async fn with_wired_vm(topic: &str) -> (World, Arc<Mock>, WireServer) {
    let mut world = World::empty(topic).await;
    let mock = world.furnish(MockConfig::default()).await;
    let server = WireServer::start(mock.clone(), Services::Both);
    let route = Route::Wire(server.address.to_string());
    world.fleet.put(HYPERVISOR, route);
    world.start().await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    (world, mock, server)
}

pub fn stands_at(snapshot: &VMSnapshot) -> Option<SnapshotPhase> {
    snapshot.status.as_ref().and_then(|status| status.phase)
}

pub fn is_ready(snapshot: &VMSnapshot) -> bool {
    ready(snapshot) && stands_at(snapshot) == Some(SnapshotPhase::Ready)
}

/// What the hypervisor has.
pub fn on(mock: &Mock) -> Vec<SnapshotState> {
    let vms = mock.vms().into_iter();
    vms.flat_map(|vm| vm.snapshots.unwrap_or_default())
        .collect()
}

pub fn calls(mock: &Mock, rpc: Rpc) -> u64 {
    mock.counts().of(rpc).calls
}

async fn until_ready(world: &World, name: &str) -> VMSnapshot {
    world.until(name, "is ready", is_ready).await
}

#[tokio::test]
async fn a_snapshot_is_taken_once_and_told_in_full() {
    let (world, mock) = with_vm("snap", slow(Duration::from_millis(300))).await;
    world.create(snapshot("before", "web")).await;
    let creating = |s: &VMSnapshot| stands_at(s) == Some(SnapshotPhase::Creating);
    let begun = world.until("before", "is being taken", creating).await;
    assert!(!ready(&begun));
    let done = until_ready(&world, "before").await;
    let status = done.status.clone().expect("a status");
    let listed = on(&mock);
    assert_eq!(listed.len(), 1);
    assert_eq!(status.snapshot_id.as_deref(), Some(listed[0].id.as_str()));
    assert!(listed[0].name.starts_with("before-"), "{}", listed[0].name);
    assert!(status.creation_time <= status.completion_time);
    assert!(status.completion_time.is_some() && status.size.is_some());
    assert_eq!((status.task_ref, status.operation), (None, None));
    assert_eq!(listed[0].guest, GuestDisks::Quiet, "quiesce is passed on");
    assert!(says(&done, "Quiesced", "True", Reason::Quiesced));
    assert_eq!(calls(&mock, Rpc::SnapshotCreate), 1);
    for reason in [Reason::SnapshotCreating, Reason::SnapshotReady] {
        world.told("before", reason).await;
    }
    let lists = |vm: &VirtualMachine| vm.status.as_ref().is_some_and(|s| s.snapshots.len() == 1);
    let machine = world.vm("web", "lists its snapshot", lists).await;
    let shown = machine.status.expect("a status").snapshots.remove(0);
    assert_eq!(shown.id, listed[0].id.as_str());
    assert!(shown.size_bytes.is_some());
}

#[tokio::test]
async fn at_rest_a_snapshot_costs_nothing() {
    let (mut world, mock) = with_vm("snap-rest", MockConfig::default()).await;
    world.create(snapshot("before", "web")).await;
    until_ready(&world, "before").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let version = until_ready(&world, "before")
        .await
        .metadata
        .resource_version;
    mock.reset_counts();
    // Whatever happens to the VM, its snapshot has nothing to write and nothing to ask.
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    eventually("it is off", || calls(&mock, Rpc::Power) == 1).await;
    world.stop().await;
    world.start().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let now = until_ready(&world, "before").await;
    assert_eq!(now.metadata.resource_version, version);
    for rpc in [Rpc::SnapshotCreate, Rpc::SnapshotDelete, Rpc::TaskStatus] {
        assert_eq!(calls(&mock, rpc), 0, "{rpc:?}");
    }
}

#[tokio::test]
async fn a_snapshot_waits_for_its_vm_and_for_the_provider() {
    let (world, mock, mut server) = with_wired_vm("snap-down").await;
    world.create(snapshot("early", "nobody")).await;
    let waits = |s: &VMSnapshot| reason(s) == Reason::WaitingForDependencies.as_str();
    let early = world.until("early", "waits for its VM", waits).await;
    assert!(message(&early).contains("nobody"), "{}", message(&early));
    server.kill();
    let unhealthy = |p: &ProviderObject| p.status.as_ref().and_then(|s| s.healthy) == Some(false);
    world.until(HYPERVISOR, "is unhealthy", unhealthy).await;
    world.create(snapshot("before", "web")).await;
    let waits = |s: &VMSnapshot| reason(s) == Reason::ProviderUnavailable.as_str();
    let before = world.until("before", "waits", waits).await;
    assert_eq!(stands_at(&before), Some(SnapshotPhase::Pending));
    assert!(on(&mock).is_empty());
    server.revive();
    until_ready(&world, "before").await;
    world.create(vm("nobody")).await;
    until_ready(&world, "early").await;
}

#[tokio::test]
async fn what_the_provider_cannot_do_is_told_and_asked_for_once() {
    let (world, mock) = with_vm("snap-unsupported", MockConfig::default()).await;
    mock.faults()
        .parse("fail=SnapshotCreate:Unsupported")
        .expect("a rule");
    world.create(snapshot("before", "web")).await;
    let told = |s: &VMSnapshot| reason(s) == Reason::UnsupportedByProvider.as_str();
    let refused = world.until("before", "is told", told).await;
    assert_eq!(stands_at(&refused), Some(SnapshotPhase::Failed));
    world.told("before", Reason::SnapshotFailed).await;
    for power in ["Off", "On"] {
        world.edit_spec("web", json!({"powerState": power})).await;
        let wanted = u64::from(power == "On") + 2;
        eventually("the VM follows", || calls(&mock, Rpc::Power) >= wanted).await;
    }
    assert_eq!(calls(&mock, Rpc::SnapshotCreate), 1, "no storm");
    world.delete::<VMSnapshot>("before").await;
    world.gone::<VMSnapshot>("before").await;
}

#[tokio::test]
async fn a_request_that_no_provider_can_meet_is_refused_by_name() {
    let (world, mock) = with_vm("snap-refused", MockConfig::default()).await;
    let config = json!({"snapshotConfig": {"consistencyLevel": "ApplicationConsistent"}});
    world.create(snapshot("before", "web").spec(config)).await;
    let told = |s: &VMSnapshot| reason(s) == Reason::InvalidSpec.as_str();
    let refused = world.until("before", "is told", told).await;
    assert!(message(&refused).contains("spec.snapshotConfig.consistencyLevel"));
    assert_eq!(calls(&mock, Rpc::SnapshotCreate), 0);
}

#[tokio::test]
async fn a_failed_snapshot_is_tried_again() {
    let (world, mock) = with_vm("snap-fails", MockConfig::default()).await;
    mock.faults()
        .parse("fail=SnapshotCreate:Internal:2")
        .expect("a rule");
    world.create(snapshot("before", "web")).await;
    world.told("before", Reason::SnapshotFailed).await;
    until_ready(&world, "before").await;
    assert_eq!(calls(&mock, Rpc::SnapshotCreate), 3);
    assert_eq!(on(&mock).len(), 1);
}

#[tokio::test]
async fn a_snapshot_whose_answer_is_lost_is_taken_once() {
    let (world, mock) = with_vm("snap-lost", slow(Duration::from_secs(2))).await;
    mock.faults()
        .parse("lose=SnapshotCreate:2")
        .expect("a rule");
    world.create(snapshot("before", "web")).await;
    until_ready(&world, "before").await;
    assert_eq!(on(&mock).len(), 1, "{:?}", on(&mock));
}

#[tokio::test]
async fn a_manager_that_is_restarted_takes_no_second_snapshot() {
    let (mut world, mock) = with_vm("snap-restart", slow(Duration::from_secs(2))).await;
    world.create(snapshot("before", "web")).await;
    let at_work = |s: &VMSnapshot| s.status.as_ref().is_some_and(|s| s.task_ref.is_some());
    world.until("before", "is at work", at_work).await;
    world.stop().await;
    world.start().await;
    until_ready(&world, "before").await;
    assert_eq!(calls(&mock, Rpc::SnapshotCreate), 1);
    assert_eq!(on(&mock).len(), 1);
}

#[tokio::test]
async fn a_snapshot_that_somebody_deleted_is_told_and_not_taken_again() {
    let (world, mock) = with_vm("snap-gone", MockConfig::default()).await;
    world.create(snapshot("before", "web")).await;
    let done = until_ready(&world, "before").await;
    let status = done.status.expect("a status");
    let machine = VmRef {
        id: id(&world.vm("web", "runs", runs).await),
        owner: None,
    };
    let taken = SnapshotId::from(status.snapshot_id.expect("an id"));
    let deleted = mock.snapshot_delete(&machine, &taken).await;
    deleted.expect("deleted behind our back");
    let told = |s: &VMSnapshot| reason(s) == Reason::SnapshotMissing.as_str();
    let lost = world.until("before", "is told", told).await;
    assert_eq!(stands_at(&lost), Some(SnapshotPhase::Failed));
    assert_eq!(calls(&mock, Rpc::SnapshotCreate), 1);
}

#[tokio::test]
async fn two_snapshots_of_one_name_on_the_hypervisor_are_two() {
    let (world, mock) = with_vm("snap-names", MockConfig::default()).await;
    let named = json!({"snapshotConfig": {"name": "nightly", "quiesce": false}});
    for name in ["one", "two"] {
        world
            .create(snapshot(name, "web").spec(named.clone()))
            .await;
        until_ready(&world, name).await;
    }
    assert_eq!(on(&mock).len(), 2);
    assert!(on(&mock).iter().all(|s| s.guest == GuestDisks::AsTheyWere));
}

#[tokio::test]
async fn what_has_taken_a_snapshot_does_not_become_a_schedule_and_says_so() {
    let (world, mock) = with_vm("snap-schedule", MockConfig::default()).await;
    world.create(snapshot("nightly", "web")).await;
    until_ready(&world, "nightly").await;
    let schedule = json!({"spec": {"schedule": {"enabled": true, "cronSpec": "@daily"}}});
    world.edit::<VMSnapshot>("nightly", schedule).await;
    let named = |s: &VMSnapshot| says(s, "FieldsHonoured", "False", Reason::FieldsIgnored);
    let told = world.until("nightly", "names the field", named).await;
    let told = condition(&told, "FieldsHonoured").expect("told");
    assert!(told.message.contains("spec.schedule"), "{}", told.message);
    until_ready(&world, "nightly").await;
    assert_eq!(on(&mock).len(), 1);
}

async fn a_life_on_a_foreign_provider(tasks: TaskMode) {
    let config = MockConfig {
        offer: Offer::Basic,
        ..slow(Duration::from_millis(200))
    };
    let mut world = World::empty("snap-basic").await;
    let mock = world.furnish(MockConfig { tasks, ..config }).await;
    let server = WireServer::start(mock.clone(), Services::Basic);
    let route = Route::Wire(server.address.to_string());
    world.fleet.put(HYPERVISOR, route);
    world.start().await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    world.create(snapshot("before", "web")).await;
    let done = until_ready(&world, "before").await;
    let id = done.status.as_ref().and_then(|s| s.snapshot_id.clone());
    assert!(id.is_some_and(|id| !id.is_empty()), "never without an id");
    let told = condition(&done, "FieldsHonoured").expect("told");
    assert!(told.message.contains("spec.snapshotConfig.quiesce"));
    world.delete::<VMSnapshot>("before").await;
    world.gone::<VMSnapshot>("before").await;
    assert_eq!(calls(&mock, Rpc::SnapshotCreate), 1);
    assert_eq!(calls(&mock, Rpc::SnapshotDelete), 1);
}

#[tokio::test]
async fn a_snapshot_lives_on_a_foreign_provider() {
    a_life_on_a_foreign_provider(TaskMode::Immediate).await;
}

#[tokio::test]
async fn a_snapshot_lives_on_a_foreign_provider_that_answers_with_tasks() {
    a_life_on_a_foreign_provider(TaskMode::Async).await;
}

/// The names of the snapshots that it is based on and that are based on it.
fn family(snapshot: &VMSnapshot) -> (Option<String>, Vec<String>) {
    let status = snapshot.status.clone().unwrap_or_default();
    let children = status.children.into_iter().map(|child| child.name);
    (status.parent.map(|parent| parent.name), children.collect())
}

#[tokio::test]
async fn parents_and_children_know_each_other() {
    let (world, _mock) = with_vm("snap-kin", MockConfig::default()).await;
    for name in ["first", "second", "third"] {
        world.create(snapshot(name, "web")).await;
        until_ready(&world, name).await;
    }
    let between =
        |s: &VMSnapshot| family(s) == (Some("first".to_owned()), vec!["third".to_owned()]);
    world.until("second", "has both", between).await;
    world.delete::<VMSnapshot>("second").await;
    let on_first = |s: &VMSnapshot| family(s) == (Some("first".to_owned()), Vec::new());
    world
        .until("third", "goes to its grandparent", on_first)
        .await;
    let has_third = |s: &VMSnapshot| family(s) == (None, vec!["third".to_owned()]);
    world.until("first", "has its grandchild", has_third).await;
}
