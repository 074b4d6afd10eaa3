//! A namespace with a Provider, and the runtime that looks after it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use polyvirt_api::infra::{Provider, ProviderType};
use polyvirt_engine::provider::{NoWay, Way};
use polyvirt_pki::{Keeper, Lifetimes};
use polyvirt_runtimes::{Remote, Settings};
use polyvirt_testkit::{install_crds, namespace, shared};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

pub const IMAGE: &str = "registry.test/polyvirt:1";

pub struct Lab {
    pub client: Client,
    pub namespace: String,
    pub remote: Remote,
}

async fn client() -> Client {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let plane = shared().await.expect("a control plane");
    let client = plane.client().expect("a client");
    let install = || async {
        install_crds(&plane.client().unwrap(), &polyvirt_api::crds())
            .await
            .expect("served");
    };
    INSTALLED.get_or_init(install).await;
    client
}

impl Lab {
    pub async fn new() -> Self {
        Self::tuned(|_| ()).await
    }

    pub async fn tuned(tune: impl FnOnce(&mut Settings)) -> Self {
        Self::with(Lifetimes::default(), tune).await
    }

    pub async fn with(lifetimes: Lifetimes, tune: impl FnOnce(&mut Settings)) -> Self {
        let client = client().await;
        let namespace = namespace(&client, "remote").await.expect("made");
        let mut settings = Settings {
            image: Some(IMAGE.to_owned()),
            images: BTreeMap::new(),
            types: Vec::new(),
            serves: vec![ProviderType::Mock],
            fetches: Vec::new(),
            manager_namespace: namespace.clone(),
            manager_labels: BTreeMap::from([("app".to_owned(), "manager".to_owned())]),
            cluster_domain: "cluster.local".to_owned(),
            namespaces: vec![namespace.clone()],
        };
        tune(&mut settings);
        let home = &settings.manager_namespace;
        let keeper = Arc::new(Keeper::new(client.clone(), home, lifetimes));
        Self {
            remote: Remote::new(client.clone(), settings, keeper),
            client,
            namespace,
        }
    }

    pub fn providers(&self) -> Api<Provider> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A Provider of this name and spec.
    pub async fn provider(&self, name: &str, spec: Value) -> Provider {
        let object = json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1",
            "kind": "Provider",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": spec,
        });
        let params = PatchParams::apply("test").force();
        let patch = Patch::Apply(object);
        let patched = self.providers().patch(name, &params, &patch).await;
        patched.expect("accepted")
    }

    pub async fn way(&self, provider: &Provider) -> Result<Way, NoWay> {
        self.remote.way(provider).await
    }

    pub fn api(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    /// The object of that kind that belongs to the Provider.
    pub async fn find(&self, group: &str, kind: &str, provider: &str) -> Option<Value> {
        let suffix = if kind == "Secret" { "-tls" } else { "" };
        let name = format!("virtrigaud-provider-{}-{provider}{suffix}", self.namespace);
        let found = self.api(group, kind).get_opt(&name).await.expect("answers");
        found.map(|object| serde_json::to_value(object).expect("JSON"))
    }

    pub async fn deployment(&self, provider: &str) -> Value {
        self.find("apps", "Deployment", provider)
            .await
            .expect("there")
    }

    pub async fn secret(&self, name: &str, data: &[(&str, &str)]) {
        let data: BTreeMap<_, _> = data.iter().copied().collect();
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data,
        });
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        let api = self.api("", "Secret");
        if api.get_opt(name).await.expect("answers").is_some() {
            api.delete(name, &DeleteParams::default())
                .await
                .expect("deleted");
        }
        let made = api.create(&PostParams::default(), &object).await;
        made.expect("made");
    }
}

/// A mock in pods.
pub fn mock() -> Value {
    json!({"type": "mock", "runtime": {"mode": "Remote"}})
}

/// Waits until it holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..600 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not in time: {what}");
}
