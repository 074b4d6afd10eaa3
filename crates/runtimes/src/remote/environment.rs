//! The environment of a provider's pod: that of every provider, and what a cluster can say beside. Pure.

use polyvirt_api::infra::Provider;
use serde_json::{Value, json};

use super::names::INSTANCE_LABEL;
use super::workload::Parts;
use crate::environment::{self, Callers};

/// All variables; those of the Provider come last and win.
pub fn variables(provider: &Provider, parts: &Parts) -> Vec<Value> {
    let mut all: Vec<_> = environment::variables(provider, callers(provider, parts))
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

fn callers(provider: &Provider, parts: &Parts) -> Callers {
    if parts.tls_secret.is_none() {
        Callers::Anybody
    } else if crate::address::secret_of(provider).is_none() {
        Callers::Manager
    } else {
        Callers::Certified
    }
}

fn from_field(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}})
}
