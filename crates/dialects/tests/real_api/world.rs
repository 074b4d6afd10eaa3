//! A namespace with clusters, a manager and a controller of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use polyvirt_api::infra::{Provider as ProviderObject, ProviderSpec, ProviderType, VirtualMachine};
use polyvirt_api::vitistack::{KubevirtConfig, Machine};
use polyvirt_contract::{Provider, ProviderError};
use polyvirt_dialects::novacron;
use polyvirt_dialects::vitistack::settings::ConfigsNamespace;
use polyvirt_dialects::vitistack::{Controller, Metrics, Settings};
use polyvirt_engine::link::session::Connector;
use polyvirt_engine::manager::{Config, Manager};
use polyvirt_engine::provider::{NoWay, Place, Runtime, Way};
use polyvirt_plan::{Problem, Reason};
use polyvirt_provider_mock::{Mock, MockConfig};
use polyvirt_testkit::{install_crds, namespace, shared};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

pub const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(25);

pub trait Object:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + std::fmt::Debug
    + Serialize
    + DeserializeOwned
{
}

impl<K> Object for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned
{
}

/// Clusters by the name of their Provider.
#[derive(Default)]
pub struct Fleet(Mutex<HashMap<String, Arc<Mock>>>);

#[async_trait]
impl Runtime for Fleet {
    async fn way(&self, provider: &ProviderObject) -> Result<Way, NoWay> {
        let name = provider.metadata.name.as_deref().unwrap_or_default();
        let found = self.0.lock().unwrap().get(name).cloned();
        let missing = || {
            Problem::new(
                Reason::InvalidConfiguration,
                "spec.credentialSecretRef",
                "This test knows no such cluster. Name one that it has",
            )
        };
        Ok(Way {
            connector: Arc::new(Direct(found.ok_or_else(missing)?)),
            made_from: "direct".to_owned(),
            place: Place::default(),
        })
    }
}

struct Direct(Arc<Mock>);

#[async_trait]
impl Connector for Direct {
    async fn connect(&self) -> Result<Arc<dyn Provider>, ProviderError> {
        Ok(self.0.clone())
    }
}

pub struct World {
    pub client: Client,
    pub namespace: String,
    pub metrics: Arc<Metrics>,
    pub nova: Arc<novacron::Metrics>,
    /// Where the KubevirtConfigs are.
    pub configs: String,
    fleet: Arc<Fleet>,
    nova_at_work: Option<Arc<novacron::Controller>>,
    stop: Option<CancellationToken>,
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.cancel();
        }
    }
}

impl World {
    /// An empty one, with nobody at work.
    pub async fn empty(topic: &str) -> Self {
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        let plane = shared().await.expect("a control plane");
        let client = plane.client().expect("a client");
        let install = || async {
            let done = install_crds(&client, &polyvirt_api::crds()).await;
            done.expect("served");
        };
        INSTALLED.get_or_init(install).await;
        let namespace = namespace(&client, topic).await.expect("a namespace");
        Self {
            configs: namespace.clone(),
            namespace,
            client,
            metrics: Arc::default(),
            nova: Arc::default(),
            fleet: Arc::default(),
            nova_at_work: None,
            stop: None,
        }
    }

    /// One with a cluster named east, and everybody at work.
    pub async fn furnished(topic: &str) -> (Self, Arc<Mock>) {
        let mut world = Self::empty(topic).await;
        let east = world.cluster("east").await;
        world.start(|_| {}).await;
        (world, east)
    }

    /// A cluster and the way to it.
    pub async fn cluster(&self, name: &str) -> Arc<Mock> {
        let mock = self.hypervisor(name, MockConfig::default());
        let configs = Api::<KubevirtConfig>::namespaced(self.client.clone(), &self.configs);
        let params = PatchParams::apply("test");
        let applied = configs
            .patch(name, &params, &Patch::Apply(&config(name)))
            .await;
        applied.expect("the API server takes it");
        mock
    }

