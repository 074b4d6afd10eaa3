//! What is written to Kubernetes.

use std::collections::BTreeMap;
use std::fmt::Debug;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use polyvirt_engine::cluster::{About, ClusterError};
use polyvirt_engine::runtime::events::Told;
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_engine::runtime::kube_cluster::refusal;
use polyvirt_plan::Note;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// What is read and written here.
pub trait Object:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
{
}

impl<K> Object for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
{
}

/// Whose fields win.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nobody's are taken: for an object that is believed not to be there.
    New,
    /// Ours: for an object of ours, which is named by its UID.
    Ours,
}

/// What is written to Kubernetes.
pub struct Desk {
    client: Client,
    field_manager: &'static str,
    events: mpsc::Sender<Told>,
}

impl Desk {
    /// Writes through the client under the name of a field manager; events go to the channel and are dropped when it is full.
    pub const fn new(
        client: Client,
        field_manager: &'static str,
        events: mpsc::Sender<Told>,
    ) -> Self {
        Self {
            client,
            field_manager,
            events,
        }
    }

    fn api<K: Object>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The object as it is now; `None` if there is none.
    pub async fn get<K: Object>(&self, key: &ObjectKey) -> Result<Option<K>, ClusterError> {
        let found = self.api::<K>(key.namespace()).get_opt(key.name()).await;
        found.map_err(refusal)
    }

    /// Server-side apply of an object.
    pub async fn apply<K: Object>(&self, object: &K, claim: Claim) -> Result<K, ClusterError> {
        let key = ObjectKey::of(object);
        let mut params = PatchParams::apply(self.field_manager);
        params.force = claim == Claim::Ours;
        let api = self.api::<K>(key.namespace());
        let written = api.patch(key.name(), &params, &Patch::Apply(object)).await;
        written.map_err(refusal)
    }

    /// Merges into an object.
    pub async fn merge<K: Object>(&self, key: &ObjectKey, body: &Value) -> Result<K, ClusterError> {
        let api = self.api::<K>(key.namespace());
        let params = PatchParams::default();
        let written = api.patch(key.name(), &params, &Patch::Merge(body)).await;
        written.map_err(refusal)
    }

    /// The whole status, by server-side apply.
    pub async fn status<K: Object>(
        &self,
        key: &ObjectKey,
        status: &impl Serialize,
    ) -> Result<K, ClusterError> {
        let body = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": {"name": key.name(), "namespace": key.namespace()},
            "status": status,
        });
        let params = PatchParams::apply(self.field_manager).force();
        let api = self.api::<K>(key.namespace());
        let written = api
            .patch_status(key.name(), &params, &Patch::Apply(&body))
            .await;
        written.map_err(refusal)
    }

    /// Merges into an object. One that is gone is no error.
    pub async fn merge_if_there<K: Object>(
        &self,
        key: &ObjectKey,
        body: &Value,
    ) -> Result<(), ClusterError> {
        match self.merge::<K>(key, body).await {
            Ok(_) | Err(ClusterError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes the object if it is still the one of that UID. One that is gone is no error.
    pub async fn delete<K: Object>(&self, key: &ObjectKey, uid: &str) -> Result<(), ClusterError> {
        let only_this = Preconditions {
            uid: Some(uid.to_owned()),
            ..Preconditions::default()
        };
        let params = DeleteParams::default().preconditions(only_this);
        let api = self.api::<K>(key.namespace());
        match api.delete(key.name(), &params).await.map_err(refusal) {
            Ok(_) | Err(ClusterError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The texts of a ConfigMap; `None` if there is none.
    pub async fn config_map(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<BTreeMap<String, String>>, ClusterError> {
        let found = self.get::<ConfigMap>(key).await?;
        Ok(found.map(|map| map.data.unwrap_or_default()))
    }

    /// What tells this cluster from all others.
    pub async fn cluster_uid(&self) -> Result<Option<String>, ClusterError> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let found = api.get_opt("kube-system").await.map_err(refusal)?;
        Ok(found.and_then(|namespace| namespace.metadata.uid))
    }

    /// Tells people. Best effort.
    pub fn event(&self, about: &About, note: Note) {
        let told = Told {
            about: about.clone(),
            note,
        };
        if self.events.try_send(told).is_err() {
            tracing::debug!(object = ?about.key, "event dropped: more than can be sent");
        }
    }
}
