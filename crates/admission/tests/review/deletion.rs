//! Deletion of what is in use.

use polyvirt_admission::{Decision, Operation, Verdict};
use serde_json::{Value, json};

use crate::world::{World, assert_warned, manifest};

fn delete(world: &World, kind: &str, metadata: Value) -> Verdict {
    let mut old = manifest(kind, "it", json!({}));
    json_patch::merge(&mut old, &json!({ "metadata": metadata }));
    world.ask(kind, Operation::Delete, Value::Null, old)
}

const GUARDED: [&str; 4] = ["Provider", "VMClass", "VMImage", "VMNetworkAttachment"];

#[test]
fn what_vms_use_stays() {
    let world = World::default().used("it", 12);
    for kind in GUARDED {
        let Decision::InUse(message) = delete(&world, kind, json!({})).decision else {
            panic!("{kind} was let go");
        };
        let start = format!("{kind} team/it is used by 12 VirtualMachines: team/vm-0, ");
        assert!(message.starts_with(&start), "{message}");
        assert!(
            message.contains("team/vm-9 and 2 more. Delete or change them first"),
            "{message}"
        );
    }
}

#[test]
fn one_user_is_one() {
    let verdict = delete(&World::default().used("it", 1), "VMClass", json!({}));
    let Decision::InUse(message) = verdict.decision else {
        panic!("let go");
    };
    assert!(
        message.contains("used by 1 VirtualMachine: team/vm-0. Delete"),
        "{message}"
    );
}

#[test]
fn what_nobody_uses_goes() {
    for kind in GUARDED
        .into_iter()
        .chain(["VirtualMachine", "VMSnapshot", "VMSet"])
    {
        assert_eq!(
            delete(&World::default(), kind, json!({})),
            Verdict::allowed()
        );
    }
    let vm = delete(&World::default().used("it", 3), "VirtualMachine", json!({}));
    assert_eq!(vm, Verdict::allowed());
}

#[test]
fn who_cannot_tell_does_not_refuse() {
    let mut world = World::default().used("it", 3);
    world.blind = true;
    assert_eq!(delete(&world, "Provider", json!({})), Verdict::allowed());
}

#[test]
fn what_is_being_deleted_already_may_be_deleted_again() {
    let world = World::default().used("it", 3);
    let leaving = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    assert_eq!(delete(&world, "Provider", leaving), Verdict::allowed());
}

#[test]
fn a_wish_to_force_it_is_heard() {
    let world = World::default().used("it", 3);
    let forced = json!({
        "annotations": {"virtrigaud.io/force-delete": "true"},
        "finalizers": ["infra.virtrigaud.io/in-use"],
    });
    let verdict = delete(&world, "Provider", forced);
    assert_eq!(verdict.decision, Decision::Allowed);
    assert_warned(&verdict, &["when nobody uses it any more"]);
}

#[test]
fn users_on_their_way_out_are_waited_for_by_the_finalizer_or_by_us() {
    let world = World::default().also_by_leaving(2);
    let held = json!({"finalizers": ["infra.virtrigaud.io/in-use"]});
    assert_eq!(delete(&world, "Provider", held), Verdict::allowed());
    let Decision::InUse(message) = delete(&world, "Provider", json!({})).decision else {
        panic!("let go while VMs need it");
    };
    assert!(
        message.contains("until 2 VirtualMachines that are being deleted are gone"),
        "{message}"
    );
}

#[test]
fn a_wish_to_force_it_does_not_lose_what_nothing_holds_yet() {
    let world = World::default().used("it", 3);
    let forced = json!({"annotations": {"virtrigaud.io/force-delete": "true"}});
    let verdict = delete(&world, "Provider", forced);
    assert!(matches!(verdict.decision, Decision::InUse(_)));
}

/// As the API server asks when a collection is deleted.
#[test]
fn a_request_without_a_name_is_about_the_object_in_it() {
    let world = World::default().used("other", 1);
    let old = manifest("Provider", "other", json!({}));
    let verdict = world.ask("Provider", Operation::Delete, Value::Null, old);
    let Decision::InUse(message) = verdict.decision else {
        panic!("let go");
    };
    assert!(
        message.starts_with("Provider team/other is used by"),
        "{message}"
    );
}
