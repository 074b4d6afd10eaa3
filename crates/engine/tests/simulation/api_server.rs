//! Kubernetes as far as the manager and its users can tell: versions, generations, finalizers, watches.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use polyvirt_engine::cluster::{ClusterError, Patch, SecretData};
use polyvirt_engine::runtime::key::{Key, Kind, ObjectKey};
use serde_json::{Value, json};

/// Something that a watch delivers.
#[derive(Clone, Debug)]
pub struct Event {
    pub object: Arc<Value>,
    pub deleted: bool,
}

/// What the manager watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    Objects(Kind),
    Secrets,
}

impl Watched {
    pub const ALL: [Self; 6] = [
        Self::Objects(Kind::VirtualMachine),
        Self::Objects(Kind::Provider),
        Self::Objects(Kind::VMClass),
        Self::Objects(Kind::VMImage),
        Self::Objects(Kind::VMNetworkAttachment),
        Self::Secrets,
    ];
}

/// The API server and its etcd.
#[derive(Default)]
pub struct ApiServer {
    objects: BTreeMap<Key, Arc<Value>>,
    secrets: BTreeMap<ObjectKey, SecretData>,
    logs: BTreeMap<Watched, Vec<Event>>,
    version: u64,
    uids: u64,
    /// Writes that changed something.
    pub writes: u64,
}

impl ApiServer {
    pub fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// All objects of a kind.
    pub fn list(&self, kind: Kind) -> impl Iterator<Item = (&ObjectKey, &Arc<Value>)> {
        let of_kind = move |(key, value)| {
            let key: &Key = key;
            (key.kind == kind).then_some((&key.object, value))
        };
        self.objects.iter().filter_map(of_kind)
    }

    pub fn log(&self, watched: Watched) -> &[Event] {
        self.logs.get(&watched).map_or(&[], Vec::as_slice)
    }

    pub fn secret(&self, key: &ObjectKey) -> Option<SecretData> {
        self.secrets.get(key).cloned()
    }

    pub fn secret_names(&self) -> Vec<ObjectKey> {
        self.secrets.keys().cloned().collect()
    }

    /// A user creates an object. False if the name is taken.
    pub fn create(&mut self, key: &Key, mut object: Value, now: Timestamp) -> bool {
        if self.objects.contains_key(key) {
            return false;
        }
        self.uids += 1;
        let meta = &mut object["metadata"];
        meta["name"] = json!(key.object.name());
        meta["namespace"] = json!(key.object.namespace());
        meta["uid"] = json!(format!("uid-{}", self.uids));
        meta["generation"] = json!(1);
        meta["creationTimestamp"] = json!(seconds(now));
        object["apiVersion"] = json!("infra.virtrigaud.io/v1beta1");
        object["kind"] = json!(key.kind.name());
        self.store(key, object);
        true
    }

    /// A user edits an object, as `kubectl edit` does. False if it is not there.
    pub fn edit(&mut self, key: &Key, change: impl FnOnce(&mut Value)) -> bool {
        let Some(old) = self.objects.get(key).cloned() else {
            return false;
        };
        let mut new = (*old).clone();
        change(&mut new);
        self.replace(key, &old, new);
        true
    }

    /// A user deletes an object. It goes when nothing holds it.
    pub fn delete(&mut self, key: &Key, now: Timestamp) {
        let Some(old) = self.objects.get(key).cloned() else {
            return;
        };
        if !is_held(&old) {
            self.remove(key, &old);
        } else if old["metadata"]["deletionTimestamp"].is_null() {
            let mut new = (*old).clone();
            new["metadata"]["deletionTimestamp"] = json!(seconds(now));
            let generation = new["metadata"]["generation"].as_i64().unwrap_or(0);
            new["metadata"]["generation"] = json!(generation + 1);
            self.store(key, new);
        }
    }

    pub fn put_secret(&mut self, key: &ObjectKey, data: SecretData) {
        self.secrets.insert(key.clone(), data);
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
            "name": key.name(), "namespace": key.namespace(),
        }});
        let event = Event {
            object: Arc::new(object),
            deleted: false,
        };
        self.logs.entry(Watched::Secrets).or_default().push(event);
    }

    /// A write of the manager.
    pub fn patch(&mut self, key: &Key, patch: &Patch) -> Result<String, ClusterError> {
        let old = self
            .objects
            .get(key)
            .cloned()
            .ok_or(ClusterError::NotFound)?;
        let body = match patch {
            Patch::Metadata(body) | Patch::Status(body) => body,
        };
        check_preconditions(&old, body)?;
        let mut new = (*old).clone();
        match patch {
            Patch::Metadata(body) => merge(&mut new, body),
            Patch::Status(body) => new["status"] = without_nulls(body["status"].clone()),
        }
        let stored = self.replace(key, &old, new);
        Ok(stored.to_string())
    }

    /// Stores what differs, and lets go what nothing holds any more. The object as the answer shows it.
    fn replace(&mut self, key: &Key, old: &Arc<Value>, mut new: Value) -> Arc<Value> {
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        if new == **old {
            return old.clone();
        }
        let deleting = !new["metadata"]["deletionTimestamp"].is_null();
        if deleting && !is_held(&new) {
            // As the real one does, the answer shows the version from before the deletion.
            self.remove(key, &Arc::new(new.clone()));
            return Arc::new(new);
        }
        if new["spec"] != old["spec"] {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
            new["metadata"]["generation"] = json!(generation + 1);
        }
        self.store(key, new)
    }

    fn store(&mut self, key: &Key, mut object: Value) -> Arc<Value> {
        self.version += 1;
        self.writes += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        self.objects.insert(key.clone(), object.clone());
        self.tell(key.kind, object.clone(), false);
        object
    }

    fn remove(&mut self, key: &Key, last: &Arc<Value>) {
        self.version += 1;
        self.writes += 1;
        let mut object = (**last).clone();
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.remove(key);
        self.tell(key.kind, Arc::new(object), true);
    }

    fn tell(&mut self, kind: Kind, object: Arc<Value>, deleted: bool) {
        let log = self.logs.entry(Watched::Objects(kind)).or_default();
        log.push(Event { object, deleted });
    }
}

/// A version or UID in the body is a condition.
fn check_preconditions(old: &Value, body: &Value) -> Result<(), ClusterError> {
    let meets = |field: &str| {
        let wanted = &body["metadata"][field];
        wanted.is_null() || *wanted == old["metadata"][field]
    };
    if meets("resourceVersion") && meets("uid") {
        Ok(())
    } else {
        Err(ClusterError::Conflict)
    }
}

fn is_held(object: &Value) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|list| !list.is_empty())
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            target.as_object_mut().map(|object| object.remove(name));
        } else {
            merge(&mut target[name], value);
        }
    }
}

/// The API server drops nulls of fields that are not nullable.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(name, value)| (name, without_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

fn seconds(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