    /// A hypervisor that a Provider of that name reaches.
    fn hypervisor(&self, name: &str, config: MockConfig) -> Arc<Mock> {
        let mock = Mock::new(config);
        let mut fleet = self.fleet.0.lock().unwrap();
        fleet.insert(name.to_owned(), mock.clone());
        mock
    }

    /// A hypervisor and its Provider.
    pub async fn provider(&self, name: &str) -> Arc<Mock> {
        self.provider_of(name, MockConfig::default()).await
    }

    /// A hypervisor that is like that, and its Provider.
    pub async fn provider_of(&self, name: &str, config: MockConfig) -> Arc<Mock> {
        let mock = self.hypervisor(name, config);
        let mut provider = ProviderObject::new(name, ProviderSpec::new(ProviderType::Mock));
        provider.metadata.namespace = Some(self.namespace.clone());
        self.apply(provider).await;
        mock
    }

    /// Starts a manager and the controllers of both dialects.
    pub async fn start(&mut self, change: impl FnOnce(&mut Settings)) {
        let mut settings = Settings {
            configs_namespace: ConfigsNamespace::One(self.configs.clone()),
            resync: Duration::from_secs(1),
            ..Settings::default()
        };
        change(&mut settings);
        let mut namespaces = vec![self.namespace.clone(), self.configs.clone()];
        namespaces.dedup();
        let engine = Config {
            namespaces: namespaces.clone(),
            ..Config::default()
        };
        let client = self.client.clone();
        let mut manager = Manager::new(client.clone(), engine, self.fleet.clone(), Arc::default());
        let controller = Controller::new(
            client.clone(),
            settings,
            namespaces.clone(),
            manager.shared(),
            self.metrics.clone(),
        );
        manager.follow(controller.clone());
        let nova = novacron::Controller::new(
            client,
            novacron::Settings {
                resync: Duration::from_secs(1),
                ..novacron::Settings::in_namespace(&self.namespace)
            },
            namespaces,
            manager.shared(),
            self.nova.clone(),
        );
        manager.follow(nova.clone());
        let stop = CancellationToken::new();
        tokio::spawn(manager.run(stop.clone()));
        tokio::spawn(controller.run(stop.clone()));
        tokio::spawn(nova.clone().run(stop.clone()));
        self.nova_at_work = Some(nova);
        self.stop = Some(stop);
    }

    /// Starts both on threads of their own, so that they can be killed in the middle of anything.
    pub fn doomed(&self) -> Doomed {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let mut life = Self {
            client: self.client.clone(),
            namespace: self.namespace.clone(),
            configs: self.configs.clone(),
            metrics: Arc::default(),
            nova: Arc::default(),
            fleet: self.fleet.clone(),
            nova_at_work: None,
            stop: None,
        };
        runtime.spawn(async move {
            let plane = shared().await.expect("a control plane");
            life.client = plane.client().expect("a client");
            life.start(|_| {}).await;
            std::future::pending::<()>().await;
        });
        Doomed(Some(runtime))
    }

