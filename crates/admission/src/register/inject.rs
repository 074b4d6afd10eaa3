//! Puts the authority into configurations that somebody else has made, and touches nothing else of them.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::AdmissionError;

/// Set by whoever has cert-manager do it.
const INJECTED_BY_OTHERS: &str = "cert-manager.io/inject-ca-from";

/// The webhooks of a configuration: name and way.
trait Hooks:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug
{
    fn hooks(&self) -> Vec<(&str, &WebhookClientConfig)>;
}

impl Hooks for ValidatingWebhookConfiguration {
    fn hooks(&self) -> Vec<(&str, &WebhookClientConfig)> {
        let hooks = self.webhooks.iter().flatten();
        hooks
            .map(|hook| (hook.name.as_str(), &hook.client_config))
            .collect()
    }
}

impl Hooks for MutatingWebhookConfiguration {
    fn hooks(&self) -> Vec<(&str, &WebhookClientConfig)> {
        let hooks = self.webhooks.iter().flatten();
        hooks
            .map(|hook| (hook.name.as_str(), &hook.client_config))
            .collect()
    }
}

/// Both configurations of that name trust these authorities afterwards. One that is not there is waited for.
pub(crate) async fn inject(
    client: &Client,
    name: &str,
    authority: &[u8],
) -> Result<(), AdmissionError> {
    into::<ValidatingWebhookConfiguration>(client, name, authority).await?;
    into::<MutatingWebhookConfiguration>(client, name, authority).await
}

async fn into<K: Hooks>(
    client: &Client,
    name: &str,
    authority: &[u8],
) -> Result<(), AdmissionError> {
    let api: Api<K> = Api::all(client.clone());
    let Some(found) = api.get_opt(name).await? else {
        tracing::debug!(name, kind = %K::kind(&()), "there is no such configuration yet");
        return Ok(());
    };
    let changes = changes(found.meta(), &found.hooks(), authority);
    if changes.is_empty() {
        return Ok(());
    }
    let patch = serde_json::from_value(Value::Array(changes)).unwrap_or_default();
    api.patch(name, &PatchParams::default(), &Patch::Json::<()>(patch))
        .await?;
    tracing::info!(name, kind = %K::kind(&()), "the API server trusts the webhooks' certificate");
    Ok(())
}

/// Each is tested by its name: somebody may have moved them meanwhile.
fn changes(
    meta: &ObjectMeta,
    hooks: &[(&str, &WebhookClientConfig)],
    authority: &[u8],
) -> Vec<Value> {
    let annotations = meta.annotations.as_ref();
    if annotations.is_some_and(|all| all.contains_key(INJECTED_BY_OTHERS)) {
        return Vec::new();
    }
    let wanted = ByteString(authority.to_vec());
    let stale = hooks.iter().enumerate();
    let stale = stale.filter(|(_, (_, way))| way.ca_bundle.as_ref() != Some(&wanted));
    stale
        .flat_map(|(i, (name, _))| {
            [
                json!({"op": "test", "path": format!("/webhooks/{i}/name"), "value": name}),
                json!({"op": "add", "path": format!("/webhooks/{i}/clientConfig/caBundle"), "value": wanted}),
            ]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_stale_is_changed() {
        let fresh = WebhookClientConfig {
            ca_bundle: Some(ByteString(b"new".to_vec())),
            ..WebhookClientConfig::default()
        };
        let stale = WebhookClientConfig::default();
        let meta = ObjectMeta::default();
        let found = changes(&meta, &[("a", &fresh), ("b", &stale)], b"new");
        assert_eq!(
            found,
            [
                json!({"op": "test", "path": "/webhooks/1/name", "value": "b"}),
                json!({"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "bmV3"}),
            ]
        );
    }

    #[test]
    fn what_cert_manager_does_is_left_to_it() {
        let mut meta = ObjectMeta::default();
        let note = (INJECTED_BY_OTHERS.to_owned(), "a/b".to_owned());
        meta.annotations = Some([note].into());
        let stale = WebhookClientConfig::default();
        assert!(changes(&meta, &[("a", &stale)], b"new").is_empty());
    }
}
