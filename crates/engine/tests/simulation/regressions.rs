//! What schedules have found, each told by hand so that it stays found whatever becomes of the seeds.

use std::time::Duration;

use polyvirt_api::names::REBOOT_ANNOTATION;
use polyvirt_contract::model::Stage;
use polyvirt_provider_mock::{Offer, Often, Resize, Rpc, Rule, TaskMode};
use serde_json::{Value, json};

use crate::effect::{Effect, Fate, Side};
use crate::objects::{self, LAB};
use crate::scenario::Scenario;
use crate::setting::{Setting, TakenName};

/// A create whose answer was lost was found again by the stream, but its id was never written down.
#[test]
fn a_vm_that_the_stream_told_of_gets_its_id_written() {
    let mut story = Scenario::full(TaskMode::Immediate);
    let key = objects::vm(LAB, "a");
    story.create(&key, objects::plain_vm());
    story.fate(Effect::Create, Fate::TimesOut(Side::After));
    story.conclude();
    assert_eq!(
        story.object(&key).expect("there")["status"]["id"],
        story.only_vm().id.as_str()
    );
}

/// Where a provider does not speak of our cards, an edit of the networks was taken as done.
#[test]
fn an_edit_that_the_provider_cannot_confirm_is_sent_all_the_same() {
    let mut story = Scenario::basic(TaskMode::Immediate);
    let key = objects::vm(LAB, "a");
    story.create(&key, objects::plain_vm());
    story.settle();
    story.edit(&key, |vm| {
        vm["spec"]["networks"] = json!([{"name": "eth0"}])
    });
    story.conclude();
}

/// The word of a task's end got lost with the stream that should have told it, and was waited for ever after.
#[test]
fn a_task_that_ended_between_two_streams_is_asked_for() {
    let mut story = Scenario::full(TaskMode::Async);
    let key = objects::vm(LAB, "a");
    story.create(&key, objects::plain_vm());
    story.run_for(Duration::from_secs(1));
    story.sim.mock.faults().break_watches();
    story.sim.advance(Duration::from_secs(5));
    story.conclude();
    assert_eq!(story.reason(&key), "ReconcileSuccess");
}

/// A provider that forgets a task says nothing of its end, and nobody asked.
#[test]
fn a_task_that_the_provider_forgot_is_asked_for_when_the_stream_stays_silent() {
    let mut story = Scenario::full(TaskMode::Async);
    story
        .sim
        .mock
        .faults()
        .add(Rule::ForgetTask(Often::Times(1)));
    let key = objects::vm(LAB, "a");
    story.create(&key, objects::plain_vm());
    story.settle();
    story.conclude();
    assert_eq!(story.reason(&key), "ReconcileSuccess");
}

/// A create that failed half way was never sent again, because the stream reported the VM as being created.
#[test]
fn a_vm_that_was_left_half_created_is_completed() {
    for restart in [false, true] {
        let mut story = Scenario::full(TaskMode::Async);
        let sim = story.sim.clone();
        sim.mock.faults().add(Rule::HalfCreate(Often::Always));
        let key = objects::vm(LAB, "a");
        story.create(&key, objects::plain_vm());
        story.run_for(Duration::from_mins(3));
        let half = story.only_vm();
        assert_eq!(half.stage, Stage::Creating);
        // The error stays in the status, and the pauses grow.
        assert_eq!(story.reason(&key), "CapacityExhausted");
        let tried = story.sim.mock.counts().of(Rpc::Create).calls;
        assert!((5..15).contains(&tried), "{tried} creates in 3 minutes");
        if restart {
            story.sim.world().crashed = true;
        }
        sim.mock.faults().clear();
        story.conclude();
        assert_eq!(story.reason(&key), "ReconcileSuccess");
        assert_eq!(story.only_vm().id, half.id);
    }
}

/// What a VM was made with is not known when the answer was lost; the newest declaration was written down as applied.
#[test]
fn an_edit_after_a_create_without_an_answer_is_not_taken_as_done() {
    let mut story = Scenario::basic(TaskMode::Immediate);
    let key = objects::vm(LAB, "a");
    story.create(&key, objects::plain_vm());
    story.fate(Effect::Create, Fate::AnswerLost);
    story.run_for(Duration::from_secs(1));
    story.edit(&key, |vm| {
        vm["spec"]["networks"] = json!([{"name": "eth0"}])
    });
    story.conclude();
}