    /// What a scrape of NovaCron's metrics shows.
    pub fn scrape_nova(&self) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        self.nova.register(&mut registry);
        if let Some(controller) = &self.nova_at_work {
            let figures = novacron::Figures::of(controller.clone());
            registry.register_collector(Box::new(figures));
        }
        encode(&mut text, &registry).expect("text");
        text
    }

    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.cancel();
        }
    }

    pub fn api<K: Object>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// As `kubectl apply --server-side --validate=strict` does.
    pub async fn apply<K: Object>(&self, object: K) -> K {
        let params = PatchParams {
            field_validation: Some(kube::api::ValidationDirective::Strict),
            ..PatchParams::apply("test").force()
        };
        let name = object.meta().name.clone().unwrap();
        let applied = self
            .api()
            .patch(&name, &params, &Patch::Apply(&object))
            .await;
        applied.expect("the API server takes it")
    }

    pub async fn merge<K: Object>(&self, name: &str, change: Value) -> K {
        let params = PatchParams::default();
        let merged = self
            .api()
            .patch(name, &params, &Patch::Merge(&change))
            .await;
        merged.expect("the API server takes it")
    }

    pub async fn delete<K: Object>(&self, name: &str) {
        let deleted = self.api::<K>().delete(name, &DeleteParams::default()).await;
        deleted.expect("the API server takes it");
    }

    pub async fn get<K: Object>(&self, name: &str) -> K {
        self.api().get(name).await.expect("it is there")
    }

    pub async fn until<K: Object>(&self, name: &str, what: &str, holds: impl Fn(&K) -> bool) -> K {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.api::<K>().get_opt(name).await.ok().flatten();
            if let Some(object) = found.as_ref().filter(|o| holds(o)) {
                return object.clone();
            }
            let text = serde_json::to_string_pretty(&found).unwrap_or_default();
            assert!(Instant::now() < deadline, "{name} never {what}: {text}");
            sleep(GLANCE).await;
        }
    }

    pub async fn gone<K: Object>(&self, name: &str) {
        let deadline = Instant::now() + PATIENCE;
        while let Ok(Some(found)) = self.api::<K>().get_opt(name).await {
            let text = serde_json::to_string_pretty(&found).unwrap_or_default();
            assert!(Instant::now() < deadline, "{name} is still there: {text}");
            sleep(GLANCE).await;
        }
    }

    /// Waits until the Machine stands so.
    pub async fn machine(&self, name: &str, phase: &str) -> Machine {
        let stands =
            |m: &Machine| m.status.as_ref().and_then(|s| s.phase.as_deref()) == Some(phase);
        self.until(name, phase, stands).await
    }

    /// Waits until the Machine has failed for that reason.
    pub async fn fails(&self, name: &str, reason: &str) -> Machine {
        let fails = |m: &Machine| {
            let status = m.status.as_ref();
            status.and_then(|s| s.failure_reason.as_deref()) == Some(reason)
        };
        self.until(name, reason, fails).await
    }

    /// Waits until an event on the object says so.
    pub async fn told<K: Object>(&self, name: &str, reason: &str) {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let says = |event: &Event| {
            let about = event.regarding.clone().unwrap_or_default();
            about.name.as_deref() == Some(name)
                && about.api_version.as_deref() == Some(&*K::api_version(&()))
                && event.reason.as_deref() == Some(reason)
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let list = api.list(&ListParams::default()).await;
            if list.is_ok_and(|list| list.items.iter().any(says)) {
                return;
            }
            assert!(Instant::now() < deadline, "no event {reason} on {name}");
            sleep(GLANCE).await;
        }
    }

    pub async fn vm(&self, name: &str) -> VirtualMachine {
        self.get(name).await
    }
}

/// A manager and a controller that end where they stand.
pub struct Doomed(Option<tokio::runtime::Runtime>);

impl Drop for Doomed {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A manifest of a Machine.
pub fn machine(name: &str, spec: Value) -> Machine {
    let object = json!({"metadata": {"name": name}, "spec": spec});
    serde_json::from_value(object).expect("a Machine")
}

pub fn annotated(name: &str, spec: Value, annotations: Value) -> Machine {
    let metadata = json!({"name": name, "annotations": annotations});
    let object = json!({"metadata": metadata, "spec": spec});
    serde_json::from_value(object).expect("a Machine")
}

pub fn config(name: &str) -> KubevirtConfig {
    let spec = json!({"name": name, "kubeconfigSecretRef": format!("{name}-kubeconfig")});
    let object = json!({"metadata": {"name": name}, "spec": spec});
    serde_json::from_value(object).expect("a KubevirtConfig")
}

pub fn condition(machine: &Machine, kind: &str) -> (String, String) {
    let all = &machine.status.as_ref().expect("a status").conditions;
    let found = all.iter().find(|c| c.type_ == kind);
    let found = found.unwrap_or_else(|| panic!("no {kind} in {all:?}"));
    (found.status.clone(), found.reason.clone())
}

pub fn pair(a: &str, b: &str) -> (String, String) {
    (a.to_owned(), b.to_owned())
}
