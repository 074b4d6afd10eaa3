//! What people read of the place where a Provider's code runs. Pure.

use polyvirt_api::infra::{CoreRef, Provider, ProviderRuntimeStatus, RuntimePhase};
use polyvirt_plan::Reason;
use polyvirt_plan::conditions::{Finding, Truth, kind};

use crate::provider::{Place, Pods, Security};

/// `status.runtime`.
pub fn runtime(
    provider: &Provider,
    place: Option<&Place>,
    ready: &Finding,
) -> ProviderRuntimeStatus {
    let spoken = provider.spec.runtime.as_ref().map(|r| r.mode);
    let mode = place.and_then(|p| p.mode).or(spoken);
    let alone = i32::from(ready.truth == Truth::True);
    let pods = place.and_then(|p| p.pods.as_ref());
    let endpoint = place.and_then(|p| p.endpoint.clone());
    let service = place.and_then(|p| p.service.clone());
    ProviderRuntimeStatus {
        mode: Some(mode.unwrap_or_default()),
        phase: Some(phase(ready)),
        message: Some(ready.message.clone()),
        endpoint: endpoint.or_else(|| provider.spec.endpoint.clone()),
        service_ref: service.map(|name| CoreRef { name }),
        ready_replicas: Some(pods.map_or(alone, |p| p.ready)),
        available_replicas: Some(pods.map_or(alone, |p| p.available)),
    }
}

fn phase(ready: &Finding) -> RuntimePhase {
    match (ready.truth, ready.reason) {
        (Truth::True, _) => RuntimePhase::Running,
        (Truth::Unknown, _) | (Truth::False, Reason::PodsNotReady) => RuntimePhase::Starting,
        (
            Truth::False,
            Reason::RuntimeUnsupported | Reason::InvalidConfiguration | Reason::SecretInvalid,
        ) => RuntimePhase::Failed,
        (Truth::False, _) => RuntimePhase::Pending,
    }
}

/// A provider that does not answer because it does not run yet has that excuse.
pub fn excused(ready: Finding, place: &Place) -> Finding {
    let absent = place.pods.as_ref().filter(|pods| pods.ready == 0);
    match absent {
        Some(pods) if ready.truth != Truth::True => Finding::new(
            kind::READY,
            Truth::False,
            Reason::PodsNotReady,
            not_ready(pods),
        ),
        _ => ready,
    }
}

fn not_ready(pods: &Pods) -> String {
    let why = pods.trouble.as_deref().unwrap_or("they are being started");
    format!("0 of {} pods of the provider are ready: {why}", pods.wanted)
}

/// Whether the code runs.
pub fn runtime_ready(ready: &Finding, place: Option<&Place>) -> Finding {
    let same = Finding {
        kind: kind::RUNTIME_READY,
        ..ready.clone()
    };
    let Some(pods) = place.and_then(|p| p.pods.as_ref()) else {
        return same;
    };
    if pods.ready == 0 {
        return Finding::new(
            kind::RUNTIME_READY,
            Truth::False,
            Reason::PodsNotReady,
            not_ready(pods),
        );
    }
    let text = format!("{} of {} pods are ready", pods.ready, pods.wanted);
    Finding::new(kind::RUNTIME_READY, Truth::True, Reason::PodsReady, text)
}

/// Whether one of the addresses names a plain TCP connection to a hypervisor, such as `qemu+tcp://`.
pub fn has_plain_scheme(endpoint: &str) -> bool {
    endpoint.split(',').any(|address| {
        let scheme = address.trim().split_once("://").map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| scheme.ends_with("+tcp"))
    })
}

/// What protects the connection to the provider, and from a provider inside the manager to its hypervisor.
pub fn security(provider: &Provider, place: &Place) -> Option<Finding> {
    let plain = has_plain_scheme(provider.spec.endpoint.as_deref().unwrap_or_default());
    let (truth, reason, text) = match &place.security {
        Security::Inside | Security::Own | Security::Secret(_) if plain => (
            Truth::False,
            Reason::PlainText,
            "The connection to the hypervisor is not encrypted and has no authentication. Use a +tls:// address in spec.endpoint"
                .to_owned(),
        ),
        Security::Inside => return None,
        Security::Own => (
            Truth::True,
            Reason::CertificatesIssued,
            "Both sides prove who they are; the manager makes and renews the certificates"
                .to_owned(),
        ),
        Security::Secret(name) => (
            Truth::True,
            Reason::CertificatesFromSecret,
            format!("Both sides prove who they are with the certificates of Secret {name}"),
        ),
        Security::Unverified => (
            Truth::False,
            Reason::ServerUnverified,
            "Encrypted, but whoever answers is believed: set spec.runtime.service.tls.insecureSkipVerify to false".to_owned(),
        ),
        Security::Plain => (
            Truth::False,
            Reason::PlainText,
            "Nothing is encrypted and nobody proves who they are: set spec.runtime.service.tls.enabled to true".to_owned(),
        ),
    };
    Some(Finding::new(kind::TLS_CONFIGURED, truth, reason, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(endpoint: &str) -> Provider {
        let object =
            serde_json::json!({"metadata": {}, "spec": {"type": "qemu", "endpoint": endpoint}});
        serde_json::from_value(object).expect("a Provider")
    }

    #[test]
    fn a_plain_connection_to_a_hypervisor_is_reported() {
        for (endpoint, plain) in [
            ("qemu+tcp://a:1", true),
            ("qemu+tls://a:1, qemu+tcp://b:1", true),
            ("qemu+tls://a:1", false),
            ("tcp://a:1", false),
            ("qemu:///var/lib", false),
            ("a:1", false),
        ] {
            let found = security(&provider(endpoint), &Place::default());
            let told = found.map(|finding| (finding.kind, finding.truth, finding.reason));
            let wanted = (kind::TLS_CONFIGURED, Truth::False, Reason::PlainText);
            assert_eq!(told, plain.then_some(wanted), "{endpoint}");
        }
    }
}
