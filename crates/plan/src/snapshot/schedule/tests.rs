//! Schedules under random clocks, crashes and users.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use polyvirt_api::infra::VMSnapshot;
use polyvirt_api::names;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn object(schedule: &serde_json::Value, retention: &serde_json::Value) -> VMSnapshot {
    let object = json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMSnapshot",
        "metadata": {"name": "nightly", "namespace": "team", "uid": "u-1",
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"vmRef": {"name": "web"}, "schedule": schedule, "retentionPolicy": retention},
    });
    serde_json::from_value(object).expect("valid")
}

fn nightly(policy: &str) -> Schedule {
    let text = json!({"enabled": true, "cronSpec": "0 3 * * *", "concurrencyPolicy": policy});
    schedule(&object(&text, &json!({}))).expect("valid")
}

fn made(slot: &str, state: ChildState) -> Child {
    Child {
        name: slot.to_owned(),
        uid: format!("uid of {slot}"),
        slot: at(slot),
        state,
        hold: Hold::Free,
        completed: None,
    }
}

fn decide(schedule: &Schedule, memory: &Memory, children: &[Child], now: &str) -> Plan {
    plan(&Facts {
        now: at(now),
        schedule,
        memory,
        children,
        subject: Subject::Here,
    })
}

fn since(schedule: &Schedule, text: &str) -> Memory {
    Memory {
        rule: Some(schedule.rule.clone()),
        since: Some(at(text)),
        last: None,
    }
}

#[test]
fn a_new_schedule_waits_for_its_next_time() {
    let schedule = nightly("Forbid");
    let plan = decide(&schedule, &Memory::default(), &[], "2026-06-01T12:00:00Z");
    assert_eq!(plan.slot, Slot::NotDue);
    assert_eq!(plan.memory, since(&schedule, "2026-06-01T12:00:00Z"));
    assert_eq!(plan.next, Some(at("2026-06-02T03:00:00Z")));
}

#[test]
fn after_a_long_night_one_snapshot_is_taken() {
    let schedule = nightly("Forbid");
    let memory = since(&schedule, "2026-06-01T12:00:00Z");
    let plan = decide(&schedule, &memory, &[], "2026-06-20T12:00:00Z");
    assert_eq!(plan.slot, Slot::Make(at("2026-06-20T03:00:00Z")));
    let again = decide(&schedule, &plan.memory, &[], "2026-06-20T12:00:01Z");
    assert_eq!(again.slot, Slot::NotDue);
}

#[test]
fn what_was_made_and_not_written_down_is_not_made_again() {
    let schedule = nightly("Forbid");
    let memory = since(&schedule, "2026-06-01T12:00:00Z");
    let child = made("2026-06-02T03:00:00Z", ChildState::Active);
    let plan = decide(&schedule, &memory, &[child], "2026-06-02T03:00:05Z");
    assert_eq!(plan.slot, Slot::NotDue);
    assert_eq!(plan.memory.last, Some(at("2026-06-02T03:00:00Z")));
}

#[test]
fn what_keeps_all_keeps_all() {
    let text = json!({"enabled": true, "cronSpec": "0 3 * * *"});
    let most = |word: Option<&str>, retention: serde_json::Value| {
        let mut object = object(&text, &retention);
        let note = |word: &str| [(names::KEEP_ALL_ANNOTATION.to_owned(), word.to_owned())].into();
        object.metadata.annotations = word.map(note);
        schedule(&object).expect("valid").limits.whole
    };
    for (word, retention, expected) in [
        (None, json!({}), Some(3)),
        (Some("false"), json!({}), Some(3)),
        (Some("true"), json!({}), None),
        (Some("true"), json!({"maxCount": 7}), Some(7)),
        (None, json!({"maxAge": "1h"}), None),
    ] {
        assert_eq!(
            most(word, retention.clone()),
            expected,
            "{word:?} {retention}"
        );
    }
}

