//! Stories of requests and answers that come late, or to somebody who has died meanwhile.

use std::time::Duration;

use polyvirt_contract::model::PowerState;
use polyvirt_provider_mock::{Offer, Resize, TaskMode};
use serde_json::json;

use crate::effect::{Effect, Fate, Side};
use crate::objects::{self, LAB};
use crate::scenario::Scenario;
use crate::setting::{Setting, TakenName};

/// The manager died with a create on its way; the object was deleted, and the VM came after it.
#[test]
fn a_create_of_a_dead_manager_leaves_no_orphan() {
    let mut story = Scenario::full(TaskMode::Immediate);
    let key = objects::vm(LAB, "a");
    story.create(&key, objects::plain_vm());
    story.fate(Effect::Create, Fate::CrashInFlight);
    story.run_for(Duration::from_millis(500));
    story.schedule.user.delete(&key);
    story.conclude();
    assert!(story.object(&key).is_none());
    assert!(
        story.sim.mock.vms().is_empty(),
        "{:?}",
        story.sim.mock.vms()
    );
}

/// A create that was answered found the VM of one that was not, and its older shape was taken for the newest.
#[test]
fn a_vm_that_an_older_declaration_made_is_brought_to_the_newest() {
    let mut story = Scenario::full(TaskMode::Immediate);
    let key = objects::vm(LAB, "a");
    story.create(&key, objects::plain_vm());
    story.fate(Effect::Create, Fate::TimesOut(Side::After));
    story.run_for(Duration::from_millis(500));
    story.edit(&key, |vm| vm["spec"]["resources"] = json!({"cpu": 5}));
    story.conclude();
    assert_eq!(story.only_vm().cpu, 5);
}

/// While one change of a field waited for a restart, the next change of it was never sent.
#[test]
fn a_second_change_of_what_waits_for_a_restart_is_sent_too() {
    let setting = Setting {
        resize: Resize::AtRestart,
        ..Setting::quiet(Offer::Full, TaskMode::Immediate)
    };
    let mut story = Scenario::new(setting);
    let key = objects::vm(LAB, "a");
    story.create(&key, objects::plain_vm());
    story.settle();
    for cpu in [5, 6] {
        story.edit(&key, |vm| vm["spec"]["resources"] = json!({ "cpu": cpu }));
        story.settle();
    }
    story.annotate(&key, polyvirt_api::names::REBOOT_ANNOTATION, "now");
    story.conclude();
    assert_eq!(story.only_vm().cpu, 6);
}

/// The provider died while it made the VM, and a VM that had been seen half made was missed for ever.
#[test]
fn a_vm_that_was_seen_half_made_and_vanished_is_made_again() {
    let mut story = Scenario::full(TaskMode::Async);
    let key = objects::vm(LAB, "a");
    story.create(&key, objects::plain_vm());
    story.fate(Effect::Create, Fate::Crash(Side::After));
    story.run_for(Duration::from_millis(500));
    story.sim.mock.restart();
    story.conclude();
    assert_eq!(story.reason(&key), "ReconcileSuccess");
}

/// A guest that was asked to stop stopped after its user had changed their mind, and that was taken for somebody else's doing.
#[test]
fn a_shutdown_that_comes_after_the_user_changed_their_mind_is_undone() {
    let mut setting = Setting::quiet(Offer::Full, TaskMode::Immediate);
    setting.times.shutdown = Duration::from_secs(12);
    let mut story = Scenario::new(setting);
    let key = objects::vm(LAB, "a");
    story.create(&key, objects::plain_vm());
    story.settle();
    story.edit(&key, |vm| vm["spec"]["powerState"] = json!("OffGraceful"));
    story.run_for(Duration::from_secs(4));
    story.edit(&key, |vm| vm["spec"]["powerState"] = json!("On"));
    story.conclude();
    assert_eq!(story.reason(&key), "ReconcileSuccess");
    assert_eq!(story.only_vm().power, PowerState::On);
}

/// A VM that nobody's name was on came late; its object waited for an image then, and nobody looked.
#[test]
fn a_vm_that_comes_while_its_image_fails_is_found() {
    let mut story = Scenario::basic(TaskMode::Immediate);
    let key = objects::vm(LAB, "a");
    story.create(&key, objects::plain_vm());
    story.fate(Effect::Create, Fate::CrashInFlight);
    while story.object(&key).expect("there")["status"]["createIntent"].is_null() {
        story.run_for(Duration::from_millis(250));
    }
    let broken = objects::image_manifest(9, true);
    story.edit(&objects::image(), |image| {
        image["spec"] = broken["spec"].clone()
    });
    story.run_for(Duration::from_secs(180));
    let id = story.object(&key).expect("there")["status"]["id"].clone();
    assert_eq!(id, story.only_vm().id.as_str());
}

/// A VM that was to be kept came after its object had gone, and the next object of that name took it for its own.
#[test]
fn a_vm_that_is_kept_and_comes_late_is_not_taken_for_another() {
    let setting = Setting {
        taken_name: TakenName::MakeAnother,
        ..Setting::quiet(Offer::Basic, TaskMode::Immediate)
    };
    let mut story = Scenario::new(setting);
    let key = objects::vm(LAB, "a");
    let mut kept = objects::plain_vm();
    kept["spec"]["deletionPolicy"] = json!("Retain");
    story.create(&key, kept);
    story.fate(Effect::Create, Fate::CrashInFlight);
    while story.object(&key).expect("there")["status"]["createIntent"].is_null() {
        story.run_for(Duration::from_millis(250));
    }
    story.schedule.user.delete(&key);
    story.run_for(Duration::from_secs(1));
    assert!(story.object(&key).is_some(), "the create is on its way");
    story.settle();
    assert!(story.object(&key).is_none());
    story.create(&key, objects::plain_vm());
    story.conclude();
}

/// A change that waited for a restart was taken back; the VM showed what was declared, and at its restart got the other size.
#[test]
fn a_change_that_waits_for_a_restart_can_be_taken_back() {
    let setting = Setting {
        resize: Resize::AtRestart,
        ..Setting::quiet(Offer::Full, TaskMode::Immediate)
    };
    let mut story = Scenario::new(setting);
    let key = objects::vm(LAB, "a");
    story.create(&key, objects::plain_vm());
    story.settle();
    let before = story.only_vm().cpu;
    for cpu in [before + 3, before] {
        story.edit(&key, |vm| vm["spec"]["resources"] = json!({ "cpu": cpu }));
        story.settle();
    }
    story.annotate(&key, polyvirt_api::names::REBOOT_ANNOTATION, "now");
    story.conclude();
    assert_eq!(story.only_vm().cpu, before);
}

/// The provider had taken a change, the API server had not taken the word of it, and the next pass knew nothing of it.
#[test]
fn what_could_not_be_written_down_is_known_all_the_same() {
    let mut story = Scenario::basic(TaskMode::Async);
    let key = objects::vm(LAB, "a");
    story.create(&key, objects::plain_vm());
    story.settle();
    story.fate(Effect::Status, Fate::Happens);
    story.fate(Effect::Status, Fate::Refused);
    story.edit(&key, |vm| vm["spec"]["powerState"] = json!("Off"));
    story.run_for(Duration::from_millis(500));
    story.edit(&key, |vm| vm["spec"]["powerState"] = json!("On"));
    story.conclude();
    assert_eq!(story.reason(&key), "ReconcileSuccess");
    assert_eq!(story.only_vm().power, PowerState::On);
}
