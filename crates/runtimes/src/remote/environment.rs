//! The environment of a provider's process, as the contract has it. Pure.

use polyvirt_api::infra::{LogFormat, LogLevel, Provider};
use polyvirt_engine::provider::sessions::type_word;
use serde_json::{Value, json};

use super::MANAGER_NAME;
use super::names::INSTANCE_LABEL;
use super::workload::Parts;

/// All variables; those of the Provider come last and win.
pub fn variables(provider: &Provider, parts: &Parts) -> Vec<Value> {
    let mut all: Vec<_> = ours(provider, parts)
        .into_iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    all.push(from_field("PROVIDER_NAMESPACE", "metadata.namespace"));
    let instance = format!("metadata.labels['{INSTANCE_LABEL}']");
    all.push(from_field("PROVIDER_NAME", &instance));
    let named = provider.spec.runtime.as_ref().map(|r| r.env.as_slice());
    for variable in named.unwrap_or_default() {
        all.retain(|v| v["name"] != variable.name);
        all.extend(serde_json::to_value(variable));
    }
    all
}

fn ours(provider: &Provider, parts: &Parts) -> Vec<(&'static str, String)> {
    let spec = &provider.spec;
    let runtime = spec.runtime.as_ref();
    let mut all = vec![
        ("PROVIDER_TYPE", type_word(spec.type_).to_owned()),
        (
            "PROVIDER_ENDPOINT",
            spec.endpoint.clone().unwrap_or_default(),
        ),
        ("TLS_ENABLED", parts.tls_secret.is_some().to_string()),
        (
            "TLS_INSECURE_SKIP_VERIFY",
            spec.insecure_skip_verify.to_string(),
        ),
        ("LOG_LEVEL", level(runtime.map(|r| r.log_level)).to_owned()),
        (
            "LOG_FORMAT",
            format(runtime.map(|r| r.log_format)).to_owned(),
        ),
    ];
    all.extend(link(provider, parts));
    all.extend(defaults(provider));
    // An empty endpoint is not one.
    all.retain(|(name, value)| *name != "PROVIDER_ENDPOINT" || !value.is_empty());
    all
}

/// Who may call. With certificates of our own authority that is the manager alone: not whoever else has one of them.
fn link(provider: &Provider, parts: &Parts) -> Option<(&'static str, String)> {
    if parts.tls_secret.is_none() {
        return Some(("VIRTRIGAUD_PROVIDER_INSECURE", "true".to_owned()));
    }
    let own = crate::address::secret_of(provider).is_none();
    own.then(|| ("VIRTRIGAUD_PROVIDER_ALLOWED_SANS", MANAGER_NAME.to_owned()))
}

fn defaults(provider: &Provider) -> Vec<(&'static str, String)> {
    let Some(defaults) = &provider.spec.defaults else {
        return Vec::new();
    };
    let all = [
        ("PROVIDER_DEFAULT_DATASTORE", &defaults.datastore),
        ("PROVIDER_DEFAULT_STORAGE_POD", &defaults.storage_pod),
        ("PROVIDER_DEFAULT_CLUSTER", &defaults.cluster),
        ("PROVIDER_DEFAULT_FOLDER", &defaults.folder),
        ("PROVIDER_DEFAULT_RESOURCE_POOL", &defaults.resource_pool),
        ("PROVIDER_DEFAULT_NETWORK", &defaults.network),
    ];
    all.into_iter()
        .filter_map(|(name, value)| Some((name, value.clone()?)))
        .collect()
}

fn from_field(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}})
}

const fn level(level: Option<LogLevel>) -> &'static str {
    match level {
        Some(LogLevel::Debug) => "debug",
        Some(LogLevel::Warn) => "warn",
        Some(LogLevel::Error) => "error",
        Some(LogLevel::Info) | None => "info",
    }
}

const fn format(format: Option<LogFormat>) -> &'static str {
    match format {
        Some(LogFormat::Json) => "json",
        Some(LogFormat::Text) | None => "text",
    }
}