#[test]
fn overlaps_are_decided_by_the_policy() {
    let busy = [made("2026-06-02T03:00:00Z", ChildState::Active)];
    let slot = at("2026-06-03T03:00:00Z");
    for (policy, expected, gone) in [
        ("Allow", Slot::Make(slot), 0),
        ("Forbid", Slot::LeftOut(slot, LeftOut::AtWork), 0),
        ("Replace", Slot::Make(slot), 1),
    ] {
        let schedule = nightly(policy);
        let memory = since(&schedule, "2026-06-02T12:00:00Z");
        let plan = decide(&schedule, &memory, &busy, "2026-06-03T03:00:01Z");
        assert_eq!((plan.slot, plan.delete.len()), (expected, gone), "{policy}");
        let later = decide(&schedule, &plan.memory, &[], "2026-06-03T05:00:00Z");
        assert_eq!(
            later.slot,
            Slot::NotDue,
            "{policy}: a slot that passed has passed"
        );
    }
}

#[test]
fn even_allowed_overlaps_have_an_end() {
    let slots = (1..=10).map(|day| format!("2026-06-{day:02}T03:00:00Z"));
    let busy: Vec<_> = slots.map(|s| made(&s, ChildState::Active)).collect();
    let schedule = nightly("Allow");
    let memory = since(&schedule, "2026-06-10T12:00:00Z");
    let plan = decide(&schedule, &memory, &busy, "2026-06-11T04:00:00Z");
    assert_eq!(
        plan.slot,
        Slot::LeftOut(at("2026-06-11T03:00:00Z"), LeftOut::AtWork)
    );
}

#[test]
fn a_schedule_that_rested_catches_up_with_nothing() {
    let text =
        |suspend: bool| json!({"enabled": true, "suspend": suspend, "cronSpec": "0 3 * * *"});
    let rests = schedule(&object(&text(true), &json!({}))).expect("valid");
    let goes_on = schedule(&object(&text(false), &json!({}))).expect("valid");
    let memory = since(&rests, "2026-06-01T12:00:00Z");
    let resting = decide(&rests, &memory, &[], "2026-06-05T12:00:00Z");
    assert_eq!((resting.slot, resting.next), (Slot::NotDue, None));
    let awake = decide(&goes_on, &resting.memory, &[], "2026-06-09T12:00:00Z");
    assert_eq!(awake.slot, Slot::NotDue);
    assert_eq!(awake.next, Some(at("2026-06-10T03:00:00Z")));
}

#[test]
fn another_rule_is_another_schedule() {
    let before = nightly("Forbid");
    let text = json!({"enabled": true, "cronSpec": "0 10 * * *"});
    let now = schedule(&object(&text, &json!({}))).expect("valid");
    let memory = since(&before, "2026-06-01T12:00:00Z");
    let plan = decide(&now, &memory, &[], "2026-06-02T12:00:00Z");
    assert_eq!(
        plan.slot,
        Slot::NotDue,
        "10:00 was not promised when it passed"
    );
    assert_eq!(plan.next, Some(at("2026-06-03T10:00:00Z")));
}

#[test]
fn a_clock_that_was_wrong_by_years_does_not_stop_the_schedule() {
    let schedule = nightly("Forbid");
    let memory = Memory {
        last: Some(at("2038-01-19T03:00:00Z")),
        ..since(&schedule, "2026-06-01T12:00:00Z")
    };
    let plan = decide(&schedule, &memory, &[], "2026-06-02T12:00:00Z");
    assert_eq!(plan.slot, Slot::NotDue);
    assert_eq!(plan.next, Some(at("2026-06-03T03:00:00Z")));
}

#[test]
fn without_a_vm_one_is_owed() {
    let schedule = nightly("Forbid");
    let memory = since(&schedule, "2026-06-01T12:00:00Z");
    let mut facts = Facts {
        now: at("2026-06-04T12:00:00Z"),
        schedule: &schedule,
        memory: &memory,
        children: &[],
        subject: Subject::Missing,
    };
    assert_eq!(plan(&facts).slot, Slot::Waits);
    facts.subject = Subject::Here;
    assert_eq!(plan(&facts).slot, Slot::Make(at("2026-06-04T03:00:00Z")));
}

