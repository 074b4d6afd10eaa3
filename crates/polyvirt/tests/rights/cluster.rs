//! A control plane with the shipped manifests on it, and the manager as their ServiceAccount.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::{Api, Client, discovery};
use polyvirt_testkit::{ControlPlane, install_crds};
use serde_json::{Value, json};

/// Where the manager runs.
pub const NAMESPACE: &str = "polyvirt-system";
/// Who it is.
pub const ACCOUNT: &str = "system:serviceaccount:polyvirt-system:polyvirt-manager";
const PROGRAM: &str = env!("CARGO_BIN_EXE_polyvirt");

/// How far the manager's rights go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All namespaces.
    Cluster,
    /// The namespace `default`.
    Namespace,
}

impl Scope {
    fn manifests(self) -> &'static str {
        match self {
            Self::Cluster => "config/default/polyvirt.yaml",
            Self::Namespace => "crates/polyvirt/tests/rights/namespaced.yaml",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Cluster => &[],
            Self::Namespace => &["--namespaces=default"],
        }
    }
}

/// The manager's process.
pub struct Manager(Child);

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A control plane and what it wrote down.
pub struct Cluster {
    /// How far the manager's rights go.
    pub scope: Scope,
    plane: ControlPlane,
    folder: tempfile::TempDir,
    /// The administrator's.
    pub client: Client,
}

fn repository(path: &str) -> String {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path);
    std::fs::read_to_string(path).unwrap()
}

fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

/// What the chart makes, for all namespaces as `make deploy` applies it.
pub fn manifests(scope: Scope) -> Vec<Value> {
    let mut all = documents(&repository("config/default/namespace.yaml"));
    all.extend(documents(&repository(scope.manifests())));
    all
}

/// The objects of a file among the samples.
pub fn sample(name: &str) -> Vec<Value> {
    documents(&repository(&format!("config/samples/{name}")))
}

/// Starts it and applies the manifests, but for the Deployment: the manager runs beside the cluster.
pub async fn start(scope: Scope) -> Cluster {
    let folder = tempfile::tempdir().unwrap();
    let builder = ControlPlane::builder().ephemeral();
    let plane = builder.audit_log(folder.path().join("audit.log"));
    let plane = plane.start().await.unwrap();
    let client = plane.client().unwrap();
    install_crds(&client, &polyvirt_api::crds()).await.unwrap();
    let cluster = Cluster {
        scope,
        plane,
        folder,
        client,
    };
    for object in manifests(scope) {
        if object["kind"] != "Deployment" {
            cluster.apply(asks_nobody(object)).await;
        }
    }
    cluster.apply(own_pod()).await;
    cluster
}

/// The API server has no way to the manager here, so the webhooks are there but are not asked.
fn asks_nobody(mut object: Value) -> Value {
    let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
    for webhook in webhooks.into_iter().flatten() {
        webhook["namespaceSelector"] = json!({"matchLabels": {"nobody": "ever"}});
        webhook["objectSelector"] = json!({"matchLabels": {"nobody": "ever"}});
    }
    object
}

/// The pod in which the manager believes to be, which it marks as the leader.
fn own_pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "manager-0", "namespace": NAMESPACE, "labels": {
            "app.kubernetes.io/name": "polyvirt", "app.kubernetes.io/instance": "polyvirt",
            "app.kubernetes.io/component": "manager",
        }},
        "spec": {
            "automountServiceAccountToken": false,
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "manager", "image": "polyvirt", "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            }}],
        },
    })
}

impl Cluster {
    /// Where the API server writes who asked for what.
    pub fn audit_log(&self) -> PathBuf {
        self.folder.path().join("audit.log")
    }

    /// The objects of a kind, `apiVersion` and `kind` as in a manifest.
    pub async fn objects(&self, version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = GroupVersionKind::gvk(group, version, kind);
        let found = discovery::pinned_kind(&self.client, &kind).await;
        let (resource, abilities) = found.unwrap();
        match abilities.scope {
            discovery::Scope::Cluster => Api::all_with(self.client.clone(), &resource),
            discovery::Scope::Namespaced => {
                Api::namespaced_with(self.client.clone(), namespace, &resource)
            }
        }
    }

    async fn place(&self, object: &Value) -> Api<DynamicObject> {
        let word = |value: &Value| value.as_str().unwrap_or("default").to_owned();
        let namespace = word(&object["metadata"]["namespace"]);
        self.objects(
            &word(&object["apiVersion"]),
            &word(&object["kind"]),
            &namespace,
        )
        .await
    }

    /// Applies an object as its user would.
    pub async fn apply(&self, object: Value) {
        let api = self.place(&object).await;
        let name = object["metadata"]["name"].as_str().unwrap();
        let params = PatchParams::apply("somebody").force();
        let done = api.patch(name, &params, &Patch::Apply(&object)).await;
        done.unwrap_or_else(|error| panic!("{object}: {error}"));
    }

    /// Deletes an object, and returns when it is gone.
    pub async fn delete(&self, object: &Value) {
        let api = self.place(object).await;
        let name = object["metadata"]["name"].as_str().unwrap();
        api.delete(name, &DeleteParams::default()).await.unwrap();
        let gone = async || api.get_opt(name).await.unwrap().is_none().then_some(());
        until(&format!("{name} is gone"), gone).await;
    }

    async fn token(&self) -> String {
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), NAMESPACE);
        let asked: TokenRequest =
            serde_json::from_value(json!({"spec": {"audiences": []}, "metadata": {}})).unwrap();
        let given = api
            .create_token_request("polyvirt-manager", &PostParams::default(), &asked)
            .await;
        given.unwrap().status.unwrap().token
    }

    async fn kubeconfig(&self) -> PathBuf {
        let text = std::fs::read_to_string(self.plane.kubeconfig_path()).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config["users"][0]["user"] = json!({"token": self.token().await});
        let path = self.folder.path().join("kubeconfig");
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// Starts the manager with the arguments of the Deployment that are not ports.
    pub async fn manager(&self, pod: &str) -> Manager {
        let mut command = Command::new(PROGRAM);
        command
            .args([
                "manager",
                "--metrics-bind-address=0",
                "--health-probe-bind-address=0",
            ])
            .args(["--leader-elect", "--leader-election-id=polyvirt-manager"])
            .args([
                "--gateway-bind-address=127.0.0.1:0",
                "--webhook-bind-address=127.0.0.1:0",
            ])
            .arg("--gateway-service=polyvirt-system/polyvirt-gateway")
            .arg("--webhook-service-name=polyvirt-webhook")
            .arg("--webhook-service-namespace=polyvirt-system")
            .arg("--webhook-configuration-name=polyvirt")
            .args(self.scope.arguments())
            .arg("--kubeconfig")
            .arg(self.kubeconfig().await)
            .env("POD_NAME", pod)
            .env("POD_NAMESPACE", NAMESPACE)
            .env(
                "POLYVIRT_MANAGER_LABELS",
                "app.kubernetes.io/component=manager",
            )
            .env("POLYVIRT_PROVIDER_IMAGE", "polyvirt:test")
            .env("POLYVIRT_PROVIDER_TYPES", "mock")
            .stdin(Stdio::null());
        Manager(command.spawn().unwrap())
    }
}

/// Looks until there is something to see.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
