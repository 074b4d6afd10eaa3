//! A schedule makes one snapshot for each of its times, whatever happens to the manager, and keeps as many as it is told to.

use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use polyvirt_api::infra::{SnapshotPhase, SnapshotScheduleStatus, VMSnapshot, VirtualMachine};
use polyvirt_api::names;
use polyvirt_plan::Reason;
use polyvirt_plan::snapshot::schedule::maker;
use polyvirt_provider_mock::MockConfig;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use crate::snapshots::{is_ready, on, stands_at, with_vm};
use crate::support::world::Manifest;
use crate::support::{World, reason, snapshot};

/// A schedule of the VM `web` that comes once a year: what is to be due is made so.
fn yearly(name: &str, retention: Value) -> Manifest<VMSnapshot> {
    let schedule = json!({"enabled": true, "cronSpec": "0 0 1 1 *"});
    snapshot(name, "web").spec(json!({"schedule": schedule, "retentionPolicy": retention}))
}

fn told(schedule: &VMSnapshot) -> SnapshotScheduleStatus {
    let status = schedule.status.as_ref().and_then(|s| s.schedule.clone());
    status.map(|s| *s).unwrap_or_default()
}

fn in_force(schedule: &VMSnapshot) -> bool {
    stands_at(schedule) == Some(SnapshotPhase::Scheduled) && told(schedule).since.is_some()
}

async fn children(world: &World, schedule: &str) -> Vec<VMSnapshot> {
    let all: Vec<VMSnapshot> = world.list().await;
    let made = |s: &VMSnapshot| maker(s).is_some_and(|(name, _)| name == schedule);
    all.into_iter().filter(made).collect()
}

async fn until_children(world: &World, schedule: &str, holds: impl Fn(&[VMSnapshot]) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let found = children(world, schedule).await;
        if holds(&found) {
            return;
        }
        let names: Vec<_> = found.iter().map(|c| c.metadata.name.clone()).collect();
        assert!(
            Instant::now() < deadline,
            "never as it should be: {names:?}"
        );
        sleep(Duration::from_millis(100)).await;
    }
}

/// As if the schedule had not been looked at since then.
async fn neglected(world: &World, schedule: &str, since: &str) {
    let body = json!({"status": {"schedule": {"since": since}}});
    let params = PatchParams::default();
    let api = world.api::<VMSnapshot>();
    let patched = api
        .patch_status(schedule, &params, &Patch::Merge(&body))
        .await;
    patched.expect("the API server takes the status");
}

/// An object as the schedule would have made it for that time.
async fn of_slot(world: &World, schedule: &VMSnapshot, slot: &str, change: Value) {
    let time: Timestamp = slot.parse().expect("a time");
    let made = polyvirt_plan::snapshot::schedule::child::object(schedule, time);
    let name = made.metadata.name.clone().expect("a name");
    let value = serde_json::to_value(&made).expect("a manifest");
    let manifest = Manifest::<VMSnapshot>::new(&name, json!({})).changed(value);
    world.create(manifest.changed(change)).await;
    world.until(&name, "is ready", is_ready).await;
}

#[tokio::test]
async fn after_downtime_one_snapshot_is_taken_and_told() {
    let (mut world, mock) = with_vm("sched-catch", MockConfig::default()).await;
    world.create(yearly("saved", json!({}))).await;
    let first = world.until("saved", "is in force", in_force).await;
    assert!(on(&mock).is_empty(), "a schedule takes none of its own");
    assert!(first.metadata.finalizers.is_none());
    world.stop().await;
    neglected(&world, "saved", "2019-06-01T00:00:00Z").await;
    world.start().await;
    let done = |s: &VMSnapshot| told(s).snapshots == 1 && told(s).active.is_empty();
    let saved = world.until("saved", "has made one", done).await;
    let made = children(&world, "saved").await;
    assert_eq!(made.len(), 1, "of all that were missed the last one");
    let child = &made[0];
    let year = Timestamp::now().strftime("%Y").to_string();
    assert_eq!(child.metadata.name, Some(format!("saved-{year}0101-0000")));
    let labels = child.metadata.labels.clone().unwrap_or_default();
    assert_eq!(labels.get(names::SCHEDULE_LABEL), Some(&"saved".to_owned()));
    assert!(is_ready(child) && on(&mock).len() == 1);
    let status = told(&saved);
    assert!(status.last_schedule_time < status.last_successful_time);
    assert!(status.next_schedule_time > status.last_schedule_time);
    world.told("saved", Reason::SnapshotMade).await;
}

#[tokio::test]
async fn a_manager_that_dies_before_it_writes_makes_no_second() {
    let (mut world, mock) = with_vm("sched-crash", MockConfig::default()).await;
    world.create(yearly("saved", json!({}))).await;
    world.until("saved", "is in force", in_force).await;
    for _ in 0..3 {
        world.stop().await;
        let none = json!({"status": {"schedule": {"since": "2019-06-01T00:00:00Z", "lastScheduleTime": null}}});
        let params = PatchParams::default();
        let api = world.api::<VMSnapshot>();
        let patched = api
            .patch_status("saved", &params, &Patch::Merge(&none))
            .await;
        patched.expect("the API server takes the status");
        world.start().await;
        let noted = |s: &VMSnapshot| told(s).last_schedule_time.is_some();
        world.until("saved", "has written it down", noted).await;
    }
    until_children(&world, "saved", |made| made.iter().all(is_ready)).await;
    assert_eq!(
        (children(&world, "saved").await.len(), on(&mock).len()),
        (1, 1)
    );
}

