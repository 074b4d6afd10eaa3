//! The variables that a Provider names for its process, with what a cluster would have put into them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, EnvVar, EnvVarSource, Secret};
use kube::{Api, Client};
use polyvirt_api::infra::Provider;
use polyvirt_engine::provider::NoWay;
use polyvirt_plan::{Problem, Reason};

use crate::refusal;

const FIELD: &str = "spec.runtime.env";

/// All variables with their values. What only a pod can know is refused: nothing is left out in silence.
pub async fn named(client: &Client, provider: &Provider) -> Result<Vec<(String, String)>, NoWay> {
    let named = provider.spec.runtime.as_ref().map(|r| r.env.as_slice());
    let mut all = Vec::new();
    for variable in named.unwrap_or_default() {
        if let Some(value) = value(client, provider, variable).await? {
            all.push((variable.name.clone(), value));
        }
    }
    Ok(all)
}

async fn value(
    client: &Client,
    provider: &Provider,
    variable: &EnvVar,
) -> Result<Option<String>, NoWay> {
    let Some(source) = &variable.value_from else {
        return Ok(Some(variable.value.clone().unwrap_or_default()));
    };
    let namespace = provider.metadata.namespace.as_deref().unwrap_or_default();
    let EnvVarSource {
        secret_key_ref,
        config_map_key_ref,
        field_ref,
        ..
    } = source;
    if let Some(wanted) = secret_key_ref {
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let found = api
            .get_opt(&wanted.name)
            .await
            .map_err(|e| unreadable(&e))?;
        let data = found.and_then(|s| s.data).unwrap_or_default();
        let text = data.get(&wanted.key).map(|v| String::from_utf8_lossy(&v.0));
        return present(variable, text.map(Into::into), wanted.optional);
    }
    if let Some(wanted) = config_map_key_ref {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let found = api
            .get_opt(&wanted.name)
            .await
            .map_err(|e| unreadable(&e))?;
        let data: BTreeMap<_, _> = found.and_then(|c| c.data).unwrap_or_default();
        return present(variable, data.get(&wanted.key).cloned(), wanted.optional);
    }
    let path = field_ref.as_ref().map(|f| f.field_path.as_str());
    match path {
        Some("metadata.namespace") => Ok(Some(namespace.to_owned())),
        _ => Err(needs_a_pod(variable).into()),
    }
}

fn present(
    variable: &EnvVar,
    value: Option<String>,
    optional: Option<bool>,
) -> Result<Option<String>, NoWay> {
    if value.is_none() && optional != Some(true) {
        let text = format!("What {} refers to does not exist. Create it", variable.name);
        return Err(Problem::new(Reason::InvalidConfiguration, FIELD, text).into());
    }
    Ok(value)
}

fn needs_a_pod(variable: &EnvVar) -> Problem {
    let text = format!(
        "{} is a fact of a pod, and this provider runs in none: give its value, or choose mode Remote",
        variable.name
    );
    Problem::new(Reason::RuntimeUnsupported, FIELD, text)
}

fn unreadable(error: &kube::Error) -> NoWay {
    let text = format!(
        "What it refers to cannot be read: {}",
        refusal::words(error)
    );
    refusal::told(
        error,
        Problem::new(Reason::InvalidConfiguration, FIELD, text),
    )
}
