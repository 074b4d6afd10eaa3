//! Fields that depend on more than the schema. Few, for whatever is added here shows up beside what people wrote: only the user
//! who asked for a clone or a migration. The API server alone knows that, so what a manifest says of it is replaced.

use json_patch::Patch;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation};
use serde_json::{Value, json};

use crate::wire::{Operation, Request};

/// The longest name that the schema takes.
const LONGEST_NAME: usize = 255;

/// The kinds that have such a field, by their names in URLs.
pub const RESOURCES: [&str; 2] = ["vmclones", "vmmigrations"];

/// What is to be changed. Asking again changes nothing more.
pub fn defaults(request: &Request) -> Patch {
    Patch(creator(request).unwrap_or_default())
}

fn creator(request: &Request) -> Option<Vec<PatchOperation>> {
    if !["VMClone", "VMMigration"].contains(&request.kind.kind.as_str()) {
        return None;
    }
    let spec = request.object.get("spec")?;
    let metadata = spec.get("metadata").filter(|m| m.is_object());
    let written = metadata.and_then(|m| m.get("createdBy"));
    let asked = asked_by(request);
    if written == asked.as_ref() {
        return None;
    }
    let path = PointerBuf::from_tokens(["spec", "metadata", "createdBy"]);
    // An `add` replaces a value that is there.
    let change = match (asked, metadata) {
        (Some(value), Some(_)) => PatchOperation::Add(AddOperation { path, value }),
        (Some(name), None) => PatchOperation::Add(AddOperation {
            path: PointerBuf::from_tokens(["spec", "metadata"]),
            value: json!({ "createdBy": name }),
        }),
        // The user is unknown, and so the claim of a manifest is not kept.
        (None, _) => PatchOperation::Remove(RemoveOperation { path }),
    };
    Some(vec![change])
}

/// On an update the one who asked first, so that tools which apply a manifest again and again see no difference.
fn asked_by(request: &Request) -> Option<Value> {
    match request.operation {
        Operation::Create => {
            let name = request.user_info.username.as_str();
            let fits = !name.is_empty() && name.len() <= LONGEST_NAME;
            fits.then(|| json!(name))
        }
        Operation::Update => request
            .old_object
            .pointer("/spec/metadata/createdBy")
            .cloned(),
        Operation::Delete | Operation::Connect => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(operation: Operation, object: Value, old: Value) -> Request {
        let mut request = Request {
            operation,
            object,
            old_object: old,
            ..Request::default()
        };
        request.kind.kind = "VMClone".to_owned();
        request.user_info.username = "alice".to_owned();
        request
    }

    fn applied(request: &Request) -> Value {
        let mut object = request.object.clone();
        json_patch::patch(&mut object, &defaults(request)).expect("it applies");
        object
    }

    #[test]
    fn who_asked_is_written_down_once() {
        let bare = json!({"spec": {"target": {"name": "b"}}});
        let first = applied(&request(Operation::Create, bare.clone(), Value::Null));
        assert_eq!(first["spec"]["metadata"]["createdBy"], "alice");
        let again = request(Operation::Create, first.clone(), Value::Null);
        assert_eq!(applied(&again), first);
        let mut applied_again = request(Operation::Update, bare, first.clone());
        applied_again.user_info.username = "bob".to_owned();
        assert_eq!(applied(&applied_again), first);
    }

    #[test]
    fn a_forged_creator_is_replaced() {
        let forged = json!({"spec": {"metadata": {"createdBy": "carol", "project": "x"}}});
        let asked = request(Operation::Create, forged.clone(), Value::Null);
        let first = applied(&asked);
        let wanted = json!({"project": "x", "createdBy": "alice"});
        assert_eq!(first["spec"]["metadata"], wanted);
        let later = request(Operation::Update, forged.clone(), first);
        assert_eq!(applied(&later)["spec"]["metadata"], wanted);
        let unknown = json!({"spec": {"metadata": {"project": "x"}}});
        let late = request(Operation::Update, forged, unknown.clone());
        assert_eq!(applied(&late), unknown);
        let partly = json!({"spec": {"metadata": {"project": "x"}}});
        let asked = request(Operation::Create, partly, Value::Null);
        assert_eq!(
            applied(&asked)["spec"]["metadata"],
            json!({"project": "x", "createdBy": "alice"})
        );
    }

    #[test]
    fn a_nameless_user_and_other_kinds_change_nothing() {
        let mut nobody = request(Operation::Create, json!({"spec": {}}), Value::Null);
        nobody.user_info.username = String::new();
        assert!(defaults(&nobody).0.is_empty());
        let mut other = request(Operation::Create, json!({"spec": {}}), Value::Null);
        other.kind.kind = "VMSet".to_owned();
        assert!(defaults(&other).0.is_empty());
    }
}
