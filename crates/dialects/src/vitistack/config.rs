//! A KubevirtConfig as a Provider of type kubevirt, and the Provider's health as the status of the KubevirtConfig. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use polyvirt_api::infra::{
    ObjectRef, Provider, ProviderRuntime, ProviderSpec, ProviderType, RuntimeMode,
};
use polyvirt_api::kubevirt::KubevirtVersion;
use polyvirt_api::vitistack::{KubevirtConfig, KubevirtConfigStatus, MANAGED_BY_LABEL};
use polyvirt_plan::Note;
use polyvirt_plan::Reason;
use polyvirt_plan::conditions::kind;

use super::settings::Settings;
use crate::shared::words::{pairs, translate};

/// VMs can be made.
pub const READY: &str = "Ready";
/// VMs cannot be made.
pub const FAILED: &str = "Failed";
const PENDING: &str = "Pending";
const CONNECTED: &str = "Connected";
const DISCONNECTED: &str = "Disconnected";

/// The Provider of a KubevirtConfig, of its name and owned by it.
pub fn lower(config: &KubevirtConfig, settings: &Settings) -> Provider {
    let own = config.metadata.namespace.clone();
    let elsewhere = config.spec.secret_namespace.clone();
    let elsewhere = elsewhere.filter(|ns| !ns.is_empty() && Some(ns) != own.as_ref());
    let name = config.metadata.name.as_deref().unwrap_or_default();
    let spec = ProviderSpec {
        credential_secret_ref: Some(ObjectRef {
            name: config.spec.kubeconfig_secret_ref.clone(),
            namespace: elsewhere,
        }),
        runtime: Some(Box::new(ProviderRuntime {
            mode: RuntimeMode::InProcess,
            ..ProviderRuntime::default()
        })),
        ..ProviderSpec::new(ProviderType::Kubevirt)
    };
    let mut provider = Provider::new(name, spec);
    provider.metadata.namespace = own;
    let label = (MANAGED_BY_LABEL.to_owned(), settings.managed_by.clone());
    provider.metadata.labels = Some([label].into());
    provider.metadata.owner_references = Some(vec![owner(config)]);
    provider
}