/// The same where the answer came, and the edit before the first report.
#[test]
fn an_edit_while_the_vm_is_made_is_not_taken_as_done() {
    let mut story = Scenario::basic(TaskMode::Async);
    let key = objects::vm(LAB, "a");
    story.create(&key, objects::plain_vm());
    story.run_for(Duration::from_secs(1));
    story.edit(&key, |vm| {
        vm["spec"]["networks"] = json!([{"name": "eth0"}])
    });
    story.conclude();
}

/// An API server that did not answer was taken for a Secret that is wrong, and nothing woke the object again.
#[test]
fn a_secret_that_could_not_be_read_is_read_again() {
    let mut story = Scenario::full(TaskMode::Immediate);
    let key = objects::vm(LAB, "a");
    let mut object = objects::plain_vm();
    object["spec"]["userData"] = json!({"cloudInit": {"secretRef": {"name": objects::SECRET}}});
    story.create(&key, object);
    story.fate(Effect::Secret, Fate::Refused);
    story.fate(Effect::Secret, Fate::Refused);
    story.conclude();
    assert_eq!(story.reason(&key), "ReconcileSuccess");
}

/// A provider that changes running VMs, but not in every way, and cannot say so: our own change was told as drift.
#[test]
fn what_a_running_vm_did_not_take_up_waits_for_a_restart_and_is_no_drift() {
    let setting = Setting {
        resize: Resize::Online,
        ..Setting::quiet(Offer::Basic, TaskMode::Immediate)
    };
    let mut story = Scenario::new(setting);
    let key = objects::vm(LAB, "a");
    story.create(&key, objects::plain_vm());
    story.settle();
    story.edit(&key, |vm| vm["spec"]["resources"] = json!({"cpu": 1}));
    story.conclude();
    let object = story.object(&key).expect("there");
    assert_eq!(
        object["status"]["restartRequired"],
        json!(["spec.resources.cpu"])
    );
    story.edit(&key, |vm| {
        vm["spec"]["reconfigurePolicy"] = json!({"restart": "WhenNeeded"})
    });
    story.conclude();
    assert_eq!(story.only_vm().cpu, 1);
}

/// The manager died while a create was under way; the object was deleted, and went before the VM came.
#[test]
fn an_object_stays_while_a_create_that_nobody_remembers_may_still_show() {
    let mut story = Scenario::basic(TaskMode::Immediate);
    let key = objects::vm(LAB, "a");
    story.create(&key, objects::plain_vm());
    story.fate(Effect::Create, Fate::CrashInFlight);
    story.run_for(Duration::from_secs(1));
    story.schedule.user.delete(&key);
    story.conclude();
    assert!(story.object(&key).is_none());
    assert!(story.sim.mock.vms().is_empty());
}

/// We stopped a VM, the answer was lost, and the user wanted it back: our own doing was told as drift.
#[test]
fn a_change_of_power_that_was_taken_back_is_no_drift() {
    for fate in [Fate::AnswerLost, Fate::Crash(Side::After)] {
        let mut story = Scenario::full(TaskMode::Immediate);
        let key = objects::vm(LAB, "a");
        story.create(&key, objects::plain_vm());
        story.settle();
        story.fate(Effect::Power, fate);
        story.edit(&key, |vm| vm["spec"]["powerState"] = json!("Off"));
        story.run_for(Duration::from_millis(750));
        story.edit(&key, |vm| vm["spec"]["powerState"] = json!("On"));
        story.conclude();
        assert_eq!(story.reason(&key), "ReconcileSuccess", "{fate:?}");
    }
}

/// The same for the size.
#[test]
fn a_change_of_size_that_was_taken_back_is_no_drift() {
    for fate in [Fate::AnswerLost, Fate::Crash(Side::After)] {
        let mut story = Scenario::full(TaskMode::Immediate);
        let key = objects::vm(LAB, "a");
        let mut object = objects::plain_vm();
        object["spec"]["powerState"] = json!("Off");
        story.create(&key, object);
        story.settle();
        story.fate(Effect::Reconfigure, fate);
        story.edit(&key, |vm| {
            vm["spec"]["disks"] = json!([{"name": "data", "sizeGiB": 1}])
        });
        story.run_for(Duration::from_millis(750));
        story.edit(&key, |vm| vm["spec"]["disks"] = json!([]));
        story.conclude();
        assert_eq!(story.reason(&key), "ReconcileSuccess", "{fate:?}");
    }
}

