//! The Deployment and what its pods need: ServiceAccount and Service. Pure.

use k8s_openapi::api::core::v1::SecurityContext;
use polyvirt_api::infra::{Provider, ProviderRuntime};
use polyvirt_contract::credentials::CREDENTIALS_DIR;
use polyvirt_engine::provider::sessions::type_word;
use polyvirt_engine::runtime::key::ObjectKey;
use serde_json::{Value, json};

use super::environment;
use super::names::{labels, object_name, selector};
use super::settings::Image;

/// The port of `/healthz`, `/readyz` and `/metrics`.
pub const HEALTH_PORT: i32 = 8080;
const TLS_DIR: &str = "/etc/virtrigaud/tls";
/// Nobody on the node has this number.
const NOBODY: i64 = 65532;

/// What a Deployment is made of beside the object.
#[derive(Clone, Debug)]
pub struct Parts {
    /// What to run.
    pub image: Image,
    /// The Secret with certificates; `None` for plain text.
    pub tls_secret: Option<String>,
    /// Words that change when what was read at the start of a pod does: the pods are replaced then.
    pub seals: Vec<(&'static str, String)>,
}

/// The port on which the provider serves.
pub fn port(provider: &Provider) -> i32 {
    let service = provider.spec.runtime.as_ref();
    let service = service.and_then(|r| r.service.as_ref());
    service.map_or(9443, |s| s.port)
}

/// The account of the pods. It may do nothing, and the pods do not get its token.
pub fn service_account(provider: &Provider) -> Value {
    let mut account = object(provider, "v1", "ServiceAccount");
    account["automountServiceAccountToken"] = json!(false);
    account
}

/// The Service. Pods whose hypervisor does not answer are behind it too: what they say is what the manager has to hear.
pub fn service(provider: &Provider) -> Value {
    let port = port(provider);
    let mut service = object(provider, "v1", "Service");
    service["spec"] = json!({
        "type": "ClusterIP",
        "selector": selector(&ObjectKey::of(provider)),
        "publishNotReadyAddresses": true,
        "ports": [
            {"name": "grpc", "protocol": "TCP", "port": port, "targetPort": "grpc"},
            {"name": "metrics", "protocol": "TCP", "port": HEALTH_PORT, "targetPort": "metrics"},
        ],
    });
    service
}

/// The Deployment.
pub fn deployment(provider: &Provider, parts: &Parts) -> Value {
    let runtime = runtime_of(provider);
    let mut deployment = object(provider, "apps/v1", "Deployment");
    deployment["spec"] = json!({
        "replicas": runtime.replicas,
        "selector": {"matchLabels": selector(&ObjectKey::of(provider))},
        "template": {
            "metadata": {
                "labels": labels(provider),
                "annotations": annotations(provider, parts),
            },
            "spec": pod(provider, &runtime, parts),
        },
    });
    deployment
}

fn runtime_of(provider: &Provider) -> ProviderRuntime {
    let runtime = provider.spec.runtime.as_deref();
    runtime.cloned().unwrap_or_default()
}

/// An object of the Provider's, which goes with it.
pub(super) fn object(provider: &Provider, version: &str, kind: &str) -> Value {
    let key = ObjectKey::of(provider);
    json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "name": object_name(&key),
            "namespace": key.namespace(),
            "labels": labels(provider),
            "ownerReferences": [owner(provider)],
        },
    })
}

/// Points to the Provider.
pub(super) fn owner(provider: &Provider) -> Value {
    json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1",
        "kind": "Provider",
        "name": provider.metadata.name,
        "uid": provider.metadata.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

fn annotations(provider: &Provider, parts: &Parts) -> Value {
    let mut all = serde_json::Map::new();
    for (name, value) in &parts.seals {
        all.insert(format!("polyvirt.io/{name}"), json!(value));
    }
    let port = HEALTH_PORT.to_string();
    all.insert("prometheus.io/scrape".into(), json!("true"));
    all.insert("prometheus.io/port".into(), json!(port));
    all.insert(
        "kubectl.kubernetes.io/default-container".into(),
        json!("provider"),
    );
    all.insert("polyvirt.io/provider".into(), json!(provider.metadata.name));
    Value::Object(all)
}

fn pod(provider: &Provider, runtime: &ProviderRuntime, parts: &Parts) -> Value {
    let mut pod = json!({
        "serviceAccountName": object_name(&ObjectKey::of(provider)),
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": NOBODY,
            "runAsGroup": NOBODY,
            "fsGroup": NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container(provider, runtime, parts)],
        "volumes": volumes(provider, parts),
    });
    put(&mut pod, "imagePullSecrets", &runtime.image_pull_secrets);
    put(&mut pod, "nodeSelector", &runtime.node_selector);
    put(&mut pod, "tolerations", &runtime.tolerations);
    put(&mut pod, "affinity", &runtime.affinity);
    pod
}