#[tokio::test]
async fn a_schedule_that_comes_every_minute_makes_one_each() {
    let (world, _mock) = with_vm("sched-minutes", MockConfig::default()).await;
    let schedule = json!({"enabled": true, "cronSpec": "* * * * *"});
    world
        .create(snapshot("often", "web").spec(json!({"schedule": schedule})))
        .await;
    let whole = |made: &[VMSnapshot]| made.iter().any(is_ready);
    until_children(&world, "often", whole).await;
    let rest = json!({"spec": {"schedule": {"suspend": true}}});
    world.edit::<VMSnapshot>("often", rest).await;
    let rests = |s: &VMSnapshot| stands_at(s) == Some(SnapshotPhase::Suspended);
    let often = world.until("often", "rests", rests).await;
    assert_eq!(reason(&often), Reason::ScheduleSuspended.as_str());
    assert!(told(&often).next_schedule_time.is_none());
    let last = told(&often).last_schedule_time.expect("a time").0;
    for child in children(&world, "often").await {
        let at = &child.metadata.annotations.expect("annotations")[names::SCHEDULED_AT_ANNOTATION];
        let at: Timestamp = at.parse().expect("a time");
        assert!(at <= last && at.as_second() % 60 == 0);
        assert!(Timestamp::now().duration_since(at) < SignedDuration::from_mins(10));
    }
}

#[tokio::test]
async fn the_oldest_go_and_pinned_and_named_ones_stay() {
    let (world, mock) = with_vm("sched-keep", MockConfig::default()).await;
    world.create(snapshot("mine", "web")).await;
    world.create(yearly("saved", json!({}))).await;
    let saved = world.until("saved", "is in force", in_force).await;
    let rest = json!({"spec": {"schedule": {"suspend": true, "successfulJobsHistoryLimit": 100}}});
    world.edit::<VMSnapshot>("saved", rest).await;
    of_slot(
        &world,
        &saved,
        "2020-01-01T00:00:00Z",
        json!({"spec": {"metadata": {"pinned": true}}}),
    )
    .await;
    for year in 2021..2026 {
        of_slot(
            &world,
            &saved,
            &format!("{year}-01-01T00:00:00Z"),
            json!({}),
        )
        .await;
    }
    let back = json!({"spec": {"snapshot": {"revertToRef": {"name": "saved-20210101-0000"}}}});
    world.edit::<VirtualMachine>("web", back).await;
    let two = json!({"spec": {"retentionPolicy": {"maxCount": 2}}});
    world.edit::<VMSnapshot>("saved", two).await;
    until_children(&world, "saved", |made| made.len() == 4).await;
    let mut names: Vec<_> = children(&world, "saved")
        .await
        .into_iter()
        .filter_map(|c| c.metadata.name)
        .collect();
    names.sort();
    let kept = ["2020", "2021", "2024", "2025"].map(|year| format!("saved-{year}0101-0000"));
    assert_eq!(
        names, kept,
        "the pinned one, the one to go back to, and the two newest"
    );
    world.until("mine", "is left alone", is_ready).await;
    assert_eq!(on(&mock).len(), 5);
    world.told("saved", Reason::SnapshotPruned).await;
}

#[tokio::test]
async fn what_a_schedule_has_made_goes_with_it() {
    let (world, mock) = with_vm("sched-gone", MockConfig::default()).await;
    world.create(yearly("saved", json!({"maxCount": 9}))).await;
    let saved = world.until("saved", "is in force", in_force).await;
    for year in 2024..2026 {
        of_slot(
            &world,
            &saved,
            &format!("{year}-01-01T00:00:00Z"),
            json!({}),
        )
        .await;
    }
    let pinned = json!({"spec": {"metadata": {"pinned": true}}});
    of_slot(&world, &saved, "2020-01-01T00:00:00Z", pinned).await;
    let back = json!({"spec": {"snapshot": {"revertToRef": {"name": "saved-20240101-0000"}}}});
    world.edit::<VirtualMachine>("web", back).await;
    world.create(snapshot("mine", "web")).await;
    world.until("mine", "is ready", is_ready).await;
    let three = |s: &VMSnapshot| told(s).snapshots == 3 && s.metadata.finalizers.is_some();
    world.until("saved", "has three", three).await;
    world.delete::<VMSnapshot>("saved").await;
    world.gone::<VMSnapshot>("saved").await;
    until_children(&world, "saved", <[_]>::is_empty).await;
    let gone = "saved-20250101-0000";
    world.gone::<VMSnapshot>(gone).await;
    for kept in ["mine", "saved-20200101-0000", "saved-20240101-0000"] {
        let there = world.until(kept, "is left alone", is_ready).await;
        assert_eq!(maker(&there), None, "{kept}: nobody collects it");
    }
    assert_eq!(on(&mock).len(), 3);
}

#[tokio::test]
async fn a_schedule_that_cannot_be_followed_says_why() {
    let (world, _mock) = with_vm("sched-bad", MockConfig::default()).await;
    let schedule = json!({"enabled": true, "cronSpec": "0 25 * * *"});
    world
        .create(snapshot("wrong", "web").spec(json!({"schedule": schedule})))
        .await;
    let failed = |s: &VMSnapshot| stands_at(s) == Some(SnapshotPhase::Failed);
    let wrong = world.until("wrong", "tells", failed).await;
    assert_eq!(reason(&wrong), Reason::InvalidSpec.as_str());
    let right = json!({"spec": {"schedule": {"cronSpec": "0 5 * * *"}}});
    world.edit::<VMSnapshot>("wrong", right).await;
    world.until("wrong", "is in force", in_force).await;
}