/// A VM that was made anew was left off: being off looked like drift of the old one.
#[test]
fn a_vm_that_is_made_anew_is_started() {
    for fate in [Fate::Happens, Fate::Crash(Side::After)] {
        let mut story = Scenario::full(TaskMode::Immediate);
        let key = objects::vm(LAB, "a");
        let mut object = objects::plain_vm();
        object["spec"]["driftPolicy"] = json!({"deletion": "Recreate"});
        story.create(&key, object);
        story.settle();
        story.fate(Effect::Create, fate);
        story.schedule.meddler.delete(&story.only_vm().id);
        story.conclude();
        assert_eq!(story.reason(&key), "ReconcileSuccess", "{fate:?}");
    }
}

/// Made anew without identities: the old id stood in the way of finding the new VM, and a third one was made.
#[test]
fn a_vm_that_is_made_anew_is_made_once() {
    let setting = Setting {
        taken_name: TakenName::MakeAnother,
        ..Setting::quiet(Offer::Basic, TaskMode::Immediate)
    };
    let mut story = Scenario::new(setting);
    let key = objects::vm(LAB, "a");
    let mut object = objects::plain_vm();
    object["spec"]["driftPolicy"] = json!({"deletion": "Recreate"});
    story.create(&key, object);
    story.settle();
    story.fate(Effect::Create, Fate::AnswerLost);
    story.schedule.meddler.delete(&story.only_vm().id);
    story.conclude();
    assert_eq!(story.reason(&key), "ReconcileSuccess");
}

/// A copy of an object showed the VM of the original as its own.
#[test]
fn a_copy_of_an_object_does_not_speak_of_the_originals_vm() {
    let mut story = Scenario::full(TaskMode::Immediate);
    let (key, copy) = (objects::vm(LAB, "a"), objects::vm(LAB, "copy"));
    story.create(&key, objects::plain_vm());
    story.settle();
    let mut object = objects::plain_vm();
    let identity = story.object(&key).expect("there")["metadata"]["annotations"].clone();
    object["metadata"]["annotations"] = identity;
    story.create(&copy, object);
    story.conclude();
    assert_eq!(story.reason(&copy), "IdentityConflict");
    assert!(story.object(&copy).expect("there")["status"]["id"].is_null());
}

/// The answer to our own write brought an edit with it; the watch had nothing newer to tell, and nobody looked again.
#[test]
fn an_edit_that_comes_with_the_answer_to_our_own_write_is_seen() {
    let mut story = Scenario::full(TaskMode::Immediate);
    let key = objects::vm(LAB, "a");
    let mut object = objects::plain_vm();
    object["spec"]["powerState"] = json!("Off");
    story.create(&key, object);
    story.settle();
    story.edit(&key, |vm| vm["spec"]["deletionPolicy"] = json!("Delete"));
    story.deliver();
    let edit = |vm: &mut Value| vm["spec"]["resources"] = json!({"cpu": 5});
    story.unnoticed(|story| story.edit(&key, edit), Duration::from_secs(5));
    story.conclude();
}

/// The same for an annotation, which moves no generation.
#[test]
fn a_reboot_that_comes_with_the_answer_to_our_own_write_is_seen() {
    let mut story = Scenario::full(TaskMode::Immediate);
    let key = objects::vm(LAB, "a");
    story.create(&key, objects::plain_vm());
    story.run_for(Duration::from_millis(3500));
    let boots = |story: &Scenario| story.only_vm().details["boots"].clone();
    story.unnoticed(
        |story| story.annotate(&key, REBOOT_ANNOTATION, "now"),
        Duration::from_secs(5),
    );
    story.conclude();
    assert_eq!(boots(&story), "2");
}

/// The same for a class, whose edit concerns the VMs that use it.
#[test]
fn an_edit_of_a_class_that_comes_with_the_answer_to_our_own_write_is_seen() {
    let mut story = Scenario::full(TaskMode::Immediate);
    let mut object = objects::plain_vm();
    object["spec"]["powerState"] = json!("Off");
    story.create(&objects::vm(LAB, "a"), object.clone());
    story.settle();
    object["spec"]["class"] = json!({"cpu": 1, "memory": "1Gi"});
    story.create(&objects::vm(LAB, "b"), object);
    story.run_for(Duration::from_millis(2250));
    let edit = |class: &mut Value| class["spec"]["cpu"] = json!(5);
    story.unnoticed(
        |story| story.edit(&objects::class(), edit),
        Duration::from_secs(5),
    );
    story.conclude();
}
