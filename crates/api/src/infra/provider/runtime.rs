//! Where the code of a provider runs.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, EnvVar, Probe, ResourceRequirements, SecurityContext, Toleration,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::infra::CoreRef;

/// Where the provider's code runs, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderRuntime {
    /// Where the code runs: Remote (a Deployment made for it), External (it runs already and is
    /// reached at spec.endpoint), Process (a child process of the manager) or InProcess (inside
    /// the manager). Defaults to Remote.
    pub mode: RuntimeMode,
    /// Container image of the provider, for mode Remote. Absent means the one that belongs to
    /// this manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[a-zA-Z0-9._:/-]+(@[a-zA-Z0-9]+:[a-fA-F0-9]{64})?$"))]
    pub image: Option<String>,
    /// When to pull the image: Always, Never or IfNotPresent. Defaults to IfNotPresent.
    pub image_pull_policy: ImagePullPolicy,
    /// Secrets with the credentials of the registry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub image_pull_secrets: Vec<CoreRef>,
    /// Number of pods. Defaults to 1.
    #[schemars(range(min = 1, max = 10))]
    pub replicas: i32,
    /// How the provider is reached by the manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ProviderService>,
    /// CPU and memory of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Box<ResourceRequirements>>,
    /// Labels of the nodes on which pods may run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that pods bear.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub tolerations: Vec<Toleration>,
    /// Which nodes and neighbours pods want or avoid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Box<Affinity>>,
    /// Rights of the container. Absent means a user without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_context: Option<Box<SecurityContext>>,
    /// Further environment variables of the container.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), transform = crate::schema::optional_names)]
    pub env: Vec<EnvVar>,
    /// When to restart a pod. Absent means the gRPC health service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness_probe: Option<Box<Probe>>,
    /// When a pod may be called. Absent means the gRPC health service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Box<Probe>>,
    /// How much the provider logs: debug, info, warn or error. Defaults to info.
    pub log_level: LogLevel,
    /// How the provider logs: text or json. Defaults to text.
    pub log_format: LogFormat,
}

impl Default for ProviderRuntime {
    fn default() -> Self {
        Self {
            mode: RuntimeMode::default(),
            image: None,
            image_pull_policy: ImagePullPolicy::default(),
            image_pull_secrets: Vec::new(),
            replicas: 1,
            service: None,
            resources: None,
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            affinity: None,
            security_context: None,
            env: Vec::new(),
            liveness_probe: None,
            readiness_probe: None,
            log_level: LogLevel::default(),
            log_format: LogFormat::default(),
        }
    }
}

/// How a provider is reached by the manager.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderService {
    /// Port on which the provider serves. Defaults to 9443.
    #[schemars(range(min = 1024, max = 65_535))]
    pub port: i32,
    /// Encryption of the connection. Absent means on, with certificates that the manager makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ProviderTls>,
}

impl Default for ProviderService {
    fn default() -> Self {
        Self {
            port: 9443,
            tls: None,
        }
    }
}

/// Encryption between manager and provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderTls {
    /// Whether the connection is encrypted and both sides prove who they are. Defaults to true.
    pub enabled: bool,
    /// The Secret with tls.crt, tls.key and ca.crt. Absent means certificates that the manager
    /// makes and renews.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<CoreRef>,
    /// Whether to accept any certificate of the provider. Defaults to false.
    pub insecure_skip_verify: bool,
}

impl Default for ProviderTls {
    fn default() -> Self {
        Self {
            enabled: true,
            secret_ref: None,
            insecure_skip_verify: false,
        }
    }
}

/// Where a provider's code runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RuntimeMode {
    /// In a Deployment that the manager makes.
    #[default]
    Remote,
    /// Somewhere else; it is reached at the endpoint.
    External,
    /// In a child process of the manager.
    Process,
    /// Inside the manager.
    InProcess,
}

/// When a container image is pulled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImagePullPolicy {
    /// At each start.
    Always,
    /// Never: it must be there.
    Never,
    /// When the node lacks it.
    #[default]
    IfNotPresent,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// Changes of state.
    #[default]
    Info,
    /// What may need attention.
    Warn,
    /// Failures only.
    Error,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines.
    Json,
}
