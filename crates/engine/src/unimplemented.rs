//! Kinds that the API has and this version does not implement: VMSet and VMClone.
//!
//! One controller for both: each object gets `Ready=False` with reason `NotImplemented` and one event, also where no webhook
//! warns. So `kubectl wait` and `kubectl get` show what is the case, and nothing waits for a controller that does not exist.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use polyvirt_plan::conditions::{self, Finding, Truth, kind};
use polyvirt_plan::{Note, Reason};
use serde_json::{Value, json};

use crate::cluster::{About, Cluster, ClusterError, Patch};
use crate::runtime::key::{Key, Kind, ObjectKey};
use crate::runtime::watch::Scope;
use crate::shared::status_body;

/// The kinds without a controller.
pub const KINDS: [Kind; 2] = [Kind::VMSet, Kind::VMClone];

/// Pause before a write that the API server did not answer is sent again: it restarts in seconds.
const AGAIN: Duration = Duration::from_secs(5);

/// Reports on all objects of the kind in the scope, until it is dropped.
pub async fn run(client: Client, scope: Scope, kind: Kind, cluster: Arc<dyn Cluster>) {
    let found = GroupVersionKind::gvk(kind.group(), kind.version(), kind.name());
    let resource = ApiResource::from_gvk_with_plural(&found, kind.plural());
    let api = match &scope {
        Scope::Cluster => Api::<DynamicObject>::all_with(client, &resource),
        Scope::Namespace(name) => Api::namespaced_with(client, name, &resource),
    };
    let watched = watcher(api, watcher::Config::default().any_semantic());
    let mut objects = watched.default_backoff().applied_objects().boxed();
    while let Some(object) = objects.next().await {
        match object {
            Ok(object) => report(&*cluster, kind, &object).await,
            Err(error) => {
                tracing::warn!(kind = kind.name(), %error, "Watch failed; it is opened again");
            }
        }
    }
}

/// Writes the status, if it does not say so already.
async fn report(cluster: &dyn Cluster, kind: Kind, object: &DynamicObject) {
    let Some((status, note)) = status(kind, object, Timestamp::now()) else {
        return;
    };
    let key = Key::new(
        kind,
        ObjectKey::new(&object.namespace().unwrap_or_default(), &object.name_any()),
    );
    let body = status_body(&key, &status);
    loop {
        match cluster.patch(&key, Patch::Status(body.clone())).await {
            Ok(_) => break,
            // Retried here: the watch does not show the object again before it changes.
            Err(ClusterError::Unavailable(_)) => tokio::time::sleep(AGAIN).await,
            Err(ClusterError::NotFound) => return,
            Err(error) => {
                tracing::warn!(object = %key.object, kind = kind.name(), %error, "Status write failed");
                return;
            }
        }
    }
    if let Some(note) = note {
        let uid = object.uid().unwrap_or_default();
        cluster.event(&About { key, uid }, note);
    }
}

/// The status to write, and the event if the object had none yet; `None` if nothing is to be written.
fn status(kind: Kind, object: &DynamicObject, now: Timestamp) -> Option<(Value, Option<Note>)> {
    if object.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let generation = object.metadata.generation;
    let there = object.data.get("status").cloned().unwrap_or_default();
    let list = there.get("conditions").cloned().unwrap_or_default();
    let mut list: Vec<Condition> = serde_json::from_value(list).unwrap_or_default();
    list.retain(|condition| condition.type_ == kind::READY);
    let before = list.clone();
    let message = message(kind);
    let finding = Finding::new(kind::READY, Truth::False, Reason::NotImplemented, &*message);
    conditions::set(&mut list, finding, generation, now);
    let observed = there.get("observedGeneration").and_then(Value::as_i64);
    if list == before && observed == generation {
        return None;
    }
    let is_new = before
        .iter()
        .all(|c| c.reason != Reason::NotImplemented.as_str());
    let note = is_new.then(|| Note::warning(Reason::NotImplemented, message));
    let status = json!({"observedGeneration": generation, "conditions": list});
    Some((status, note))
}

fn message(kind: Kind) -> String {
    let instead = match kind {
        Kind::VMSet => "Create a VirtualMachine for each replica",
        _ => "Create a VirtualMachine from the image of the source",
    };
    let name = kind.name();
    format!(
        "This version does not implement {name}: no VM is created. {instead}, and delete this object"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(status: &Value) -> DynamicObject {
        let object = json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMSet",
            "metadata": {"name": "web", "namespace": "team", "generation": 2, "uid": "u"},
            "spec": {}, "status": status,
        });
        serde_json::from_value(object).expect("an object")
    }

    #[test]
    fn an_object_gets_one_condition_and_one_event() {
        let now = Timestamp::UNIX_EPOCH;
        let (first, note) = status(Kind::VMSet, &object(&json!({})), now).expect("written");
        assert_eq!(note.expect("told once").reason, Reason::NotImplemented);
        assert_eq!(first["conditions"][0]["reason"], "NotImplemented");
        assert_eq!(first["conditions"][0]["status"], "False");
        assert_eq!(first["observedGeneration"], 2);
        assert!(status(Kind::VMSet, &object(&first), now).is_none());
        let mut edited = object(&first);
        edited.metadata.generation = Some(3);
        let (second, note) = status(Kind::VMSet, &edited, now).expect("another generation");
        assert!(note.is_none());
        assert_eq!(second["observedGeneration"], 3);
    }

    #[test]
    fn an_object_that_is_being_deleted_is_left_alone() {
        let mut leaving = object(&json!({}));
        let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH);
        leaving.metadata.deletion_timestamp = Some(time);
        assert!(status(Kind::VMClone, &leaving, Timestamp::UNIX_EPOCH).is_none());
    }
}
