//! Deletion of what is in use.

use polyvirt_admission::{Decision, Operation, Verdict};
use serde_json::{Value, json};

use crate::world::{World, manifest};

fn delete(world: &World, kind: &str, metadata: Value) -> Verdict {
    let mut old = manifest(kind, "it", json!({}));
    json_patch::merge(&mut old, &json!({ "metadata": metadata }));
    world.ask(kind, Operation::Delete, Value::Null, old)
}

const GUARDED: [&str; 5] = [
    "Provider",
    "VMClass",
    "VMImage",
    "VMNetworkAttachment",
    "VMPlacementPolicy",
];

fn held() -> Value {
    json!({"finalizers": ["infra.virtrigaud.io/in-use"]})
}

#[test]
fn deletion_of_an_object_in_use_is_accepted_with_a_warning_that_names_users() {
    let world = World::default().used("it", 12);
    for kind in GUARDED {
        let verdict = delete(&world, kind, held());
        assert_eq!(verdict.decision, Decision::Allowed);
        assert_eq!(
            verdict.warnings,
            [format!(
                "{kind} team/it is used by 12 VirtualMachines: team/vm-0, team/vm-1, team/vm-2, team/vm-3 and 8 more. \
                 It is deleted when they are deleted or changed"
            )]
        );
    }
}

#[test]
fn one_user_is_one() {
    let verdict = delete(&World::default().used("it", 1), "VMClass", held());
    let text = "VMClass team/it is used by 1 VirtualMachine: team/vm-0. It is deleted when they are deleted or changed";
    assert_eq!(verdict.warnings, [text]);
}

#[test]
fn an_object_without_the_finalizer_is_said_to_be_deleted_immediately() {
    let verdict = delete(&World::default().used("it", 1), "VMClass", json!({}));
    assert_eq!(verdict.decision, Decision::Allowed);
    let text =
        "VMClass team/it is deleted immediately, though it is named by 1 VirtualMachine: team/vm-0";
    assert_eq!(verdict.warnings, [text]);
}

#[test]
fn unused_objects_and_kinds_that_are_not_used_are_deleted_silently() {
    let others = ["VirtualMachine", "VMSnapshot", "VMSet"];
    for kind in GUARDED.into_iter().chain(others) {
        let verdict = delete(&World::default(), kind, json!({}));
        assert_eq!(verdict, Verdict::allowed());
    }
    let vm = delete(&World::default().used("it", 3), "VirtualMachine", json!({}));
    assert_eq!(vm, Verdict::allowed());
}

#[test]
fn a_manager_without_caches_does_not_warn() {
    let mut world = World::default().used("it", 3);
    world.blind = true;
    assert_eq!(delete(&world, "Provider", held()), Verdict::allowed());
}

#[test]
fn a_second_deletion_does_not_warn_again() {
    let world = World::default().used("it", 3);
    let leaving = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    assert_eq!(delete(&world, "Provider", leaving), Verdict::allowed());
}

#[test]
fn users_that_are_being_deleted_are_not_mentioned() {
    let world = World::default().also_by_leaving(2);
    assert_eq!(delete(&world, "Provider", held()), Verdict::allowed());
}

/// As the API server asks when a collection is deleted.
#[test]
fn a_request_without_a_name_is_about_the_object_in_it() {
    let world = World::default().used("other", 1);
    let old = manifest("Provider", "other", json!({}));
    let verdict = world.ask("Provider", Operation::Delete, Value::Null, old);
    let text = verdict.warnings.concat();
    assert!(text.starts_with("Provider team/other is "), "{text}");
}