fn owner(config: &KubevirtConfig) -> OwnerReference {
    OwnerReference {
        api_version: KubevirtConfig::api_version(&()).into_owned(),
        kind: KubevirtConfig::kind(&()).into_owned(),
        name: config.metadata.name.clone().unwrap_or_default(),
        uid: config.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The KubevirtConfig that a Provider was made of: its name and UID.
pub fn made_of(provider: &Provider) -> Option<&OwnerReference> {
    let owners = provider.metadata.owner_references.as_ref()?;
    let ours = |o: &&OwnerReference| {
        o.controller == Some(true)
            && o.kind == KubevirtConfig::kind(&())
            && o.api_version == KubevirtConfig::api_version(&())
    };
    owners.iter().find(ours)
}

/// Whether the Provider is that of the KubevirtConfig.
pub fn is_owned(provider: &Provider, config: &KubevirtConfig) -> bool {
    let uid = config.metadata.uid.as_deref().unwrap_or_default();
    made_of(provider).is_some_and(|owner| owner.uid == uid)
}

/// Whether the Provider is that of a KubevirtConfig of the same name that is no longer there.
pub fn is_heir(provider: &Provider, config: &KubevirtConfig) -> bool {
    let name = config.metadata.name.as_deref().unwrap_or_default();
    made_of(provider).is_some_and(|owner| owner.name == name) && !is_owned(provider, config)
}

/// Whether the Provider is as it is to be. What others have added is theirs.
pub fn says_the_same(there: &Provider, wanted: &Provider) -> bool {
    let mode = |p: &Provider| p.spec.runtime.as_ref().map(|r| r.mode);
    there.spec.type_ == wanted.spec.type_
        && there.spec.credential_secret_ref == wanted.spec.credential_secret_ref
        && mode(there) == mode(wanted)
}

/// The status of a KubevirtConfig.
pub fn raise(config: &KubevirtConfig, provider: Option<&Provider>) -> KubevirtConfigStatus {
    let (phase, status, message) = standing(config, provider);
    let created = config.metadata.creation_timestamp.as_ref();
    let told = provider.and_then(|p| p.status.clone()).unwrap_or_default();
    let found = told.version.as_deref().and_then(KubevirtVersion::parse);
    let error = told.last_error.unwrap_or_default();
    // An error that is over reads like a fault in a status that says Ready.
    let is_wrong = phase != READY;
    // What was refused before anybody was asked is an error too.
    let refused = Some(message.clone()).filter(|_| phase == FAILED);
    KubevirtConfigStatus {
        phase: Some(phase.to_owned()),
        status: Some(status.to_owned()),
        message: Some(message),
        name: Some(config.spec.name.clone()),
        created: created.map(|time| time.0.to_string()),
        kubevirt_version: found.as_ref().map(|found| found.version.clone()),
        api_versions: found.map(|found| found.api_versions).unwrap_or_default(),
        last_error: Some(in_their_words(&error.message))
            .filter(|text| !text.is_empty())
            .or(refused)
            .filter(|_| is_wrong),
        last_error_time: error.time.filter(|_| is_wrong),
        latency_ms: told.latency_ms,
        provider_ref: provider.and_then(|p| p.metadata.name.clone()),
        observed_generation: config.metadata.generation,
    }
}

/// Whether there is news. How long an answer took is none: it differs each time.
pub fn is_news(old: &KubevirtConfigStatus, new: &KubevirtConfigStatus) -> bool {
    let as_old = KubevirtConfigStatus {
        latency_ms: old.latency_ms,
        ..new.clone()
    };
    as_old != *old
}

/// What differs between the KubeVirts of clusters that are reached, in one sentence; `None` if nothing does.
pub fn difference(clusters: &[(String, KubevirtConfigStatus)]) -> Option<String> {
    let known = clusters.iter().filter_map(|(name, status)| {
        let found = KubevirtVersion {
            version: status.kubevirt_version.clone()?,
            api_versions: status.api_versions.clone(),
        };
        (status.phase.as_deref() == Some(READY)).then_some((name, found))
    });
    let known: Vec<_> = known.collect();
    let (_, first) = known.first()?;
    if known.iter().all(|(_, found)| found == first) {
        return None;
    }
    let each: Vec<_> = known
        .iter()
        .map(|(name, found)| format!("{name} has {found}"))
        .collect();
    Some(format!(
        "KubeVirt differs between clusters: {}. What works in one may not in another; bring them to one version",
        each.join(", ")
    ))
}

fn standing(
    config: &KubevirtConfig,
    provider: Option<&Provider>,
) -> (&'static str, &'static str, String) {
    let Some(provider) = provider else {
        let message = "The Provider is being made".to_owned();
        return (PENDING, DISCONNECTED, message);
    };
    if !is_owned(provider, config) {
        return (FAILED, DISCONNECTED, conflict(provider));
    }
    let conditions = provider.status.iter().flat_map(|s| &s.conditions);
    let ready = conditions.into_iter().find(|c| c.type_ == kind::READY);
    match ready.map(|c| (c.status.as_str(), c.message.clone())) {
        Some(("True", message)) => (READY, CONNECTED, message),
        Some(("False", message)) => (FAILED, DISCONNECTED, in_their_words(&message)),
        Some((_, message)) => (PENDING, DISCONNECTED, in_their_words(&message)),
        None => (
            PENDING,
            DISCONNECTED,
            "The first connection is being made".to_owned(),
        ),
    }
}

/// Fields of the Provider, and what of the KubevirtConfig became them. Where it has nothing of the kind, the field is left out.
const FIELDS: &[(&str, &str)] = &[
    ("spec.credentialSecretRef.namespace", "spec.secretNamespace"),
    ("spec.credentialSecretRef.name", "spec.kubeconfigSecretRef"),
    ("spec.credentialSecretRef", "spec.kubeconfigSecretRef"),
    ("spec.type: ", ""),
    ("spec.endpoint: ", ""),
    ("spec.runtime.mode: ", ""),
    ("spec.runtime: ", ""),
];

/// The message of the Provider in the fields of the KubevirtConfig.
fn in_their_words(message: &str) -> String {
    translate(message, &pairs(FIELDS))
}

/// The status of a KubevirtConfig in a namespace that this manager does not read; `None` if another manager has written one.
pub fn raise_unread(config: &KubevirtConfig, read: &str) -> Option<KubevirtConfigStatus> {
    let own = config.metadata.namespace.as_deref().unwrap_or_default();
    let message = format!(
        "{UNREAD} in namespace {own}: the manager reads KubevirtConfigs of namespace {read} only. Create it there, or set KUBEVIRT_CONFIGS_NAMESPACE of the manager to {own} or *"
    );
    let old = config.status.as_ref();
    let written = old.is_some_and(|s| s.phase.as_deref().is_some_and(|phase| !phase.is_empty()));
    let ours = old.and_then(|s| s.message.as_deref());
    let ours = ours.is_some_and(|text| text.starts_with(UNREAD));
    (!written || ours).then(|| KubevirtConfigStatus {
        phase: Some(FAILED.to_owned()),
        status: Some(DISCONNECTED.to_owned()),
        message: Some(message),
        name: Some(config.spec.name.clone()),
        observed_generation: config.metadata.generation,
        ..KubevirtConfigStatus::default()
    })
}

/// How the message of a KubevirtConfig that is not read begins.
const UNREAD: &str = "Not used";

fn conflict(provider: &Provider) -> String {
    let name = provider.metadata.name.as_deref().unwrap_or_default();
    format!(
        "metadata.name: There is a Provider {name} that was not made of this KubevirtConfig. Rename one of them"
    )
}

/// One event for each change of the phase.
pub fn note(old: &KubevirtConfigStatus, new: &KubevirtConfigStatus) -> Option<Note> {
    if old.phase == new.phase {
        return None;
    }
    let message = new.message.clone().unwrap_or_default();
    match new.phase.as_deref() {
        Some(READY) => Some(Note::normal(Reason::Connected, message)),
        Some(FAILED) => Some(Note::warning(Reason::KubeVirtApiError, message)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    use polyvirt_api::infra::ProviderStatus;
    use polyvirt_api::vitistack::KubevirtConfigSpec;

    use super::*;

    fn config(secret_namespace: Option<&str>) -> KubevirtConfig {
        let spec = KubevirtConfigSpec {
            name: "cluster-east".into(),
            kubeconfig_secret_ref: "east-kubeconfig".into(),
            secret_namespace: secret_namespace.map(str::to_owned),
        };
        let mut config = KubevirtConfig::new("cluster-east", spec);
        config.metadata.namespace = Some("configs".into());
        config.metadata.uid = Some("u1".into());
        config
    }

    fn provider(status: Option<&str>) -> Provider {
        let mut provider = lower(&config(None), &Settings::default());
        let condition = |status: &str| Condition {
            type_: "Ready".into(),
            status: status.into(),
            reason: "X".into(),
            message: "says it".into(),
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
            observed_generation: None,
        };
        provider.status = status.map(|status| ProviderStatus {
            conditions: vec![condition(status)],
            version: Some("v1.8.4 (kubevirt.io v1, v1alpha3)".into()),
            latency_ms: Some(7),
            last_error: Some(polyvirt_api::infra::ProviderError {
                time: Some(Time(jiff::Timestamp::UNIX_EPOCH)),
                message: "It was gone".into(),
            }),
            ..ProviderStatus::default()
        });
        provider
    }

    #[test]
    fn a_config_is_a_provider_inside_the_manager() {
        let made = lower(&config(None), &Settings::default());
        assert_eq!(made.metadata.name.as_deref(), Some("cluster-east"));
        assert_eq!(made.metadata.namespace.as_deref(), Some("configs"));
        assert!(is_owned(&made, &config(None)));
        let spec = serde_json::to_value(&made.spec).unwrap();
        assert_eq!(spec["type"], "kubevirt");
        assert_eq!(spec["runtime"]["mode"], "InProcess");
        assert_eq!(
            spec["credentialSecretRef"],
            serde_json::json!({"name": "east-kubeconfig"})
        );
    }

    #[test]
    fn a_secret_may_be_elsewhere() {
        let secret = |ns| {
            let made = lower(&config(ns), &Settings::default());
            made.spec.credential_secret_ref.unwrap().namespace
        };
        assert_eq!(secret(Some("secrets")).as_deref(), Some("secrets"));
        assert_eq!(secret(Some("configs")), None);
        assert_eq!(secret(Some("")), None);
    }

    #[test]
    fn health_is_told() {
        let mut stranger = provider(Some("True"));
        stranger.metadata.owner_references = None;
        for (provider, phase, status) in [
            (None, PENDING, DISCONNECTED),
            (Some(provider(None)), PENDING, DISCONNECTED),
            (Some(provider(Some("Unknown"))), PENDING, DISCONNECTED),
            (Some(provider(Some("True"))), READY, CONNECTED),
            (Some(provider(Some("False"))), FAILED, DISCONNECTED),
            (Some(stranger), FAILED, DISCONNECTED),
        ] {
            let raised = raise(&config(None), provider.as_ref());
            assert_eq!(raised.phase.as_deref(), Some(phase));
            assert_eq!(raised.status.as_deref(), Some(status));
            let told = provider.is_some_and(|provider| provider.status.is_some());
            let wrong = told && phase != READY;
            assert_eq!(raised.last_error.is_some(), wrong, "{phase}");
            assert!(wrong || raised.last_error_time.is_none(), "{phase}");
        }
        let mut refused = provider(Some("False"));
        refused.status.as_mut().unwrap().last_error = None;
        let raised = raise(&config(None), Some(&refused));
        assert_eq!(raised.last_error, raised.message);
        let raised = raise(&config(None), Some(&provider(Some("True"))));
        assert_eq!(raised.kubevirt_version.as_deref(), Some("v1.8.4"));
        assert_eq!(raised.api_versions, ["v1", "v1alpha3"]);
        assert_eq!(raised.last_error, None, "it is over");
        assert_eq!(raised.latency_ms, Some(7));
        let slower = KubevirtConfigStatus {
            latency_ms: Some(9),
            ..raised.clone()
        };
        assert!(!is_news(&raised, &slower));
        assert!(is_news(&KubevirtConfigStatus::default(), &raised));
    }

    #[test]
    fn fields_are_those_of_the_config() {
        for (ours, theirs) in [
            (
                "spec.credentialSecretRef.name: Secret x does not exist. Create it",
                "spec.kubeconfigSecretRef: Secret x does not exist. Create it",
            ),
            (
                "spec.credentialSecretRef.namespace: No",
                "spec.secretNamespace: No",
            ),
            (
                "spec.credentialSecretRef: No",
                "spec.kubeconfigSecretRef: No",
            ),
            ("spec.runtime.mode: No", "No"),
            ("The cluster does not answer", "The cluster does not answer"),
        ] {
            let mut refused = provider(Some("False"));
            let status = refused.status.as_mut().unwrap();
            status.conditions[0].message = ours.into();
            let raised = raise(&config(None), Some(&refused));
            assert_eq!(raised.message.as_deref(), Some(theirs));
        }
    }

    #[test]
    fn a_config_that_is_not_read_says_so_unless_another_manager_reads_it() {
        let mut other = config(None);
        let unread = raise_unread(&other, "default").expect("a status");
        let text = unread.message.clone().unwrap();
        assert_eq!(unread.phase.as_deref(), Some(FAILED));
        assert!(
            text.contains("namespace configs") && text.contains("default"),
            "{text}"
        );
        other.status = Some(unread.clone());
        assert_eq!(raise_unread(&other, "default"), Some(unread));
        other.status = Some(raise(&other, Some(&provider(Some("True")))));
        assert_eq!(raise_unread(&other, "default"), None);
    }

    #[test]
    fn differences_between_clusters_are_told() {
        let cluster = |name: &str, phase: &str, version: &str| {
            let status = KubevirtConfigStatus {
                phase: Some(phase.into()),
                kubevirt_version: Some(version.into()).filter(|v: &String| !v.is_empty()),
                api_versions: vec!["v1".into()],
                ..KubevirtConfigStatus::default()
            };
            (name.to_owned(), status)
        };
        let same = [cluster("a", READY, "v1.8.0"), cluster("b", READY, "v1.8.0")];
        assert_eq!(difference(&same), None);
        assert_eq!(difference(&[]), None);
        let silent = [
            cluster("a", READY, "v1.8.0"),
            cluster("b", FAILED, "v1.7.0"),
        ];
        assert_eq!(difference(&silent), None, "what is not reached has no say");
        let unknown = [cluster("a", READY, "v1.8.0"), cluster("b", READY, "")];
        assert_eq!(difference(&unknown), None);
        let differs = [cluster("a", READY, "v1.8.0"), cluster("b", READY, "v1.7.1")];
        let text = difference(&differs).unwrap();
        assert!(
            text.contains("a has v1.8.0 (kubevirt.io v1), b has v1.7.1 (kubevirt.io v1)"),
            "{text}"
        );
    }
}
