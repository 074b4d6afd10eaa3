//! Providers.

use polyvirt_api::infra::{Provider, ProviderTls, RuntimeMode};
use polyvirt_engine::provider::sessions::type_word;
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_engine::runtime::vm_index::Target;
use polyvirt_plan::Problem;
use polyvirt_plan::honoured::provider as honoured;

use super::{Judged, invalid, references};
use crate::facts::Facts;

impl Judged for Provider {
    fn problems(&self, facts: &dyn Facts) -> Vec<Problem> {
        let found = match mode(self) {
            RuntimeMode::InProcess => facts.in_process(self).err(),
            RuntimeMode::External => foreign_scheme(self),
            RuntimeMode::Remote | RuntimeMode::Process => None,
        };
        found.into_iter().collect()
    }

    fn forbidden_changes(&self, old: &Self, facts: &dyn Facts) -> Vec<Problem> {
        if old.spec.type_ == self.spec.type_ {
            return Vec::new();
        }
        let users = facts.users(&Target::Provider(ObjectKey::of(self)));
        let users = users.unwrap_or_default().count;
        let text = format!(
            "{users} VirtualMachines are on this Provider of type {}. Make another Provider and move them",
            type_word(old.spec.type_)
        );
        (users > 0)
            .then(|| invalid("spec.type", text))
            .into_iter()
            .collect()
    }

    fn warnings(&self, old: Option<&Self>, facts: &dyn Facts) -> Vec<String> {
        let mut found = insecure(self);
        found.extend(without_credentials(self, facts));
        found.extend(slow_health(self));
        found.extend(many_pods(self));
        found.extend(idle(self, old));
        if old.is_some_and(|old| old.spec.endpoint != self.spec.endpoint) {
            found.extend(moved_away(self, facts));
        }
        found
    }
}

/// Fields that have no effect where the code runs, as far as that is known.
fn idle(provider: &Provider, old: Option<&Provider>) -> Vec<String> {
    let reported = provider.status.as_ref().and_then(honoured::reported);
    let mode = honoured::mode(provider, old);
    let found = honoured::ignored(provider, mode, reported.as_ref());
    let told = found.iter();
    told.map(|field| format!("{field}: the field has no effect"))
        .collect()
}

fn mode(provider: &Provider) -> RuntimeMode {
    let runtime = provider.spec.runtime.as_ref();
    runtime.map(|runtime| runtime.mode).unwrap_or_default()
}

fn tls(provider: &Provider) -> Option<&ProviderTls> {
    provider
        .spec
        .runtime
        .as_ref()?
        .service
        .as_ref()?
        .tls
        .as_ref()
}

/// The contract is gRPC; whether it is encrypted is said elsewhere.
fn foreign_scheme(provider: &Provider) -> Option<Problem> {
    let (scheme, _) = provider.spec.endpoint.as_deref()?.split_once("://")?;
    (!["grpc", "tcp"].contains(&scheme)).then(|| {
        invalid("spec.endpoint", format!("A provider in mode External is reached by grpc://host:port, not by {scheme}://. Give its address"))
    })
}

fn insecure(provider: &Provider) -> Vec<String> {
    let spec = &provider.spec;
    let plain = spec
        .endpoint
        .as_deref()
        .is_some_and(|e| e.starts_with("http://"));
    let remote = matches!(
        mode(provider),
        RuntimeMode::Remote | RuntimeMode::External | RuntimeMode::Process
    );
    let tls = tls(provider).filter(|_| remote);
    let told = [
        (
            spec.insecure_skip_verify,
            "spec.insecureSkipVerify: whoever is in between can take over the hypervisor's credentials; trust its certificate instead",
        ),
        (
            plain,
            "spec.endpoint: credentials go to the hypervisor in plain text; use https://",
        ),
        (
            tls.is_some_and(|t| !t.enabled),
            "spec.runtime.service.tls.enabled: false sends user data and credentials in plain text, and lets anybody command the provider",
        ),
        (
            tls.is_some_and(|t| t.insecure_skip_verify),
            "spec.runtime.service.tls.insecureSkipVerify: any server can pose as this provider",
        ),
    ];
    let told = told.into_iter().filter(|(holds, _)| *holds);
    told.map(|(_, text)| text.to_owned()).collect()
}

/// A Secret of another namespace is not looked for: whether it is there is no business of who writes here.
fn without_credentials(provider: &Provider, facts: &dyn Facts) -> Option<String> {
    let own = provider.metadata.namespace.as_deref().unwrap_or_default();
    let wanted = provider.spec.credential_secret_ref.as_ref()?;
    let secret = references::key(own, wanted);
    (secret.namespace() == own)
        .then(|| references::secret("spec.credentialSecretRef", &secret, facts))?
}

fn slow_health(provider: &Provider) -> Option<String> {
    let check = provider.spec.health_check.as_ref()?;
    let (interval, timeout) = (check.interval.parse().ok()?, check.timeout.parse().ok()?);
    (timeout > interval).then(|| {
        "spec.healthCheck.timeout: longer than interval, so a dead provider is noticed late"
            .to_owned()
    })
}

/// A task is known to the pod that carries it out. The manager keeps to one pod; if that one goes, it asks another, which knows
/// nothing, and looks at the VMs instead.
fn many_pods(provider: &Provider) -> Option<String> {
    let runtime = provider.spec.runtime.as_ref()?;
    (mode(provider) == RuntimeMode::Remote && runtime.replicas > 1).then(|| {
        "spec.runtime.replicas: pods do not know of each other's tasks, and the manager talks to one of them at a time; more than one makes nothing faster"
            .to_owned()
    })
}

fn moved_away(provider: &Provider, facts: &dyn Facts) -> Option<String> {
    let users = facts.users(&Target::Provider(ObjectKey::of(provider)))?;
    (users.count > 0).then(|| {
        format!("spec.endpoint: {} VirtualMachines are looked for at the new address; those that are not there are told as missing", users.count)
    })
}
