//! VirtualMachines that an object of another API controls.

use polyvirt_admission::{Decision, Operation, OwnerState, Request, Verdict, review};
use serde_json::{Value, json};

use crate::world::{World, manifest};

const NOVACRON: (&str, &str) = ("novacron.io/v1alpha1", "VirtualMachine");
const MACHINE: (&str, &str) = ("vitistack.io/v1alpha1", "Machine");

fn vm(owner: (&str, &str), spec: Value) -> Value {
    let mut object = manifest(
        "VirtualMachine",
        "my-vm",
        json!({"providerRef": {"name": "hv"}}),
    );
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner.0, "kind": owner.1, "name": "my-vm", "uid": "o", "controller": true,
    }]);
    json_patch::merge(&mut object, &json!({ "spec": spec }));
    object
}

fn delete(world: &World, old: Value) -> Verdict {
    world.ask("VirtualMachine", Operation::Delete, Value::Null, old)
}

fn edit(world: &World, old: &Value, spec: Value) -> Verdict {
    review(&request(old, spec), world)
}

fn request(old: &Value, spec: Value) -> Request {
    let mut new = old.clone();
    json_patch::merge(&mut new, &json!({ "spec": spec }));
    World::request("VirtualMachine", Operation::Update, new, old.clone())
}

fn refusal(verdict: &Verdict) -> &str {
    match &verdict.decision {
        Decision::Owned(message) => message,
        other => panic!("not refused for its owner: {other:?}"),
    }
}

fn managed(mut object: Value, manager: &str) -> Value {
    object["metadata"]["managedFields"] = json!([{
        "manager": manager, "operation": "Apply",
        "fieldsV1": {"f:spec": {"f:powerState": {}, "f:providerRef": {}}},
    }]);
    object
}

#[test]
fn deletion_is_refused_with_the_command_for_the_owner() {
    let world = World::furnished();
    for (owner, command) in [
        (
            NOVACRON,
            "kubectl delete virtualmachines.novacron.io/my-vm --namespace team",
        ),
        (
            MACHINE,
            "kubectl delete machines.vitistack.io/my-vm --namespace team",
        ),
    ] {
        let verdict = delete(&world, vm(owner, json!({})));
        let text = refusal(&verdict);
        assert!(text.contains(command), "{text}");
        assert!(
            text.starts_with("VirtualMachine team/my-vm is controlled by "),
            "{text}"
        );
    }
}

#[test]
fn an_unknown_owner_state_refuses_and_a_leaving_owner_does_not() {
    let mut world = World::furnished();
    for (state, refused) in [
        (OwnerState::Unknown, true),
        (OwnerState::Gone, false),
        (OwnerState::Leaving, false),
    ] {
        world.owner = state;
        let deleted = delete(&world, vm(NOVACRON, json!({})));
        assert_eq!(deleted.decision != Decision::Allowed, refused, "{state:?}");
        let old = managed(vm(NOVACRON, json!({})), "polyvirt-novacron");
        let edited = edit(&world, &old, json!({"powerState": "Off"}));
        assert_eq!(edited.decision != Decision::Allowed, refused, "{state:?}");
    }
}

#[test]
fn kubernetes_cleans_up() {
    let world = World::furnished();
    for user in [
        "system:serviceaccount:kube-system:generic-garbage-collector",
        "system:serviceaccount:kube-system:namespace-controller",
        "system:kube-controller-manager",
    ] {
        let old = vm(MACHINE, json!({}));
        let mut request = World::request("VirtualMachine", Operation::Delete, Value::Null, old);
        user.clone_into(&mut request.user_info.username);
        assert_eq!(review(&request, &world), Verdict::allowed());
    }
}

#[test]
fn forced_deletion_passes_with_a_warning() {
    let mut old = vm(NOVACRON, json!({}));
    old["metadata"]["annotations"] = json!({"virtrigaud.io/force-delete": "true"});
    let verdict = delete(&World::furnished(), old);
    assert_eq!(verdict.decision, Decision::Allowed);
    let text = verdict.warnings.concat();
    assert!(text.contains("virtualmachines.novacron.io/my-vm"), "{text}");
}

#[test]
fn owners_of_other_apis_and_owners_without_control_do_not_matter() {
    let world = World::furnished();
    let other = vm(("apps/v1", "ReplicaSet"), json!({}));
    assert_eq!(delete(&world, other).decision, Decision::Allowed);
    let mut loose = vm(NOVACRON, json!({}));
    loose["metadata"]["ownerReferences"][0]["controller"] = json!(false);
    assert_eq!(delete(&world, loose).decision, Decision::Allowed);
    let mut leaving = vm(NOVACRON, json!({}));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(delete(&world, leaving), Verdict::allowed());
}

#[test]
fn an_edit_is_refused_with_the_command_for_the_owner() {
    let world = World::furnished();
    let novacron = managed(
        vm(NOVACRON, json!({"powerState": "On"})),
        "polyvirt-novacron",
    );
    let verdict = edit(&world, &novacron, json!({"powerState": "Off"}));
    assert_eq!(
        refusal(&verdict),
        "spec.powerState: VirtualMachine team/my-vm is controlled by virtualmachines.novacron.io/my-vm, which would undo the change. \
         Change the owner: kubectl patch virtualmachines.novacron.io/my-vm --type merge -p '{\"spec\":{\"running\":false}}' --namespace team"
    );
    let machine = managed(
        vm(MACHINE, json!({"powerState": "On"})),
        "polyvirt-vitistack",
    );
    let verdict = edit(&world, &machine, json!({"powerState": "OffGraceful"}));
    let command = "kubectl annotate machines.vitistack.io/my-vm --overwrite vitistack.io/power-state=OffGraceful --namespace team";
    assert!(
        refusal(&verdict).ends_with(command),
        "{}",
        refusal(&verdict)
    );
    let verdict = edit(&world, &machine, json!({"tags": ["x"], "snapshot": {}}));
    let text = refusal(&verdict);
    assert!(text.starts_with("spec.tags: "), "{text}");
    assert!(
        text.contains("kubectl edit machines.vitistack.io/my-vm"),
        "{text}"
    );
}

#[test]
fn requests_that_the_owner_does_not_make_pass() {
    let world = World::furnished();
    let machine = vm(
        MACHINE,
        json!({"classRef": {"name": "small"}, "imageRef": {"name": "base"}}),
    );
    let off = edit(&world, &machine, json!({"powerState": "OffGraceful"}));
    assert_eq!(off.decision, Decision::Allowed);
    let revert = json!({"snapshot": {"revertToRef": {"name": "s"}}});
    assert_eq!(edit(&world, &machine, revert).decision, Decision::Allowed);
}

#[test]
fn writes_of_the_manager_pass_under_any_account() {
    let world = World::furnished();
    let old = vm(
        NOVACRON,
        json!({"classRef": {"name": "small"}, "imageRef": {"name": "base"}}),
    );
    for manager in ["polyvirt", "polyvirt-novacron", "polyvirt-vitistack"] {
        let mut request = request(&old, json!({"tags": ["x"]}));
        manager.clone_into(&mut request.options.field_manager);
        assert_eq!(review(&request, &world).decision, Decision::Allowed);
    }
}
