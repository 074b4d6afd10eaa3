//! Corrections of drift: reported wherever the manager dies, at most once, and only for what people did behind our back.

use polyvirt_engine::runtime::key::Key;
use polyvirt_provider_mock::{Offer, TaskMode};
use serde_json::json;

use crate::effect::Side;
use crate::meddler::Meddler;
use crate::objects::{self, LAB};
use crate::scenario::Scenario;
use crate::setting::Setting;

/// More effects than a correction has.
const EFFECTS: u64 = 14;

/// What people do to the VM.
#[derive(Clone, Copy, Debug)]
enum Trick {
    PowerOff,
    Resize,
    Delete,
}

#[test]
fn a_correction_is_reported_wherever_the_manager_dies() {
    for offer in [Offer::Full, Offer::Basic] {
        for tasks in [TaskMode::Immediate, TaskMode::Async] {
            for trick in [Trick::PowerOff, Trick::Resize, Trick::Delete] {
                for after in 1..=EFFECTS {
                    dies(offer, tasks, trick, after, Side::Before);
                    dies(offer, tasks, trick, after, Side::After);
                }
            }
        }
    }
}

fn dies(offer: Offer, tasks: TaskMode, trick: Trick, after: u64, side: Side) {
    let mut story = Scenario::new(Setting::quiet(offer, tasks));
    let key = corrected_vm(&mut story);
    let vm = story.only_vm().id;
    let begin = story.sim.world().effects;
    story.sim.world().crash_at.push((begin + after, side));
    let sim = story.sim.clone();
    let meddler = Meddler { sim };
    match trick {
        Trick::PowerOff => meddler.power_off(&vm),
        Trick::Resize => meddler.resize(&vm, 5),
        Trick::Delete => meddler.delete(&vm),
    }
    story.conclude();
    let object = story.object(&key).expect("there");
    let last = &object["status"]["lastCorrection"];
    let context = format!("{offer:?} {tasks:?} {trick:?} dies {side:?} effect {after}: {last}");
    assert!(last["corrected"].is_string(), "{context}");
    assert_eq!(last["kind"], kind(trick), "{context}");
    let restarted = object["status"]["lastRestart"]["reason"].as_str();
    let expected = match trick {
        Trick::PowerOff => Some("DriftCorrected"),
        Trick::Delete => Some("Recreated"),
        Trick::Resize => restarted,
    };
    assert_eq!(restarted, expected, "{context}");
    let events = story.sim.world().ledger.corrections;
    assert!(events <= 1, "{context}: {events} events");
    if story.sim.world().crash_at.is_empty() {
        return;
    }
    assert_eq!(events, 1, "{context}: nothing went wrong");
}

const fn kind(trick: Trick) -> &'static str {
    match trick {
        Trick::PowerOff => "Power",
        Trick::Resize => "Size",
        Trick::Delete => "Deletion",
    }
}

fn corrected_vm(story: &mut Scenario) -> Key {
    let key = objects::vm(LAB, "a");
    let mut vm = objects::plain_vm();
    vm["spec"]["powerState"] = json!("On");
    vm["spec"]["driftPolicy"] =
        json!({"power": "Correct", "size": "Correct", "deletion": "Recreate"});
    vm["spec"]["reconfigurePolicy"] = json!({"restart": "WhenNeeded"});
    story.create(&key, vm);
    story.settle();
    key
}

#[test]
fn changes_of_our_own_are_never_reported_as_drift() {
    for tasks in [TaskMode::Immediate, TaskMode::Async] {
        let mut story = Scenario::full(tasks);
        let key = corrected_vm(&mut story);
        story.annotate(&key, polyvirt_api::names::REBOOT_ANNOTATION, "one");
        story.settle();
        story.edit(&key, |vm| vm["spec"]["powerState"] = json!("Off"));
        story.settle();
        story.edit(&key, |vm| vm["spec"]["powerState"] = json!("On"));
        story.settle();
        story.edit(&key, |vm| vm["spec"]["powerState"] = json!("OffGraceful"));
        story.settle();
        story.conclude();
        assert_eq!(story.sim.world().ledger.corrections, 0);
        let object = story.object(&key).expect("there");
        assert!(object["status"]["lastCorrection"].is_null(), "{object}");
        assert_eq!(object["status"]["lastRestart"]["reason"], "Requested");
    }
}
