//! A namespace with hypervisors and a manager of its own.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use polyvirt_api::infra::VirtualMachine;
use polyvirt_engine::manager::Config;
use polyvirt_engine::metrics::Metrics;
use polyvirt_plan::sharing::Sharing;
use polyvirt_provider_mock::{Mock, MockConfig};
use polyvirt_testkit::{ControlPlane, namespace};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::fleet::{Fleet, Route};
use super::life::Life;
use super::look::{Explained, assert_explained};
use super::objects::{SMALL, TEMPLATE, class, provider, template};
use super::plane;

/// How long something may take on a busy machine before it counts as never.
pub const PATIENCE: Duration = Duration::from_secs(45);
pub const GLANCE: Duration = Duration::from_millis(25);

/// The hypervisor that most tests use.
pub const HYPERVISOR: &str = "hv";

/// What an object must be to be handled here.
pub trait Object:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// A namespace with hypervisors and a manager of its own.
pub struct World {
    pub client: Client,
    pub namespace: String,
    pub fleet: Arc<Fleet>,
    metrics: Arc<Metrics>,
    config: Config,
    life: Option<Life>,
}

impl World {
    /// An empty one, without a manager.
    pub async fn empty(topic: &str) -> Self {
        Self::empty_on(plane::everybodys().await, topic).await
    }

    /// An empty one on this control plane.
    pub async fn empty_on(plane: &ControlPlane, topic: &str) -> Self {
        let client = plane.client().expect("a client");
        let namespace = namespace(&client, topic).await.expect("a namespace");
        Self {
            config: Config {
                namespaces: vec![namespace.clone()],
                ..Config::default()
            },
            client,
            namespace,
            fleet: Arc::default(),
            metrics: Arc::default(),
            life: None,
        }
    }

    /// One with a class, an image that is used in place, a hypervisor that behaves so, and a manager.
    pub async fn furnished(topic: &str, config: MockConfig) -> (Self, Arc<Mock>) {
        let mut world = Self::empty(topic).await;
        let mock = world.furnish(config).await;
        world.start().await;
        (world, mock)
    }

    /// Puts the usual objects into it.
    pub async fn furnish(&self, config: MockConfig) -> Arc<Mock> {
        self.create(class(SMALL)).await;
        self.create(template(TEMPLATE)).await;
        self.hypervisor(HYPERVISOR, config).await
    }

    /// Adds a hypervisor and its Provider.
    pub async fn hypervisor(&self, name: &str, config: MockConfig) -> Arc<Mock> {
        let mock = Mock::new(config);
        self.fleet.put(name, Route::Direct(mock.clone()));
        self.create(provider(name)).await;
        mock
    }

    /// The manager looks after this namespace too.
    pub fn also_manages(&mut self, namespace: &str) {
        self.config.namespaces.push(namespace.to_owned());
    }

    /// Providers, classes and images without a selector are for all namespaces.
    pub const fn shares_all(&mut self) {
        self.config.sharing = Sharing::Open;
    }

    /// The manager looks after all namespaces. For a control plane that the world has for itself.
    pub fn manages_all(&mut self) {
        self.config.namespaces.clear();
    }

    /// How many passes the manager may have in flight for one provider.
    pub fn at_most(&mut self, concurrency: usize) {
        self.config.concurrency = concurrency;
    }

    /// Hooks may call these addresses.
    pub fn may_call(&mut self, range: &str) {
        let range = range.parse().expect("a range");
        self.config.may_call.allowed.push(range);
    }

    /// Starts a manager, and returns when its caches are filled.
    pub async fn start(&mut self) {
        let (client, config) = (self.client.clone(), self.config.clone());
        let life = Life::start(client, config, self.fleet.clone(), self.metrics.clone()).await;
        self.life = Some(life);
    }

    /// Ends the manager in good order.
    pub async fn stop(&mut self) {
        if let Some(life) = self.life.take() {
            life.stop().await;
        }
    }

    /// How a manager of this world is set up.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// How many passes over objects were made by all managers of this world.
    pub fn passes(&self) -> u64 {
        self.passes_with("")
    }

    /// How many times objects of one kind were reconciled.
    pub fn passes_of(&self, kind: &str) -> u64 {
        self.passes_with(&format!("kind=\"{kind}\""))
    }

