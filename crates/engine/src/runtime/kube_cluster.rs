//! The real Kubernetes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use async_trait::async_trait;
use bytes::Bytes;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::Client;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch as KubePatch, PatchParams, PostParams,
    Preconditions,
};
use kube::core::{ApiResource, GroupVersionKind};
use polyvirt_plan::Note;
use polyvirt_plan::conditions::kind;
use tokio::sync::mpsc;

use crate::cluster::{About, Cluster, ClusterError, Patch, SecretData};
use crate::runtime::events::Told;
use crate::runtime::key::{Key, Kind, ObjectKey};

/// The name under which we own fields.
pub const FIELD_MANAGER: &str = "polyvirt";

/// The real Kubernetes.
pub struct KubeCluster {
    client: Client,
    events: mpsc::Sender<Told>,
}

impl KubeCluster {
    /// Writes through the client; events go to the channel and are dropped when it is full.
    pub const fn new(client: Client, events: mpsc::Sender<Told>) -> Self {
        Self { client, events }
    }

    fn api(&self, key: &Key) -> Api<DynamicObject> {
        Api::namespaced_with(
            self.client.clone(),
            key.object.namespace(),
            &resource(key.kind),
        )
    }
}

/// Where the API serves a kind.
pub fn resource(kind: Kind) -> ApiResource {
    let gvk = GroupVersionKind::gvk(kind.group(), kind.version(), kind.name());
    ApiResource::from_gvk_with_plural(&gvk, kind.plural())
}

#[async_trait]
impl Cluster for KubeCluster {
    async fn patch(&self, key: &Key, patch: Patch) -> Result<String, ClusterError> {
        let api = self.api(key);
        let name = key.object.name();
        let written = match patch {
            Patch::Metadata(body) => {
                api.patch(name, &PatchParams::default(), &KubePatch::Merge(&body))
                    .await
            }
            Patch::Status(mut body) => {
                leave_foreign_conditions(&mut body);
                let params = PatchParams::apply(FIELD_MANAGER).force();
                api.patch_status(name, &params, &KubePatch::Apply(&body))
                    .await
            }
        };
        let object = written.map_err(|error| refused(key, error))?;
        serde_json::to_string(&object).map_err(|e| ClusterError::Invalid(e.to_string()))
    }

    async fn create(&self, key: &Key, body: serde_json::Value) -> Result<String, ClusterError> {
        let object: DynamicObject =
            serde_json::from_value(body).map_err(|e| ClusterError::Invalid(e.to_string()))?;
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let made = self.api(key).create(&params, &object).await;
        let made = made.map_err(|error| refused(key, error))?;
        serde_json::to_string(&made).map_err(|e| ClusterError::Invalid(e.to_string()))
    }

    async fn delete(&self, key: &Key, uid: &str) -> Result<(), ClusterError> {
        let only_this = Preconditions {
            uid: Some(uid.to_owned()),
            ..Preconditions::default()
        };
        let params = DeleteParams::default().preconditions(only_this);
        let deleted = self.api(key).delete(key.object.name(), &params).await;
        deleted.map(|_| ()).map_err(refusal)
    }

    async fn secret(&self, key: &ObjectKey) -> Result<Option<SecretData>, ClusterError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), key.namespace());
        let found = api.get_opt(key.name()).await.map_err(refusal)?;
        Ok(found.map(|secret| {
            let data = secret.data.unwrap_or_default();
            data.into_iter()
                .map(|(name, value)| (name, Bytes::from(value.0)))
                .collect()
        }))
    }

    async fn namespace_labels(
        &self,
        namespace: &str,
    ) -> Result<BTreeMap<String, String>, ClusterError> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let found = api.get_metadata_opt(namespace).await.map_err(refusal)?;
        Ok(found.and_then(|n| n.metadata.labels).unwrap_or_default())
    }

    async fn service_ranges(&self) -> Result<Vec<String>, ClusterError> {
        let api: Api<ServiceCIDR> = Api::all(self.client.clone());
        match api.list(&ListParams::default()).await {
            Ok(found) => Ok(found.items.into_iter().flat_map(ranges_of).collect()),
            // Clusters before 1.33 do not tell, and ours may not let us ask.
            Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => {
                let own = std::env::var("KUBERNETES_SERVICE_HOST").ok();
                Ok(own.as_deref().and_then(around).into_iter().collect())
            }
            Err(error) => Err(refusal(error)),
        }
    }

    fn event(&self, about: &About, note: Note) {
        if self
            .events
            .try_send(Told {
                about: about.clone(),
                note,
            })
            .is_err()
        {
            tracing::debug!(object = ?about.key, "event dropped: more than can be sent");
        }
    }
}

fn ranges_of(found: ServiceCIDR) -> Vec<String> {
    let spec = found.spec.unwrap_or_default();
    spec.cidrs.unwrap_or_default()
}

/// The first Service of a cluster is the API server's, so the others are near it: a guess, where nobody tells.
fn around(first: &str) -> Option<String> {
    let bits = match first.parse().ok()? {
        IpAddr::V4(_) => 16,
        IpAddr::V6(_) => 112,
    };
    Some(format!("{first}/{bits}"))
}

/// What is applied becomes ours. The conditions of other controllers are in the status that we read, and stay theirs.
fn leave_foreign_conditions(body: &mut serde_json::Value) {
    let list = body.pointer_mut("/status/conditions");
    if let Some(list) = list.and_then(serde_json::Value::as_array_mut) {
        list.retain(|c| c["type"].as_str().is_some_and(|t| kind::ALL.contains(&t)));
    }
}

/// What we write and the API server cannot take would be refused again: nobody tries, so somebody has to be told.
fn refused(key: &Key, error: kube::Error) -> ClusterError {
    let refusal = refusal(error);
    if let ClusterError::Invalid(message) = &refusal {
        tracing::error!(object = ?key, %message, "the API server does not take what we write; please report this");
    }
    refusal
}

/// What a refusal of the API server means to us.
pub fn refusal(error: kube::Error) -> ClusterError {
    match error {
        kube::Error::Api(status) if status.is_not_found() => ClusterError::NotFound,
        kube::Error::Api(status) if status.is_already_exists() => ClusterError::AlreadyExists,
        kube::Error::Api(status) if status.is_conflict() => ClusterError::Conflict,
        kube::Error::Api(status) if status.is_forbidden() => {
            ClusterError::Forbidden(status.message.clone())
        }
        kube::Error::Api(status) if status.is_invalid() || status.code == 400 => {
            ClusterError::Invalid(status.message.clone())
        }
        other => ClusterError::Unavailable(other.to_string()),
    }
}