#[test]
fn what_is_kept_is_decided_by_retention_then_by_history() {
    let history = json!({"enabled": true, "cronSpec": "@daily", "successfulJobsHistoryLimit": 2});
    for (retention, kept) in [
        (json!({}), Some(2)),
        (json!({"maxCount": 7}), Some(7)),
        (json!({"maxAge": "168h"}), None),
        (json!({"maxAge": "168h", "maxCount": 4}), Some(4)),
    ] {
        let limits = schedule(&object(&history, &retention))
            .expect("valid")
            .limits;
        assert_eq!(limits.whole, kept, "{retention}");
    }
}

#[test]
fn the_oldest_go_and_what_is_held_stays() {
    let text = json!({"enabled": true, "cronSpec": "@daily"});
    let schedule = schedule(&object(&text, &json!({"maxCount": 2}))).expect("valid");
    let whole = |day: u8| made(&format!("2026-06-{day:02}T00:00:00Z"), ChildState::Whole);
    let failed = |day: u8| made(&format!("2026-06-{day:02}T12:00:00Z"), ChildState::Failed);
    let pinned = Child {
        hold: Hold::Kept,
        ..whole(1)
    };
    let children = [
        whole(5),
        pinned,
        whole(3),
        failed(1),
        whole(4),
        whole(2),
        failed(2),
    ];
    let memory = since(&schedule, "2026-06-05T12:00:00Z");
    let gone = decide(&schedule, &memory, &children, "2026-06-05T13:00:00Z").delete;
    let names: Vec<_> = gone.iter().map(|r| &r.name[..13]).collect();
    assert_eq!(names, ["2026-06-02T00", "2026-06-03T00", "2026-06-01T12"]);
}

#[test]
fn the_newest_always_stays() {
    let text = json!({"enabled": true, "cronSpec": "@daily", "successfulJobsHistoryLimit": 0});
    let schedule = schedule(&object(&text, &json!({}))).expect("valid");
    let memory = since(&schedule, "2026-06-05T12:00:00Z");
    let one = [made("2026-06-05T00:00:00Z", ChildState::Whole)];
    assert!(
        decide(&schedule, &memory, &one, "2026-06-05T13:00:00Z")
            .delete
            .is_empty()
    );
}

#[test]
fn the_child_is_the_schedule_without_its_times() {
    let text = json!({"enabled": true, "cronSpec": "@daily"});
    let parent = object(&text, &json!({"maxCount": 2, "maxAge": "24h"}));
    let slot = at("2026-06-05T03:00:00Z");
    let child = child::object(&parent, slot);
    assert_eq!(
        child.metadata.name.as_deref(),
        Some("nightly-20260605-0300")
    );
    assert_eq!(maker(&child), Some(("nightly", "u-1")));
    assert!(child.spec.schedule.is_none() && !is_schedule(&child));
    let retention = child.spec.retention_policy.clone().expect("kept");
    assert_eq!(
        (retention.max_count, retention.max_age.is_some()),
        (None, true)
    );
    let mut seen = child;
    seen.metadata.uid = Some("u-2".into());
    assert_eq!(
        super::child(&seen, None).map(|c| (c.slot, c.hold)),
        Some((slot, Hold::Free))
    );
    let named = super::child(&seen, Some("nightly-20260605-0300"));
    assert_eq!(named.map(|c| c.hold), Some(Hold::Kept));
}

