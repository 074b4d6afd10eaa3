//! The environment of a provider's process, as the contract has it. Pure.

use polyvirt_api::infra::{LogFormat, LogLevel, Provider};
use polyvirt_engine::provider::sessions::type_word;
use polyvirt_pki::MANAGER_NAME;

/// Who may call a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// The manager alone, by a certificate of its own authority: not whoever else has one of them.
    Manager,
    /// Whoever has a certificate of the authority in the provider's Secret.
    Certified,
    /// Anybody: plain text.
    Anybody,
}

/// Variables that every provider gets, wherever it runs. Those of the Provider come after them and win.
pub fn variables(provider: &Provider, callers: Callers) -> Vec<(&'static str, String)> {
    let spec = &provider.spec;
    let runtime = spec.runtime.as_ref();
    let encrypted = callers != Callers::Anybody;
    let mut all = vec![
        ("PROVIDER_TYPE", type_word(spec.type_).to_owned()),
        ("TLS_ENABLED", encrypted.to_string()),
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
    let endpoint = spec
        .endpoint
        .clone()
        .filter(|endpoint| !endpoint.is_empty());
    all.extend(endpoint.map(|endpoint| ("PROVIDER_ENDPOINT", endpoint)));
    let uid = provider.metadata.uid.clone();
    all.extend(uid.map(|uid| ("PROVIDER_INSTANCE", uid)));
    all.extend(link(callers));
    all.extend(defaults(provider));
    all
}

fn link(callers: Callers) -> Option<(&'static str, String)> {
    match callers {
        Callers::Anybody => Some(("VIRTRIGAUD_PROVIDER_INSECURE", "true".to_owned())),
        Callers::Manager => Some(("VIRTRIGAUD_PROVIDER_ALLOWED_SANS", MANAGER_NAME.to_owned())),
        Callers::Certified => None,
    }
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
