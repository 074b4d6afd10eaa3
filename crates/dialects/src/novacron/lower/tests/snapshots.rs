//! Schedules of snapshots.

use polyvirt_api::infra::SnapshotConfig;
use polyvirt_plan::snapshot::schedule::{InForce, schedule as planned};
use serde_json::json;

use super::*;
use crate::shared::same::{LOWERED_ANNOTATION, is_as_lowered};

/// The schedule of a VM with that policy.
fn scheduled(policy: Value) -> VMSnapshot {
    let found = lowered(&vm(&json!({"spec": {"snapshotPolicy": policy}})));
    found.snapshot.expect("a schedule")
}

#[test]
fn as_many_snapshots_are_kept_as_the_policy_says() {
    for (policy, expected) in [
        (json!({"schedule": "@daily"}), None),
        (json!({"schedule": "@daily", "retention": 0}), None),
        (json!({"schedule": "@daily", "retention": 7}), Some(7)),
    ] {
        let found = planned(&scheduled(policy.clone())).expect("it can be followed");
        assert_eq!(found.limits.whole, expected, "{policy}");
    }
}

#[test]
fn a_schedule_that_is_no_longer_wanted_rests_and_keeps_what_it_took() {
    for policy in [
        json!({"schedule": "@daily"}),
        json!({"schedule": "@daily", "retention": 7}),
    ] {
        let before = scheduled(policy.clone());
        let rests = schedule_at_rest(&before, &vm(&json!({})));
        let (was, is) = (planned(&before).unwrap(), planned(&rests).unwrap());
        assert_eq!(is.force, InForce::Suspended, "{policy}");
        assert_eq!(is.limits, was.limits, "{policy}");
        assert!(!is_as_lowered(&before, &rests));
        let again = schedule_at_rest(&rests, &vm(&json!({})));
        assert_eq!(again, rests, "nothing is written twice");
    }
}

#[test]
fn what_is_taken_out_is_taken_out_of_what_was_made() {
    let kept = scheduled(json!({"schedule": "@daily", "retention": 7}));
    let mut all = scheduled(json!({"schedule": "@daily"}));
    assert!(!is_as_lowered(&kept, &all), "another number");
    all.spec.snapshot_config = Some(SnapshotConfig::default());
    let plain = scheduled(json!({"schedule": "@daily"}));
    assert!(is_as_lowered(&all, &plain), "what others add is theirs");
    let card = |name| made_of(&json!({"networks": [{"name": name, "type": "bridge"}]}));
    let network = lowered(&card("lan")).networks.remove(0);
    let notes = network.metadata.annotations.unwrap_or_default();
    assert!(notes.contains_key(LOWERED_ANNOTATION));
}

#[test]
fn a_snapshot_policy_becomes_a_schedule() {
    let policy =
        |value: Value| World::default().lower(&vm(&json!({"spec": {"snapshotPolicy": value}})));
    let found = policy(json!({"schedule": "0 2 * * *", "retention": 7}))
        .unwrap()
        .snapshot
        .unwrap();
    assert_eq!(found.metadata.name.as_deref(), Some("my-vm-scheduled"));
    assert!(found.metadata.owner_references.is_some());
    let spec = serde_json::to_value(found.spec).unwrap();
    assert_eq!(spec["vmRef"]["name"], "my-vm");
    assert_eq!(spec["schedule"]["cronSpec"], "0 2 * * *");
    assert_eq!(spec["schedule"]["enabled"], true);
    assert_eq!(spec["retentionPolicy"]["maxCount"], 7);
    for none in [json!({}), json!({"retention": 3}), json!({"schedule": " "})] {
        assert_eq!(policy(none).unwrap().snapshot, None);
    }
    let idle = policy(json!({"retention": 3})).unwrap().ignored;
    assert_eq!(idle, ["spec.snapshotPolicy.retention"]);
    assert!(
        policy(json!({"schedule": "@daily", "retention": 3}))
            .unwrap()
            .ignored
            .is_empty()
    );
    for (bad, field) in [
        (json!({"schedule": "often"}), "schedule"),
        (
            json!({"schedule": "0 2 * * *", "retention": 101}),
            "retention",
        ),
        (json!({"retention": -1}), "retention"),
    ] {
        let found = policy(bad).expect_err("refused");
        assert_eq!(found.field(), format!("spec.snapshotPolicy.{field}"));
    }
}

#[test]
fn a_time_zone_before_the_fields_is_the_schedules() {
    for (text, fields, zone) in [
        ("TZ=Europe/Oslo 0 2 * * *", "0 2 * * *", "Europe/Oslo"),
        ("CRON_TZ=Asia/Tokyo @daily", "@daily", "Asia/Tokyo"),
        ("0 2 * * *", "0 2 * * *", "UTC"),
    ] {
        let found = scheduled(json!({"schedule": text})).spec.schedule.unwrap();
        let told = (found.cron_spec.as_deref(), found.timezone.as_str());
        assert_eq!(told, (Some(fields), zone), "{text}");
    }
    let alone = vm(&json!({"spec": {"snapshotPolicy": {"schedule": "TZ=Europe/Oslo"}}}));
    let refused = World::default().lower(&alone).expect_err("no times");
    assert_eq!(refused.field(), "spec.snapshotPolicy.schedule");
}