#[test]
fn what_takes_a_snapshot_of_its_own_is_no_schedule() {
    let enabled = json!({"enabled": true, "cronSpec": "@daily"});
    let off = json!({"enabled": false, "cronSpec": "@daily"});
    let mut parent = object(&enabled, &json!({}));
    assert!(is_schedule(&parent));
    assert!(!is_schedule(&object(&off, &json!({}))));
    parent.status =
        serde_json::from_value(json!({"schedule": {"snapshots": 1, "failed": 0}})).expect("valid");
    parent.spec.schedule = None;
    assert!(
        is_schedule(&parent),
        "one that was a schedule does not take one at once"
    );
    parent.status = serde_json::from_value(
        json!({"vm": {"providerRef": {"name": "p"}, "id": "1", "identity": "i"}}),
    )
    .expect("valid");
    parent.spec = object(&enabled, &json!({})).spec;
    assert!(!is_schedule(&parent));
}

/// What a schedule has done so far.
#[derive(Default)]
struct World {
    memory: Memory,
    children: BTreeMap<Timestamp, Child>,
    ever: BTreeMap<Timestamp, usize>,
}

impl World {
    /// One pass, which may die before it writes down what it did.
    fn pass(&mut self, schedule: &Schedule, now: Timestamp, dies: bool) {
        let children: Vec<_> = self.children.values().cloned().collect();
        let plan = plan(&Facts {
            now,
            schedule,
            memory: &self.memory,
            children: &children,
            subject: Subject::Here,
        });
        for removal in &plan.delete {
            self.children.retain(|_, child| child.uid != removal.uid);
        }
        if let Slot::Make(slot) = plan.slot {
            let fresh = made(&slot.to_string(), ChildState::Active);
            assert!(
                self.children.insert(slot, fresh).is_none(),
                "two of one name"
            );
            *self.ever.entry(slot).or_default() += 1;
        }
        if !dies {
            self.memory = plan.memory;
        }
    }

    fn settle(&mut self, state: ChildState) {
        self.children
            .values_mut()
            .for_each(|child| child.state = state);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However the clock jumps by hours and the manager dies: no slot has two snapshots, and none is made that is no slot.
    #[test]
    fn never_two_of_one_slot(
        policy in prop::sample::select(vec!["Allow", "Forbid", "Replace"]),
        zone in prop::sample::select(vec!["UTC", "Europe/Oslo"]),
        jumps in prop::collection::vec((-7_200_i64..20_000, any::<bool>(), any::<bool>()), 1..120),
    ) {
        let text = json!({"enabled": true, "cronSpec": "0 * * * *", "timezone": zone, "concurrencyPolicy": policy});
        let schedule = schedule(&object(&text, &json!({}))).expect("valid");
        let mut world = World::default();
        let mut now = at("2026-03-28T12:00:00Z");
        world.pass(&schedule, now, false);
        for (jump, dies, fails) in jumps {
            now += SignedDuration::from_secs(jump);
            world.pass(&schedule, now, dies);
            world.settle(if fails { ChildState::Failed } else { ChildState::Whole });
        }
        prop_assert!(world.ever.values().all(|count| *count == 1), "{:?}", world.ever);
        let before = |slot: &Timestamp| *slot - SignedDuration::from_secs(1);
        let is_real = |slot: &Timestamp| schedule.calendar.next_after(before(slot)) == Some(*slot);
        prop_assert!(world.ever.keys().all(is_real));
    }

    /// A manager that looks often enough makes every slot exactly once, whenever it dies.
    #[test]
    fn exactly_one_of_each_slot(steps in prop::collection::vec((1_i64..600, any::<bool>()), 200..400)) {
        let text = json!({"enabled": true, "cronSpec": "*/30 * * * *"});
        let schedule = schedule(&object(&text, &json!({}))).expect("valid");
        let mut world = World::default();
        let begin = at("2026-03-28T12:10:00Z");
        world.pass(&schedule, begin, false);
        let mut now = begin;
        for (step, dies) in steps {
            now += SignedDuration::from_secs(step);
            world.pass(&schedule, now, dies);
            world.settle(ChildState::Whole);
        }
        let due: Vec<_> = schedule.calendar.slots(begin, now).collect();
        prop_assert_eq!(world.ever.keys().copied().collect::<Vec<_>>(), due);
        prop_assert!(world.ever.values().all(|count| *count == 1));
    }
}
