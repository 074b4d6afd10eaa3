//! Fields of a Provider that act only in some runtime modes, or only with some hypervisors.

use polyvirt_api::infra::{Provider, ProviderFeature, ProviderStatus, RuntimeMode};
use polyvirt_contract::{Extension, Features};

use super::{Counts, json, values};

/// What a field needs to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// One of these modes.
    Mode(&'static [RuntimeMode]),
    /// A provider that honours this field of VirtualMachines.
    Field(&'static str),
    /// A provider that reports its hosts.
    Hosts,
    /// Something that this version does not have: the text says what.
    Nothing(&'static str),
}

/// A field of a Provider that does not always act.
#[derive(Clone, Copy, Debug)]
pub struct ProviderField {
    /// Its path.
    pub path: &'static str,
    /// When it is in use.
    pub counts: Counts,
    /// What it needs.
    pub needs: Needs,
}

const PODS: Needs = Needs::Mode(&[RuntimeMode::Remote]);
const CHILD: Needs = Needs::Mode(&[RuntimeMode::Remote, RuntimeMode::Process]);
const DIALLED: Needs = Needs::Mode(&[RuntimeMode::Remote, RuntimeMode::External]);
const OURS: Needs = Needs::Mode(&[
    RuntimeMode::Remote,
    RuntimeMode::Process,
    RuntimeMode::InProcess,
]);
const NO_POOL: Needs =
    Needs::Nothing("providers of this version open connections as they need them");

const fn set(path: &'static str, needs: Needs) -> ProviderField {
    let counts = Counts::WhenSet;
    ProviderField {
        path,
        counts,
        needs,
    }
}

const fn unless(path: &'static str, words: &'static [&'static str], needs: Needs) -> ProviderField {
    let counts = Counts::Unless(words);
    ProviderField {
        path,
        counts,
        needs,
    }
}

/// All of them.
pub const PROVIDER_FIELDS: &[ProviderField] = &[
    set("spec.credentialSecretRef", OURS),
    unless("spec.insecureSkipVerify", &["false"], OURS),
    set(
        "spec.defaults.datastore",
        Needs::Field("spec.placement.datastore"),
    ),
    set(
        "spec.defaults.storagePod",
        Needs::Field("spec.placement.storagePod"),
    ),
    set(
        "spec.defaults.cluster",
        Needs::Field("spec.placement.cluster"),
    ),
    set(
        "spec.defaults.folder",
        Needs::Field("spec.placement.folder"),
    ),
    set(
        "spec.defaults.resourcePool",
        Needs::Field("spec.placement.resourcePool"),
    ),
    set("spec.overcommit", Needs::Hosts),
    set("spec.cordonedHosts", Needs::Hosts),
    unless(
        "spec.topology",
        &["single"],
        Needs::Nothing(
            "Host and HostPool objects are not read; name all hosts in spec.endpoint, with commas between them",
        ),
    ),
    unless("spec.connectionPooling.maxConnections", &["10"], NO_POOL),
    unless("spec.connectionPooling.maxIdleConnections", &["5"], NO_POOL),
    unless(
        "spec.connectionPooling.connectionTimeout",
        &["30s"],
        NO_POOL,
    ),
    unless("spec.connectionPooling.idleTimeout", &["5m"], NO_POOL),
    set("spec.runtime.image", PODS),
    unless("spec.runtime.imagePullPolicy", &["IfNotPresent"], PODS),
    set("spec.runtime.imagePullSecrets", PODS),
    unless("spec.runtime.replicas", &["1"], PODS),
    unless("spec.runtime.service.port", &["9443"], PODS),
    unless("spec.runtime.service.tls.enabled", &["true"], DIALLED),
    set("spec.runtime.service.tls.secretRef", DIALLED),
    unless(
        "spec.runtime.service.tls.insecureSkipVerify",
        &["false"],
        DIALLED,
    ),
    set("spec.runtime.resources", PODS),
    set("spec.runtime.nodeSelector", PODS),
    set("spec.runtime.tolerations", PODS),
    set("spec.runtime.affinity", PODS),
    set("spec.runtime.securityContext", PODS),
    set("spec.runtime.livenessProbe", PODS),
    set("spec.runtime.readinessProbe", PODS),
    set("spec.runtime.env", CHILD),
    unless("spec.runtime.logLevel", &["info"], CHILD),
    unless("spec.runtime.logFormat", &["text"], CHILD),
];

/// Fields of a Provider that act in every mode.
pub const PROVIDER_ACTS: &[&str] = &[
    "spec.type",
    "spec.endpoint",
    "spec.defaults.network",
    "spec.consumerNamespaceSelector",
    "spec.rateLimit",
    "spec.healthCheck",
    "spec.runtime.mode",
];

/// What a provider has reported of its fields and its hosts, from the status: so it is known while the provider is disconnected,
/// and to every manager. `None` if it was never connected.
pub fn reported(status: &ProviderStatus) -> Option<Features> {
    status.reported_capabilities.as_ref()?;
    let fields = status.honoured_fields.iter().cloned();
    let hosts = status.features.contains(&ProviderFeature::Inventory);
    Some(Features {
        honoured_fields: (!status.honoured_fields.is_empty()).then(|| fields.collect()),
        extensions: hosts.then_some(Extension::Inventory).into_iter().collect(),
        ..Features::default()
    })
}

/// Where the code of a Provider runs, as far as the object shows it: where it was started, unless another mode was written since.
pub fn mode(provider: &Provider, old: Option<&Provider>) -> RuntimeMode {
    let written = |p: &Provider| p.spec.runtime.as_ref().map(|r| r.mode);
    let same = old.is_none_or(|old| written(old) == written(provider));
    let status = provider.status.as_ref().and_then(|s| s.runtime.as_ref());
    let found = status.and_then(|runtime| runtime.mode).filter(|_| same);
    found.or(written(provider)).unwrap_or_default()
}

/// Fields that are set and have no effect, each with why; `mode` is where the code runs, and `features` what the provider has
/// reported. What needs a report is not judged before there is one.
pub fn ignored(provider: &Provider, mode: RuntimeMode, features: Option<&Features>) -> Vec<String> {
    let root = json(&provider.spec);
    let idle = PROVIDER_FIELDS.iter().filter_map(|field| {
        let path = field.path.split_once('.').map_or("", |(_, path)| path);
        let mut set = values(&root, path).into_iter();
        let why = field.needs.lacking(mode, features)?;
        set.any(|value| field.counts.says(value))
            .then(|| format!("{} ({why})", field.path))
    });
    idle.collect()
}

/// What people read of fields that have no effect; `None` if all act.
pub fn sentence(ignored: &[String]) -> Option<String> {
    (!ignored.is_empty()).then(|| {
        format!(
            "These fields are set but have no effect on this Provider: {}. Remove them, or change spec.runtime.mode",
            ignored.join(", ")
        )
    })
}

impl Needs {
    /// What is missing for it.
    fn lacking(self, mode: RuntimeMode, features: Option<&Features>) -> Option<String> {
        match self {
            Self::Mode(modes) if modes.contains(&mode) => None,
            Self::Mode(_) => Some(format!("not read in mode {}", mode_word(mode))),
            Self::Field(path) => features
                .filter(|features| !features.honours(path))
                .map(|_| format!("the provider does not honour {path}")),
            Self::Hosts => features
                .filter(|features| !features.has(Extension::Inventory))
                .map(|_| "the provider reports no hosts".to_owned()),
            Self::Nothing(why) => Some(why.to_owned()),
        }
    }
}

/// A mode, in the word of the API.
pub const fn mode_word(mode: RuntimeMode) -> &'static str {
    match mode {
        RuntimeMode::Remote => "Remote",
        RuntimeMode::External => "External",
        RuntimeMode::Process => "Process",
        RuntimeMode::InProcess => "InProcess",
    }
}
