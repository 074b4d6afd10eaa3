//! Old faults do not stand in the way of edits that do not touch them.

use polyvirt_admission::{Decision, Operation};
use serde_json::{Value, json};

use crate::world::{World, fields, manifest};

const KIND: &str = "VirtualMachine";

fn vm(mac_a: &str, mac_b: &str, tags: &[&str]) -> Value {
    json!({
        "providerRef": {"name": "hv"}, "tags": tags,
        "networks": [{"name": "a", "macAddress": mac_a}, {"name": "b", "macAddress": mac_b}],
    })
}

const ONE: &str = "52:54:00:00:00:01";
const TWO: &str = "52:54:00:00:00:02";

#[test]
fn an_old_fault_may_stay_and_a_new_one_may_not_come() {
    let world = World::default();
    let broken = vm(ONE, ONE, &[]);
    assert_eq!(fields(&world.create(KIND, broken.clone())).len(), 1);
    let touched = world.update(KIND, broken.clone(), vm(ONE, ONE, &["x"]));
    assert_eq!(touched.decision, Decision::Allowed);
    let mended = world.update(KIND, broken.clone(), vm(ONE, TWO, &[]));
    assert_eq!(mended.decision, Decision::Allowed);
    let worse = world.update(KIND, broken, vm(ONE, "01:00:00:00:00:01", &[]));
    assert_eq!(fields(&worse), ["spec.networks[b].macAddress"]);
    let spoilt = world.update(KIND, vm(ONE, TWO, &[]), vm(ONE, ONE, &[]));
    assert_eq!(fields(&spoilt), ["spec.networks[b].macAddress"]);
}

#[test]
fn an_old_fault_that_only_moved_in_its_list_may_stay() {
    let card = |name: &str, mac: &str| json!({"name": name, "macAddress": mac});
    let spec = |cards: Value| json!({"providerRef": {"name": "hv"}, "networks": cards});
    let group = "01:00:00:00:00:01";
    let old = spec(json!([card("a", ONE), card("b", group)]));
    let new = spec(json!([card("b", group)]));
    assert_eq!(
        World::default().update(KIND, old, new).decision,
        Decision::Allowed
    );
}

#[test]
fn edits_of_metadata_always_pass() {
    let mut new = manifest(KIND, "it", vm(ONE, ONE, &[]));
    new["metadata"]["finalizers"] = json!(["x"]);
    let old = manifest(KIND, "it", vm(ONE, ONE, &[]));
    let verdict = World::default().ask(KIND, Operation::Update, new, old);
    assert_eq!(verdict.decision, Decision::Allowed);
    assert!(verdict.warnings.is_empty());
}

#[test]
fn an_object_on_its_way_out_always_passes() {
    let mut new = manifest(KIND, "it", vm(ONE, ONE, &[]));
    new["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let old = manifest(KIND, "it", vm(ONE, TWO, &[]));
    let verdict = World::default().ask(KIND, Operation::Update, new, old);
    assert_eq!(verdict.decision, Decision::Allowed);
}

#[test]
fn other_groups_and_kinds_pass() {
    let verdict = World::default().create("VMTeleport", json!({"a": 1}));
    assert_eq!(verdict.decision, Decision::Allowed);
}
