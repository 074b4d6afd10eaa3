//! The engine and the dialect, with the way to clusters that KubevirtConfigs and their Secrets describe.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use polyvirt_api::infra::Provider as ProviderObject;
use polyvirt_contract::{Provider, ProviderError};
use polyvirt_dialects::vitistack::{Controller, Metrics, Settings};
use polyvirt_engine::link::session::Connector;
use polyvirt_engine::manager::{self as engine, Config};
use polyvirt_engine::provider::{NoWay, Place, Runtime, Way};
use polyvirt_plan::{Problem, Reason};
use polyvirt_provider_kubevirt::{KUBECONFIG_KEY, Kubevirt, KubevirtConfig};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::log;
use crate::site::{PATIENCE, Site};

/// Clusters by the kubeconfigs of their Secrets.
struct Clusters(Client);

#[async_trait]
impl Runtime for Clusters {
    async fn way(&self, provider: &ProviderObject) -> Result<Way, NoWay> {
        let wrong =
            |text: String| Problem::new(Reason::SecretInvalid, "spec.credentialSecretRef", text);
        let secret = provider.spec.credential_secret_ref.clone().unwrap();
        let own = provider.metadata.namespace.clone();
        let namespace = secret.namespace.or(own).unwrap_or_default();
        let api: Api<Secret> = Api::namespaced(self.0.clone(), &namespace);
        let found = api.get(&secret.name).await;
        let found = found.map_err(|error| wrong(error.to_string()))?;
        let data = found.data.unwrap_or_default();
        let bytes = data
            .get(KUBECONFIG_KEY)
            .map(|b| b.0.clone())
            .unwrap_or_default();
        let mut mark = DefaultHasher::new();
        bytes.hash(&mut mark);
        let config = KubevirtConfig::from_url("kubevirt://kubeconfig").unwrap();
        let credentials = BTreeMap::from([(KUBECONFIG_KEY.to_owned(), bytes)]);
        let config = config.with_credentials(&credentials);
        let config = config.map_err(|error| wrong(error.to_string()))?;
        Ok(Way {
            connector: Arc::new(Cluster(config)),
            made_from: format!("{:x}", mark.finish()),
            place: Place::default(),
        })
    }
}

struct Cluster(KubevirtConfig);

#[async_trait]
impl Connector for Cluster {
    async fn connect(&self) -> Result<Arc<dyn Provider>, ProviderError> {
        let opened: Arc<dyn Provider> = Kubevirt::open(self.0.clone()).await?;
        Ok(opened)
    }
}

pub struct Manager {
    metrics: Arc<Metrics>,
    pub controller: Arc<Controller>,
    stop: CancellationToken,
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Manager {
    /// Starts both, and waits until they work.
    pub async fn ready(supervisor: &Site, settings: Settings) -> Self {
        log::keep();
        let client = supervisor.plane.client().unwrap();
        let runtime = Arc::new(Clusters(client.clone()));
        let config = Config::default();
        let mut manager = engine::Manager::new(client.clone(), config, runtime, Arc::default());
        let metrics: Arc<Metrics> = Arc::default();
        let shared = manager.shared();
        let controller = Controller::new(client, settings, Vec::new(), shared, metrics.clone());
        manager.follow(controller.clone());
        let stop = CancellationToken::new();
        tokio::spawn(manager.run(stop.clone()));
        tokio::spawn(controller.clone().run(stop.clone()));
        let (mut ready, begin) = (controller.ready(), Instant::now());
        while !*ready.borrow_and_update() {
            assert!(begin.elapsed() < PATIENCE, "it never works");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Self {
            metrics,
            controller,
            stop,
        }
    }

    pub fn metrics(&self) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        self.metrics.register(&mut registry);
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    /// All that the dialect logged so far.
    pub fn log(&self) -> Vec<Value> {
        log::lines()
    }
}
