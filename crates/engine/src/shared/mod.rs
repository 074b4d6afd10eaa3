//! What classes, images, networks and providers have in common: who uses them, and that they stay while somebody does.

mod attachable;
pub mod class;
pub mod network;
pub mod policy;

use kube::Resource;
use polyvirt_api::names;
use polyvirt_plan::Reason;
use polyvirt_plan::conditions::{Finding, Truth, kind};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::{self, ClusterError, Patch};
use crate::context::Context;
use crate::runtime::key::{Key, ObjectKey};
use crate::runtime::store::Store;
use crate::runtime::trim;
use crate::runtime::vm_index::Target;

/// Names shown in a message about users.
const SHOWN_USERS: usize = 5;

/// Who uses an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many VirtualMachines.
    pub count: usize,
    /// Some of them.
    pub some: Vec<ObjectKey>,
}

impl Usage {
    /// Who uses the target.
    pub fn of(ctx: &Context, target: &Target) -> Self {
        let index = &ctx.stores.index;
        Self {
            count: index.count(target),
            some: index.some_users(target, SHOWN_USERS),
        }
    }

    /// The count as the API has it.
    pub fn number(&self) -> i32 {
        i32::try_from(self.count).unwrap_or(i32::MAX)
    }

    /// Names, and how many more there are.
    pub fn names(&self) -> String {
        let list: Vec<_> = self.some.iter().map(ToString::to_string).collect();
        match self.count.saturating_sub(self.some.len()) {
            0 => list.join(", "),
            more => format!("{} and {more} more", list.join(", ")),
        }
    }

    /// The finding of an object that is to go but is in use.
    pub fn blocked(&self) -> Finding {
        let message = format!(
            "Cannot be deleted while VirtualMachines use it: {}. Delete or change them first",
            self.names()
        );
        Finding::new(kind::DELETING, Truth::True, Reason::InUse, message)
    }
}

/// How an object stands with respect to its deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// It stays.
    Kept,
    /// It is to go, and is in use.
    Blocked,
    /// It is to go, and nothing of ours holds it any more.
    Released,
}

/// Puts our mark on what is in use, and takes it off what is to go and is not. The object is replaced by what was written,
/// in the cache too: the next pass may come before the watch does.
pub async fn protect<K>(
    ctx: &Context,
    key: &Key,
    store: &Store<K>,
    object: &mut K,
    usage: &Usage,
) -> Result<Protection, ClusterError>
where
    K: Resource + DeserializeOwned + Clone,
{
    let meta = object.meta();
    let marked = meta
        .finalizers
        .iter()
        .flatten()
        .any(|f| f == names::IN_USE_FINALIZER);
    match (meta.deletion_timestamp.is_some(), usage.count, marked) {
        (false, 0, _) | (false, _, true) => Ok(Protection::Kept),
        (false, _, false) => {
            let finalizers = with_finalizer(object, names::IN_USE_FINALIZER);
            mark(ctx, key, store, object, finalizers).await?;
            Ok(Protection::Kept)
        }
        (true, 0, true) => {
            let finalizers = without_finalizer(object, names::IN_USE_FINALIZER);
            mark(ctx, key, store, object, finalizers).await?;
            Ok(Protection::Released)
        }
        (true, 0, false) => Ok(Protection::Released),
        (true, _, _) => Ok(Protection::Blocked),
    }
}

async fn mark<K>(
    ctx: &Context,
    key: &Key,
    store: &Store<K>,
    object: &mut K,
    finalizers: Vec<String>,
) -> Result<(), ClusterError>
where
    K: Resource + DeserializeOwned + Clone,
{
    let patch = finalizers_patch(object, &finalizers);
    match cluster::patch::<K>(&*ctx.cluster, key, patch).await {
        Ok(written) => {
            keep(store, object, written.clone());
            *object = trim::metadata(written);
            Ok(())
        }
        Err(ClusterError::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Takes the answer to a status write into the cache, unless it brings an edit with it: that is left to the watch, which
/// wakes whom it concerns.
fn keep<K: Resource>(store: &Store<K>, before: &K, written: K) {
    let (old, new) = (before.meta(), written.meta());
    if old.generation == new.generation && old.deletion_timestamp == new.deletion_timestamp {
        store.written(trim::metadata(written));
    }
}

/// The finalizers of an object and one more.
pub fn with_finalizer<K: Resource>(object: &K, ours: &str) -> Vec<String> {
    let mut list = object.meta().finalizers.clone().unwrap_or_default();
    list.push(ours.to_owned());
    list
}

/// The finalizers of an object but one.
pub fn without_finalizer<K: Resource>(object: &K, ours: &str) -> Vec<String> {
    let list = object.meta().finalizers.iter().flatten();
    list.filter(|f| *f != ours).cloned().collect()
}

/// A change of the finalizers that holds only for the version that was read.
pub fn finalizers_patch<K: Resource>(object: &K, finalizers: &[String]) -> Patch {
    Patch::Metadata(json!({"metadata": {
        "resourceVersion": object.meta().resource_version,
        "finalizers": finalizers,
    }}))
}

/// The body of a status write.
pub fn status_body(key: &Key, status: &impl serde::Serialize) -> Value {
    json!({
        "apiVersion": format!("{}/{}", names::GROUP, names::VERSION),
        "kind": key.kind.name(),
        "metadata": {"name": key.object.name(), "namespace": key.object.namespace()},
        "status": without_empty_objects(json!(status)),
    })
}

/// An object whose fields have all gone is left out with them: applied over one that had fields, the API server makes it null,
/// and refuses that.
fn without_empty_objects(mut status: Value) -> Value {
    if let Some(fields) = status.as_object_mut() {
        fields.retain(|_, value| value.as_object().is_none_or(|object| !object.is_empty()));
    }
    status
}