/// Puts what is there; nothing is claimed that the Provider does not speak of.
fn put(into: &mut Value, name: &str, value: &impl serde::Serialize) {
    let value = serde_json::to_value(value).unwrap_or_default();
    let empty = match &value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if !empty {
        into[name] = value;
    }
}

fn container(provider: &Provider, runtime: &ProviderRuntime, parts: &Parts) -> Value {
    let mut container = json!({
        "name": "provider",
        "image": parts.image.name(),
        "imagePullPolicy": runtime.image_pull_policy,
        "args": arguments(provider, &parts.image),
        "env": environment::variables(provider, parts),
        "ports": [
            {"name": "grpc", "protocol": "TCP", "containerPort": port(provider)},
            {"name": "metrics", "protocol": "TCP", "containerPort": HEALTH_PORT},
        ],
        "livenessProbe": probe("/healthz", 15, 20),
        "readinessProbe": probe("/readyz", 2, 5),
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"cpu": "1", "memory": "512Mi"},
        },
        "securityContext": restricted(runtime.security_context.as_deref()),
        "volumeMounts": mounts(provider, parts),
    });
    put(&mut container, "resources", &runtime.resources);
    put(&mut container, "livenessProbe", &runtime.liveness_probe);
    put(&mut container, "readinessProbe", &runtime.readiness_probe);
    container
}

/// Our image is told what to be. Another one knows, and is told what the contract says.
fn arguments(provider: &Provider, image: &Image) -> Vec<String> {
    let ports = [
        format!("--port={}", port(provider)),
        format!("--health-port={HEALTH_PORT}"),
    ];
    let role: &[&str] = match image {
        Image::Ours(_) => &["provider", type_word(provider.spec.type_)],
        Image::Named(_) => &[],
    };
    role.iter().map(ToString::to_string).chain(ports).collect()
}

fn probe(path: &str, delay: u32, period: u32) -> Value {
    json!({
        "httpGet": {"path": path, "port": "metrics"},
        "initialDelaySeconds": delay,
        "periodSeconds": period,
        "timeoutSeconds": 5,
    })
}

/// No rights, but for those that the Provider names.
fn restricted(named: Option<&SecurityContext>) -> Value {
    let mut context = json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
        "runAsUser": NOBODY,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    if let Some(Ok(Value::Object(named))) = named.map(serde_json::to_value) {
        for (key, value) in named {
            context[key] = value;
        }
    }
    context
}

fn mounts(provider: &Provider, parts: &Parts) -> Vec<Value> {
    let mut mounts = vec![json!({"name": "tmp", "mountPath": "/tmp"})];
    if provider.spec.credential_secret_ref.is_some() {
        mounts.push(mounted("provider-credentials", CREDENTIALS_DIR));
    }
    if parts.tls_secret.is_some() {
        mounts.push(mounted("provider-tls", TLS_DIR));
    }
    mounts
}

fn mounted(name: &str, path: &str) -> Value {
    json!({"name": name, "mountPath": path, "readOnly": true})
}

fn volumes(provider: &Provider, parts: &Parts) -> Vec<Value> {
    let mut volumes = vec![json!({"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}})];
    if let Some(secret) = &provider.spec.credential_secret_ref {
        volumes.push(secret_volume("provider-credentials", &secret.name));
    }
    if let Some(secret) = &parts.tls_secret {
        volumes.push(secret_volume("provider-tls", secret));
    }
    volumes
}

/// Only the pod's own group can read it.
fn secret_volume(name: &str, secret: &str) -> Value {
    json!({"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}})
}
