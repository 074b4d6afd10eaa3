//! From a question to a verdict. Pure.
//!
//! ```text
//!   DELETE ─────────────────────────────► guard: controlled by another object? still used?
//!   being deleted, or spec as before ───► allowed, whatever else it says
//!   otherwise ─► problems now − problems before ─► any left: refused
//!              └► warnings ───────────────────────► told in any case
//! ```

use polyvirt_api::infra::{
    Provider, VMClass, VMClone, VMImage, VMMigration, VMNetworkAttachment, VMPlacementPolicy,
    VMSet, VMSnapshot, VirtualMachine,
};
use polyvirt_api::names::GROUP;
use polyvirt_api::novacron;
use serde_json::Value;

use crate::facts::Facts;
use crate::guard;
use crate::owned;
use crate::rules::Judged;
use crate::verdict::Verdict;
use crate::wire::{Operation, Request};

/// Whether the request goes on, and what the user is told.
pub fn review(request: &Request, facts: &dyn Facts) -> Verdict {
    let changes = matches!(request.operation, Operation::Create | Operation::Update);
    match (request.kind.group.as_str(), request.operation) {
        (GROUP, Operation::Delete) => guard::deletion(request, facts),
        (GROUP, _) if changes => of_kind(request, facts),
        (novacron::GROUP, _) if changes => of_novacron(request, facts),
        _ => Verdict::allowed(),
    }
}

fn of_kind(request: &Request, facts: &dyn Facts) -> Verdict {
    match request.kind.kind.as_str() {
        "VirtualMachine" => of_vm(request, facts),
        "Provider" => judge::<Provider>(request, facts),
        "VMClass" => judge::<VMClass>(request, facts),
        "VMImage" => judge::<VMImage>(request, facts),
        "VMNetworkAttachment" => judge::<VMNetworkAttachment>(request, facts),
        "VMSnapshot" => judge::<VMSnapshot>(request, facts),
        "VMClone" => judge::<VMClone>(request, facts),
        "VMMigration" => judge::<VMMigration>(request, facts),
        "VMSet" => judge::<VMSet>(request, facts),
        "VMPlacementPolicy" => judge::<VMPlacementPolicy>(request, facts),
        _ => Verdict::allowed(),
    }
}

/// A VM that another object controls is changed by its owner only.
fn of_vm(request: &Request, facts: &dyn Facts) -> Verdict {
    if is_settled(request) {
        return Verdict::allowed();
    }
    owned::edit(request, facts).unwrap_or_else(|| judge::<VirtualMachine>(request, facts))
}

fn of_novacron(request: &Request, facts: &dyn Facts) -> Verdict {
    match request.kind.kind.as_str() {
        "VirtualMachine" => judge::<novacron::VirtualMachine>(request, facts),
        _ => Verdict::allowed(),
    }
}

fn judge<K: Judged>(request: &Request, facts: &dyn Facts) -> Verdict {
    if is_settled(request) {
        return Verdict::allowed();
    }
    let new: K = match read(request, &request.object) {
        Ok(new) => new,
        Err(why) => return Verdict::warned(vec![why]),
    };
    let old = (request.operation == Operation::Update)
        .then(|| read::<K>(request, &request.old_object).ok())
        .flatten();
    let mut problems = new.problems(facts);
    if let Some(old) = &old {
        let known = old.problems(facts);
        problems.retain(|problem| !known.contains(problem));
        problems.extend(new.forbidden_changes(old, facts));
    }
    Verdict::of(problems, new.warnings(old.as_ref(), facts))
}

/// Nothing that a user wants of it changes, or it is on its way out: finalizers must always come off.
fn is_settled(request: &Request) -> bool {
    let leaving = !request.object["metadata"]["deletionTimestamp"].is_null();
    let same = request.object.get("spec") == request.old_object.get("spec");
    request.operation == Operation::Update && (leaving || same)
}

/// The schema was checked before, so an object that cannot be read is of a newer version than this program.
fn read<K: Judged>(request: &Request, object: &Value) -> Result<K, String> {
    let read = K::deserialize(placed(request, object));
    read.map_err(|error| {
        format!("This manager cannot read the object and leaves it alone ({error}); is it older than the definitions?")
    })
}

/// The namespace is not in the object when it is made from a manifest without one.
fn placed(request: &Request, object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let namespace = Value::from(request.namespace.as_str());
        metadata.entry("namespace").or_insert(namespace);
    }
    object
}
