//! Which snapshot a VM is to go back to.

use polyvirt_api::infra::{VMSnapshot, VirtualMachine};
use polyvirt_plan::Reason;
use polyvirt_plan::virtual_machine::RevertTarget;
use polyvirt_plan::virtual_machine::revert::wish;
use serde_json::{Value, json};

fn vm(name: &str) -> VirtualMachine {
    serde_json::from_value(json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
        "metadata": {"name": name},
        "spec": {"providerRef": {"name": "p"}, "snapshot": {"revertToRef": {"name": "s"}}},
        "status": {"id": "vm-1"},
    }))
    .expect("valid")
}

fn snapshot(status: &Value) -> VMSnapshot {
    serde_json::from_value(json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMSnapshot",
        "metadata": {"name": "s", "uid": "u"},
        "spec": {"vmRef": {"name": "a"}},
        "status": status,
    }))
    .expect("valid")
}

fn of_vm(id: &str, phase: &str) -> VMSnapshot {
    let place = json!({"providerRef": {"name": "p"}, "id": id, "identity": "me"});
    snapshot(&json!({"phase": phase, "snapshotID": "s-1", "vm": place}))
}

fn why_not(vm: &VirtualMachine, snapshot: Option<&VMSnapshot>) -> Reason {
    let wish = wish(vm, snapshot).expect("a wish");
    wish.target.expect_err("impossible").reason
}

#[test]
fn only_a_ready_snapshot_of_the_same_vm_is_gone_back_to() {
    let target = wish(&vm("a"), Some(&of_vm("vm-1", "Ready"))).expect("a wish");
    let expected = RevertTarget {
        uid: "u".into(),
        id: "s-1".into(),
    };
    assert_eq!(target.target, Ok(expected));
    assert_eq!(why_not(&vm("a"), None), Reason::SnapshotNotFound);
    let early = of_vm("vm-1", "Creating");
    assert_eq!(why_not(&vm("a"), Some(&early)), Reason::SnapshotNotReady);
    let ready = of_vm("vm-1", "Ready");
    assert_eq!(why_not(&vm("b"), Some(&ready)), Reason::SnapshotOfAnotherVm);
    let earlier_vm = of_vm("vm-0", "Ready");
    assert_eq!(
        why_not(&vm("a"), Some(&earlier_vm)),
        Reason::SnapshotOfAnotherVm
    );
}

#[test]
fn an_empty_field_is_no_wish() {
    let mut vm = vm("a");
    vm.spec.snapshot = None;
    assert_eq!(wish(&vm, Some(&of_vm("vm-1", "Ready"))), None);
}
