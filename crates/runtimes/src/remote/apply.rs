//! Objects that are to be there. Applied on the server, so that what others add stays; only when they are not known to be
//! there; and never over somebody else's.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, Preconditions,
};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use polyvirt_api::infra::Provider;
use polyvirt_engine::provider::NoWay;
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_plan::{Problem, Reason};
use serde_json::Value;

use super::names::{object_name, tls_secret_name};
use crate::refusal;

/// Who we are to the API server when we apply.
pub const FIELD_MANAGER: &str = "polyvirt-runtime";

/// Kinds of object that a Provider has, the last one first.
const KINDS: [(&str, &str, &str); 5] = [
    ("apps", "v1", "Deployment"),
    ("", "v1", "Service"),
    ("networking.k8s.io", "v1", "NetworkPolicy"),
    ("", "v1", "ServiceAccount"),
    ("", "v1", "Secret"),
];

/// What was applied, as far as this process knows.
pub struct Applied {
    client: Client,
    last: Mutex<HashMap<ObjectKey, Vec<Value>>>,
}

impl Applied {
    /// Nothing is known yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            last: Mutex::default(),
        }
    }

    /// What the Provider has may not be what was applied.
    pub fn doubt(&self, provider: &ObjectKey) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.remove(provider);
    }

    /// Applies what is not known to be there.
    pub async fn ensure(
        &self,
        key: &ObjectKey,
        provider: &Provider,
        wanted: Vec<Value>,
    ) -> Result<(), NoWay> {
        let known = {
            let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            last.get(key).cloned().unwrap_or_default()
        };
        for object in wanted.iter().filter(|object| !known.contains(object)) {
            self.apply(provider, object).await?;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.insert(key.clone(), wanted);
        Ok(())
    }

    async fn apply(&self, provider: &Provider, object: &Value) -> Result<(), NoWay> {
        let kind = object["kind"].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let api = self.api(provider, kind)?;
        let refused = |error: kube::Error| refused(kind, name, &error);
        let found = api.get_metadata_opt(name).await.map_err(refused)?;
        check_owner(found.as_ref().map(|o| &o.metadata), provider, kind, name)?;
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let written = api.patch(name, &params, &Patch::Apply(object)).await;
        written.map_err(refused)?;
        tracing::debug!(kind, name, "applied");
        Ok(())
    }

    fn api(&self, provider: &Provider, kind: &str) -> Result<Api<DynamicObject>, Problem> {
        let namespace = provider.metadata.namespace.as_deref().unwrap_or_default();
        let known = KINDS.iter().find(|(_, _, k)| *k == kind);
        let (group, version, kind) = known.ok_or_else(|| {
            let text = format!("{kind} is not a kind that providers have");
            Problem::new(Reason::InvalidConfiguration, "spec.runtime", text)
        })?;
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Ok(Api::namespaced_with(
            self.client.clone(),
            namespace,
            &resource,
        ))
    }

    /// Removes all that the Provider has.
    pub async fn remove(&self, key: &ObjectKey, provider: &Provider) -> Result<(), NoWay> {
        self.doubt(key);
        for (_, _, kind) in KINDS {
            let name = match kind {
                "Secret" => tls_secret_name(key),
                _ => object_name(key),
            };
            self.remove_one(provider, kind, &name).await?;
        }
        Ok(())
    }

    async fn remove_one(&self, provider: &Provider, kind: &str, name: &str) -> Result<(), NoWay> {
        let api = self.api(provider, kind)?;
        let found = api.get_metadata_opt(name).await;
        let Some(found) = found.map_err(|e| refused(kind, name, &e))? else {
            return Ok(());
        };
        if !is_owned(&found.metadata, provider) {
            return Ok(());
        }
        let only_this = Preconditions {
            uid: found.metadata.uid,
            resource_version: None,
        };
        let params = DeleteParams::background().preconditions(only_this);
        match api.delete(name, &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(refused(kind, name, &error)),
        }
    }
}

fn is_owned(found: &ObjectMeta, provider: &Provider) -> bool {
    let owners = found.owner_references.iter().flatten();
    let uid = provider.metadata.uid.as_deref();
    owners
        .into_iter()
        .any(|owner| Some(owner.uid.as_str()) == uid)
}

/// An object of that name that is not the Provider's is left alone.
pub fn check_owner(
    found: Option<&ObjectMeta>,
    provider: &Provider,
    kind: &str,
    name: &str,
) -> Result<(), Problem> {
    match found {
        Some(found) if !is_owned(found, provider) => {
            let text = format!(
                "The {kind} {name} is there and belongs to somebody else. Delete it, or rename the Provider"
            );
            Err(Problem::new(Reason::NameConflict, "metadata.name", text))
        }
        _ => Ok(()),
    }
}

fn refused(kind: &str, name: &str, error: &kube::Error) -> NoWay {
    let text = format!(
        "The {kind} {name} cannot be made: {}",
        refusal::words(error)
    );
    let problem = Problem::new(Reason::InvalidConfiguration, "spec.runtime", text);
    refusal::told(error, problem)
}
