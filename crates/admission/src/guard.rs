//! Deletion of what VirtualMachines need.
//!
//! The controllers keep such an object by a finalizer, so nothing is lost without this guard; but an object that is being
//! deleted cannot be brought back, and says nothing to whoever deleted it by mistake.
//!
//! A VirtualMachine that is itself being deleted is no reason to refuse: the finalizer waits for it. So the deletion of a
//! whole namespace ends by itself: its VirtualMachines go first, and the rest with the next try. One in another namespace
//! holds what it uses, and so the namespace, until it is deleted or moved. That is meant.

use polyvirt_api::names::FORCE_DELETE_ANNOTATION;
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_engine::runtime::vm_index::Target;

use crate::facts::{Facts, Users};
use crate::verdict::{Decision, Verdict};
use crate::wire::Request;

/// Refuses if somebody needs the object.
pub(crate) fn deletion(request: &Request, facts: &dyn Facts) -> Verdict {
    let old = &request.old_object["metadata"];
    let Some(target) = target(request) else {
        return Verdict::allowed();
    };
    let users = facts.users(&target).unwrap_or_default();
    if users.count == 0 || !old["deletionTimestamp"].is_null() {
        return Verdict::allowed();
    }
    let named = named(&users);
    if old["annotations"][FORCE_DELETE_ANNOTATION] == "true" {
        let text = format!("It goes when nobody uses it any more; now these do: {named}");
        return Verdict::warned(vec![text]);
    }
    let kind = &request.kind.kind;
    let message = format!(
        "{kind} {}/{} is used by {named}. Delete or change them first, or set the annotation {FORCE_DELETE_ANNOTATION}=true to have it deleted when nobody uses it any more",
        request.namespace, request.name
    );
    Verdict {
        decision: Decision::InUse(message),
        warnings: Vec::new(),
    }
}

fn target(request: &Request) -> Option<Target> {
    let key = ObjectKey::new(&request.namespace, &request.name);
    match request.kind.kind.as_str() {
        "Provider" => Some(Target::Provider(key)),
        "VMClass" => Some(Target::Class(key)),
        "VMImage" => Some(Target::Image(key)),
        "VMNetworkAttachment" => Some(Target::Network(key)),
        _ => None,
    }
}

fn named(users: &Users) -> String {
    let names: Vec<_> = users.some.iter().map(ToString::to_string).collect();
    let noun = if users.count == 1 {
        "VirtualMachine"
    } else {
        "VirtualMachines"
    };
    let shown = format!("{} {noun}: {}", users.count, names.join(", "));
    match users.count.saturating_sub(users.some.len()) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
