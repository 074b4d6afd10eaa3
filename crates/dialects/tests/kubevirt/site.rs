//! A control plane in which KubeVirt is simulated, and what a test does there.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use polyvirt_testkit::kubevirt_sim::{self, KubevirtSim, Settings};
use polyvirt_testkit::{ControlPlane, audit};
use serde_json::{Value, json};

/// How long anything may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// One at a time: each has up to four control planes.
pub static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

pub struct Site {
    pub plane: ControlPlane,
    pub client: Client,
    log: PathBuf,
    _folder: tempfile::TempDir,
    _sim: Option<KubevirtSim>,
}

impl Site {
    /// A control plane without anything.
    pub async fn bare() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.log");
        let plane = ControlPlane::builder()
            .audit_log(&log)
            .start()
            .await
            .unwrap();
        Self {
            client: plane.client().unwrap(),
            plane,
            log,
            _folder: folder,
            _sim: None,
        }
    }

    /// One with our kinds.
    pub async fn supervisor() -> Self {
        let site = Self::bare().await;
        let crds = polyvirt_api::crds();
        polyvirt_testkit::install_crds(&site.client, &crds)
            .await
            .unwrap();
        site
    }

    /// Lets KubeVirt be simulated there.
    pub async fn with_kubevirt(self) -> Self {
        self.with_version(&Settings::default().version).await
    }

    /// The same, of that version.
    pub async fn with_version(mut self, version: &str) -> Self {
        let settings = Settings {
            version: version.to_owned(),
            ..Settings::default()
        };
        let sim = kubevirt_sim::start(self.client.clone(), settings);
        self._sim = Some(sim.await.unwrap());
        self
    }

    /// The same eyes and hands in a cluster that somebody else has started.
    pub fn at(mut self, client: Client) -> Self {
        self.client = client;
        self
    }

    pub fn kubeconfig(&self) -> String {
        std::fs::read_to_string(self.plane.kubeconfig_path()).unwrap()
    }

    /// Requests that change something, but for those of the API server itself.
    pub fn writes(&self) -> Vec<audit::Entry> {
        let entries = audit::read(&self.log).unwrap();
        let all = entries.into_iter();
        all.filter(|e| e.is_write() && !e.user.starts_with("system:apiserver"))
            .collect()
    }

    /// Requests of callers whose credentials it does not know: the audit log has their beginnings only.
    pub fn refused(&self) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap();
        log.lines().filter(|l| l.contains("\"code\":401")).count()
    }

    pub async fn namespace(&self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.apply(object).await;
    }

    /// As `kubectl apply --server-side --validate=strict` does.
    pub async fn apply(&self, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let params = PatchParams {
            field_validation: Some(kube::api::ValidationDirective::Strict),
            ..PatchParams::apply("test").force()
        };
        let api = self.of(&object);
        let applied = api.patch(&name, &params, &Patch::Apply(&object)).await;
        applied.unwrap_or_else(|error| panic!("{error}: {object:#}"));
    }

    pub async fn merge(&self, kind: &str, place: (&str, &str), change: Value) {
        let api = self.api(kind, place.0);
        let params = PatchParams::default();
        let merged = api.patch(place.1, &params, &Patch::Merge(&change)).await;
        merged.unwrap();
    }

    pub async fn delete(&self, kind: &str, place: (&str, &str)) {
        let api = self.api(kind, place.0);
        api.delete(place.1, &Default::default()).await.unwrap();
    }

    fn of(&self, object: &Value) -> Api<DynamicObject> {
        let kind = object["kind"].as_str().unwrap();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        self.api(
            &format!("{}/{kind}", object["apiVersion"].as_str().unwrap()),
            namespace,
        )
    }

    /// Of a kind such as `vitistack.io/v1alpha1/Machine`, or one of the words below.
    pub fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let full = match kind {
            "Machine" | "KubevirtConfig" | "NetworkConfiguration" => {
                format!("vitistack.io/v1alpha1/{kind}")
            }
            "VirtualMachine" => "infra.virtrigaud.io/v1beta1/VirtualMachine".to_owned(),
            "VM" => "kubevirt.io/v1/VirtualMachine".to_owned(),
            "VMI" => "kubevirt.io/v1/VirtualMachineInstance".to_owned(),
            "PVC" => "v1/PersistentVolumeClaim".to_owned(),
            "Lease" => "coordination.k8s.io/v1/Lease".to_owned(),
            other => other.to_owned(),
        };
        let (version, kind) = full.rsplit_once('/').unwrap();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = match kind {
            "StorageClass" => ApiResource::from_gvk_with_plural(
                &GroupVersionKind::gvk(group, version, kind),
                "storageclasses",
            ),
            _ => ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)),
        };
        match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    /// The object as JSON; null if it is not there.
    pub async fn look(&self, kind: &str, place: (&str, &str)) -> Value {
        let found = self.api(kind, place.0).get_opt(place.1).await;
        serde_json::to_value(found.unwrap()).unwrap()
    }

    pub async fn list(&self, kind: &str, namespace: &str) -> Vec<Value> {
        let list = self.api(kind, namespace).list(&ListParams::default()).await;
        let items = list.unwrap().items.into_iter();
        items.map(|o| serde_json::to_value(o).unwrap()).collect()
    }

    pub async fn until(
        &self,
        kind: &str,
        place: (&str, &str),
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.look(kind, place).await;
            if holds(&found) {
                return found;
            }
            assert!(
                Instant::now() < deadline,
                "{place:?} is never {what}: {found:#}"
            );
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// Waits until the Machine stands so.
    pub async fn phase(&self, place: (&str, &str), phase: &str) -> Value {
        self.until("Machine", place, phase, |m| m["status"]["phase"] == phase)
            .await
    }
}

/// The Secret and the KubevirtConfig of a cluster.
pub async fn introduce(supervisor: &Site, namespace: &str, name: &str, kubeconfig: &str) {
    let secret = format!("{name}-kubeconfig");
    supervisor
        .apply(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": secret, "namespace": namespace},
            "stringData": {"kubeconfig": kubeconfig},
        }))
        .await;
    supervisor
        .apply(json!({
            "apiVersion": "vitistack.io/v1alpha1", "kind": "KubevirtConfig",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"name": name, "kubeconfigSecretRef": secret},
        }))
        .await;
}

pub fn machine(namespace: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    })
}
