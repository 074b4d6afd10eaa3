//! Deletion of what VirtualMachines need, and of VirtualMachines that other objects control.
//!
//! An object in use is deleted last: the controllers hold it by a finalizer until its users are deleted or changed, so its
//! deletion is accepted in any order, as `kubectl delete -f`, Helm and GitOps tools need it. The warning names the users, for a
//! deletion cannot be taken back.

use polyvirt_api::names::IN_USE_FINALIZER;
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_engine::runtime::vm_index::Target;
use serde_json::Value;

use crate::facts::{Facts, Users};
use crate::owned;
use crate::verdict::Verdict;
use crate::wire::Request;

/// Names shown in a warning, which clients may cut off after 250 bytes.
const SHOWN: usize = 4;

/// Refuses for a VirtualMachine with an owner, warns for the rest.
pub(crate) fn deletion(request: &Request, facts: &dyn Facts) -> Verdict {
    match request.kind.kind.as_str() {
        "VirtualMachine" => owned::deletion(request, facts),
        kind => Verdict::warned(in_use(kind, request, facts).into_iter().collect()),
    }
}

/// Who uses the object, and what that means for its deletion.
fn in_use(kind: &str, request: &Request, facts: &dyn Facts) -> Option<String> {
    let old = &request.old_object["metadata"];
    let key = key(request);
    let users = facts.users(&target(kind, &key)?)?;
    // VirtualMachines that are being deleted themselves need no mention: both deletions end without further action.
    if users.count == 0 || !old["deletionTimestamp"].is_null() {
        return None;
    }
    let named = named(&users);
    Some(if is_held(old) {
        format!("{kind} {key} is used by {named}. It is deleted when they are deleted or changed")
    } else {
        format!("{kind} {key} is deleted immediately, though it is named by {named}")
    })
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

/// The first names, so many that the warning is not cut off.
fn named(users: &Users) -> String {
    let names: Vec<_> = users
        .some
        .iter()
        .take(SHOWN)
        .map(ToString::to_string)
        .collect();
    let noun = if users.count == 1 {
        "VirtualMachine"
    } else {
        "VirtualMachines"
    };
    let shown = format!("{} {noun}: {}", users.count, names.join(", "));
    match users.count.saturating_sub(names.len()) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
