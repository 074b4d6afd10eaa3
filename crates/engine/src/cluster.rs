//! What the controllers do to Kubernetes. A trait, so that the simulation can stop the manager between any two effects.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use kube::Resource;
use polyvirt_plan::Note;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::runtime::key::{Key, Kind, ObjectKey};

/// The data of a Secret.
pub type SecretData = BTreeMap<String, Bytes>;

/// A write of one of our objects.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// Merge into the object; carries the resource version that it was made from, so that a race is a conflict.
    Metadata(Value),
    /// The whole status that we own, by server-side apply.
    Status(Value),
}

/// Why Kubernetes refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The object is gone.
    #[error("The object no longer exists")]
    NotFound,
    /// Somebody changed the object meanwhile.
    #[error("The object was changed meanwhile")]
    Conflict,
    /// There is an object of that name.
    #[error("An object of that name exists")]
    AlreadyExists,
    /// The API server will never take this.
    #[error("The API server refused the write: {0}")]
    Invalid(String),
    /// We lack a permission.
    #[error("The API server forbids it: {0}. Check the manager's RBAC")]
    Forbidden(String),
    /// The API server cannot be reached or is busy.
    #[error("The API server does not answer: {0}")]
    Unavailable(String),
}

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Kind and name.
    pub key: Key,
    /// The object's UID.
    pub uid: String,
}

impl About {
    /// The object as the API server gave it to us.
    pub fn of<K: Resource>(kind: Kind, object: &K) -> Self {
        let uid = object.meta().uid.clone().unwrap_or_default();
        Self {
            key: Key::new(kind, ObjectKey::of(object)),
            uid,
        }
    }

    /// The object of a dialect that controls the object; `None` for an object that a user declared.
    pub fn controller_of<K: Resource>(object: &K) -> Option<Self> {
        let mut owners = object.meta().owner_references.iter().flatten();
        let owner = owners.find(|o| o.controller == Some(true))?;
        let of_kind = |kind: &Kind| {
            let version = format!("{}/{}", kind.group(), kind.version());
            kind.name() == owner.kind && version == owner.api_version
        };
        let kind = Kind::DIALECTS.into_iter().find(of_kind)?;
        let namespace = object.meta().namespace.as_deref().unwrap_or_default();
        Some(Self {
            key: Key::new(kind, ObjectKey::new(namespace, &owner.name)),
            uid: owner.uid.clone(),
        })
    }
}

/// Kubernetes, as far as the controllers change it.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// Writes, and returns the object as it is now (JSON).
    async fn patch(&self, key: &Key, patch: Patch) -> Result<String, ClusterError>;

    /// Makes the object, and returns it as it is now (JSON). One that is there is [`ClusterError::AlreadyExists`].
    async fn create(&self, key: &Key, body: Value) -> Result<String, ClusterError>;

    /// Deletes the object, if it is still the one of that UID. What its finalizers wait for comes first.
    async fn delete(&self, key: &Key, uid: &str) -> Result<(), ClusterError>;

    /// The data of a Secret; `None` if it does not exist.
    async fn secret(&self, key: &ObjectKey) -> Result<Option<SecretData>, ClusterError>;

    /// The labels of a namespace; none if it does not exist.
    async fn namespace_labels(
        &self,
        namespace: &str,
    ) -> Result<BTreeMap<String, String>, ClusterError>;

    /// The ranges of addresses that the cluster gives its Services.
    async fn service_ranges(&self) -> Result<Vec<String>, ClusterError>;

    /// Tells people. Best effort, never in the way of the work.
    fn event(&self, about: &About, note: Note);
}

/// Writes, and parses the answer.
pub async fn patch<K: DeserializeOwned>(
    cluster: &dyn Cluster,
    key: &Key,
    patch: Patch,
) -> Result<K, ClusterError> {
    let text = cluster.patch(key, patch).await?;
    serde_json::from_str(&text)
        .map_err(|e| ClusterError::Invalid(format!("cannot read the answer: {e}")))
}