    fn passes_with(&self, label: &str) -> u64 {
        let text = self.metrics();
        let lines = text
            .lines()
            .filter(|line| line.starts_with("virtrigaud_manager_reconcile_total"))
            .filter(|line| line.contains(label));
        let number = |line: &str| line.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok());
        lines.filter_map(number).sum()
    }

    /// All counters, as a scraper reads them.
    pub fn metrics(&self) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        self.metrics.register(&mut registry);
        encode(&mut text, &registry).expect("text");
        text
    }

    /// The objects of one kind.
    pub fn api<K: Object>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates an object from a manifest that may leave out kind and namespace.
    pub async fn create<K: Object>(&self, manifest: Manifest<K>) -> K {
        let created = self.try_create(manifest).await;
        created.expect("the API server takes the manifest")
    }

    /// Creates an object that the API server may refuse.
    pub async fn try_create<K: Object>(&self, manifest: Manifest<K>) -> Result<K, kube::Error> {
        let object: K = serde_json::from_value(manifest.value).expect("a manifest of this kind");
        self.api().create(&PostParams::default(), &object).await
    }

    /// Changes an object as a person does.
    pub async fn edit<K: Object>(&self, name: &str, change: Value) -> K {
        let edited = self.try_edit(name, change).await;
        edited.expect("the API server takes the change")
    }

    /// Changes an object in a way that the API server may refuse.
    pub async fn try_edit<K: Object>(&self, name: &str, change: Value) -> Result<K, kube::Error> {
        let params = PatchParams::default();
        self.api()
            .patch(name, &params, &Patch::Merge(&change))
            .await
    }

    /// Changes the spec of a VM.
    pub async fn edit_spec(&self, name: &str, spec: Value) -> VirtualMachine {
        self.edit(name, serde_json::json!({ "spec": spec })).await
    }

    /// Sets or, with null, removes an annotation of a VM.
    pub async fn annotate(&self, name: &str, annotation: &str, value: impl Into<Value>) {
        let value: Value = value.into();
        let change = serde_json::json!({"metadata": {"annotations": {annotation: value}}});
        self.edit::<VirtualMachine>(name, change).await;
    }

    /// Asks for the deletion of an object.
    pub async fn delete<K: Object>(&self, name: &str) {
        let deleted = self.api::<K>().delete(name, &DeleteParams::default()).await;
        deleted.expect("the API server takes the deletion");
    }

    /// The object as it is.
    pub async fn get<K: Object>(&self, name: &str) -> K {
        self.api().get(name).await.expect("it is there")
    }

    /// All objects of a kind.
    pub async fn list<K: Object>(&self) -> Vec<K> {
        let list = self.api().list(&ListParams::default()).await;
        list.expect("a list").items
    }

    /// Waits until the object is as described. Whatever its conditions say then must be fit for people.
    pub async fn until<K: Object + Explained>(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&K) -> bool,
    ) -> K {
        self.until_dyn(name, what, &holds).await
    }

    /// One function for all closures: each copy would be compiled with a whole client.
    async fn until_dyn<K: Object + Explained>(
        &self,
        name: &str,
        what: &str,
        holds: &dyn Fn(&K) -> bool,
    ) -> K {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.api::<K>().get_opt(name).await;
            if let Ok(Some(object)) = &found
                && holds(object)
            {
                assert_explained(object);
                return object.clone();
            }
            if Instant::now() > deadline {
                let text = serde_json::to_string_pretty(&found.ok().flatten()).unwrap_or_default();
                panic!("{name} never was so: {what}. It is {text}");
            }
            sleep(GLANCE).await;
        }
    }

    /// Waits until the VM is as described.
    pub async fn vm(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&VirtualMachine) -> bool,
    ) -> VirtualMachine {
        self.until(name, what, holds).await
    }

    /// Waits until the object is gone.
    pub async fn gone<K: Object>(&self, name: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.api::<K>().get_opt(name).await {
                Ok(None) => return,
                Ok(Some(object)) if Instant::now() > deadline => {
                    panic!(
                        "{name} is still there: {}",
                        serde_json::to_string_pretty(&object).unwrap_or_default()
                    )
                }
                _ => sleep(GLANCE).await,
            }
        }
    }
}

/// A manifest of one kind.
#[derive(Clone, Debug)]
pub struct Manifest<K> {
    pub value: Value,
    kind: std::marker::PhantomData<K>,
}

impl<K: Object> Manifest<K> {
    /// Metadata and spec; the kind is known.
    pub fn new(name: &str, spec: Value) -> Self {
        let value = serde_json::json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": {"name": name},
            "spec": spec,
        });
        Self {
            value,
            kind: std::marker::PhantomData,
        }
    }

    /// With another spec, where the change says so.
    #[must_use]
    pub fn spec(self, change: Value) -> Self {
        self.changed(serde_json::json!({ "spec": change }))
    }

    /// With an annotation.
    #[must_use]
    pub fn annotated(self, name: &str, value: &str) -> Self {
        self.changed(serde_json::json!({"metadata": {"annotations": {name: value}}}))
    }

    /// With a change of anything; null removes.
    #[must_use]
    pub fn changed(mut self, change: Value) -> Self {
        merge(&mut self.value, change);
        self
    }
}

/// A JSON merge patch.
fn merge(target: &mut Value, change: Value) {
    let Value::Object(change) = change else {
        *target = change;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Some(fields) = target.as_object_mut() else {
        return;
    };
    for (name, value) in change {
        if value.is_null() {
            fields.remove(&name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// Waits until something holds that is not an object of the API server.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(GLANCE).await;
    }
}
