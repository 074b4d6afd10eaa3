//! Deletion of what VirtualMachines need.
//!
//! The controllers keep such an object by a finalizer, so nothing is lost without this guard; but an object that is being
//! deleted cannot be brought back, and says nothing to whoever deleted it by mistake.
//!
//! VirtualMachines that are themselves being deleted are no reason to refuse once the finalizer is on the object: it waits
//! for them. Before that they are, for a VM whose Provider is gone can no longer be taken down. So the deletion of a whole
//! namespace ends by itself: its VirtualMachines go first, and the rest with a later try. One in another namespace holds what
//! it uses, and so the namespace, until it is deleted or moved. That is meant.

use polyvirt_api::names::{FORCE_DELETE_ANNOTATION, IN_USE_FINALIZER};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_engine::runtime::vm_index::Target;
use serde_json::Value;

use crate::facts::{Facts, Users};
use crate::verdict::{Decision, Verdict};
use crate::wire::Request;

/// Refuses if somebody needs the object.
pub(crate) fn deletion(request: &Request, facts: &dyn Facts) -> Verdict {
    let old = &request.old_object["metadata"];
    let key = key(request);
    let Some(target) = target(&request.kind.kind, &key) else {
        return Verdict::allowed();
    };
    let users = facts.users(&target).unwrap_or_default();
    let needed = users.count > 0 || users.leaving > 0 && !is_held(old);
    if !needed || !old["deletionTimestamp"].is_null() {
        return Verdict::allowed();
    }
    if is_held(old) && old["annotations"][FORCE_DELETE_ANNOTATION] == "true" {
        let text = format!(
            "It goes when nobody uses it any more; now these do: {}",
            named(&users)
        );
        return Verdict::warned(vec![text]);
    }
    Verdict {
        decision: Decision::InUse(refusal(&request.kind.kind, &key, &users)),
        warnings: Vec::new(),
    }
}

/// Whether the object stays until the controllers let it go.
fn is_held(metadata: &Value) -> bool {
    let finalizers = metadata["finalizers"].as_array();
    finalizers.is_some_and(|all| all.iter().any(|one| one == IN_USE_FINALIZER))
}

/// The request has no name where a whole collection is deleted; the object has.
fn key(request: &Request) -> ObjectKey {
    let name = request.old_object["metadata"]["name"].as_str();
    ObjectKey::new(&request.namespace, name.unwrap_or(&request.name))
}

fn refusal(kind: &str, key: &ObjectKey, users: &Users) -> String {
    let what = format!("{kind} {key}");
    if users.count == 0 {
        return format!(
            "{what} is needed until {} VirtualMachines that are being deleted are gone. Try again then",
            users.leaving
        );
    }
    format!(
        "{what} is used by {}. Delete or change them first, or set the annotation {FORCE_DELETE_ANNOTATION}=true to have it deleted when nobody uses it any more",
        named(users)
    )
}

fn target(kind: &str, key: &ObjectKey) -> Option<Target> {
    let key = key.clone();
    match kind {
        "Provider" => Some(Target::Provider(key)),
        "VMClass" => Some(Target::Class(key)),
        "VMImage" => Some(Target::Image(key)),
        "VMNetworkAttachment" => Some(Target::Network(key)),
        "VMPlacementPolicy" => Some(Target::Policy(key)),
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
