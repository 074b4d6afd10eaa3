//! A namespace with a manager and webhooks of its own, on the control plane that all tests share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::Request;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::client::Body;
use kube::core::{GroupVersionKind, Status};
use polyvirt_admission::{Caches, FailurePolicy, Metrics, Owners, Place, Registration, Webhooks};
use polyvirt_api::infra::Provider as ProviderObject;
use polyvirt_contract::{Provider, ProviderError};
use polyvirt_engine::catalogue::{Catalogue, StandIn};
use polyvirt_engine::link::session::Connector;
use polyvirt_engine::manager::{Config, Manager};
use polyvirt_engine::metrics::unobserved;
use polyvirt_engine::provider::{NoWay, Runtime, Way};
use polyvirt_engine::runtime::background::Fallen;
use polyvirt_pki::{Keeper, Lifetimes, Source};
use polyvirt_provider_mock::{Mock, MockConfig};
use polyvirt_testkit::{ControlPlane, install_crds, namespace, shared};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

pub const PATIENCE: Duration = Duration::from_secs(45);
const GLANCE: Duration = Duration::from_millis(25);

/// One hypervisor for every Provider.
struct Everywhere(Arc<Mock>);

#[async_trait]
impl Runtime for Everywhere {
    async fn way(&self, _: &ProviderObject) -> Result<Way, NoWay> {
        Ok(Way {
            connector: Arc::new(Direct(self.0.clone())),
            made_from: "direct".to_owned(),
            place: polyvirt_engine::provider::Place::default(),
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

/// The control plane with our definitions.
pub async fn plane() -> &'static ControlPlane {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let plane = Box::pin(shared()).await.expect("a control plane");
    let install = async {
        let client = plane.client().expect("a client");
        let served = install_crds(&client, &polyvirt_api::crds()).await;
        served.expect("served");
    };
    INSTALLED.get_or_init(|| Box::pin(install)).await;
    plane
}

/// A namespace, and what runs for it.
pub struct World {
    pub client: Client,
    pub namespace: String,
    pub metrics: Metrics,
    pub port: u16,
    manager: Option<(CancellationToken, JoinHandle<Result<(), Fallen>>)>,
    webhooks: Option<(CancellationToken, JoinHandle<()>)>,
}

/// Whose caches the webhooks look into.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Leads,
    StandsBy,
}

impl World {
    /// Without manager and webhooks.
    pub async fn empty(topic: &str) -> Self {
        let client = plane().await.client().expect("a client");
        let namespace = namespace(&client, topic).await.expect("a namespace");
        Self {
            client,
            namespace,
            metrics: Metrics::default(),
            port: 0,
            manager: None,
            webhooks: None,
        }
    }

    /// With a hypervisor, a class, an image, a manager and webhooks.
    pub async fn furnished(topic: &str) -> Self {
        let mut world = Self::empty(topic).await;
        world.furnish().await;
        world.start(Role::Leads, Lifetimes::default()).await;
        world
    }

    pub async fn furnish(&self) {
        let mock = json!({"type": "mock", "runtime": {"mode": "InProcess"}});
        self.create("Provider", "hv", mock).await.expect("made");
        let small = json!({"cpu": 1, "memory": "1Gi"});
        self.create("VMClass", "small", small).await.expect("made");
        let base = json!({"source": {"libvirt": {"path": "/base.qcow2"}}});
        self.create("VMImage", "base", base).await.expect("made");
    }

    /// Starts a manager and webhooks, and returns when the API server asks them.
    pub async fn start(&mut self, role: Role, lifetimes: Lifetimes) {
        let config = Config {
            namespaces: vec![self.namespace.clone()],
            ..Config::default()
        };
        let hypervisor = Arc::new(Everywhere(Mock::new(MockConfig::default())));
        let manager = Manager::new(self.client.clone(), config, hypervisor, unobserved());
        let (catalogue, ready) = (manager.catalogue(), manager.ready());
        let stand_in = (role == Role::StandsBy)
            .then(|| StandIn::start(&self.client, std::slice::from_ref(&self.namespace)));
        let filled = stand_in.as_ref().map(|s| s.catalogue().clone());
        if role == Role::Leads {
            let stop = CancellationToken::new();
            let task = tokio::spawn(manager.run(stop.clone()));
            self.manager = Some((stop, task));
            let mut ready = ready;
            ready.wait_for(|r| *r).await.expect("it runs");
        }
        if let Some(filled) = filled {
            eventually("the caches that stand in are filled", || filled.is_filled()).await;
        }
        self.serve(catalogue, stand_in, lifetimes).await;
    }

    /// Where the manager is.
    pub fn home(&self) -> String {
        format!("{}-system", self.namespace)
    }

    fn place(&self, port: u16) -> Place {
        Place {
            namespace: self.home(),
            service: "webhooks".to_owned(),
            configuration: self.namespace.clone(),
            registration: Registration::Own {
                url: format!("https://127.0.0.1:{port}"),
                failure_policy: FailurePolicy::Fail,
                namespaces: vec![self.namespace.clone()],
            },
            look_every: Duration::from_millis(100),
        }
    }

    async fn serve(&mut self, own: Catalogue, stand_in: Option<StandIn>, lifetimes: Lifetimes) {
        let facts = Arc::new(Caches::new(
            own,
            stand_in,
            Arc::new(|_| Ok(())),
            Owners::new(self.client.clone()),
        ));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        self.port = listener.local_addr().expect("an address").port();
        let place = self.place(self.port);
        let metrics = self.metrics.clone();
        let keeper = Keeper::new(self.client.clone(), &self.home(), lifetimes);
        let own = Source::Own(Arc::new(keeper));
        let prepared = Webhooks::prepare(self.client.clone(), place, own, facts, metrics).await;
        let stop = CancellationToken::new();
        let served = prepared.expect("prepared").serve(listener, stop.clone());
        let task = tokio::spawn(async move { served.await.expect("served") });
        self.webhooks = Some((stop, task));
        self.until_asked().await;
    }

    /// The API server learns of a configuration a moment after it is made.
    async fn until_asked(&self) {
        let deadline = Instant::now() + PATIENCE;
        let broken = json!({"cpu": 1, "memory": "1e99"});
        loop {
            let dry = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            let object = Self::object("VMClass", "probe", broken.clone());
            let tried = self.api("VMClass").create(&dry, &object).await;
            if tried.is_err_and(|error| error.to_string().contains("validate.polyvirt.io")) {
                return;
            }
            assert!(Instant::now() < deadline, "the webhooks are never asked");
            sleep(GLANCE).await;
        }
    }

    /// Ends the webhooks as a signal does.
    pub async fn stop_webhooks(&mut self) {
        if let Some((stop, task)) = self.webhooks.take() {
            stop.cancel();
            task.await.expect("it ended well");
        }
    }

    /// Ends the manager as a signal does.
    pub async fn stop_manager(&mut self) {
        if let Some((stop, task)) = self.manager.take() {
            stop.cancel();
            let ended = task.await.expect("it ended well");
            ended.expect("nothing fell");
        }
    }

    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource(kind))
    }

    pub fn object(kind: &str, name: &str, spec: Value) -> DynamicObject {
        DynamicObject::new(name, &resource(kind)).data(json!({ "spec": spec }))
    }

    pub async fn create(
        &self,
        kind: &str,
        name: &str,
        spec: Value,
    ) -> Result<DynamicObject, kube::Error> {
        let object = Self::object(kind, name, spec);
        self.api(kind).create(&PostParams::default(), &object).await
    }

    /// Creates as `kubectl` does, and returns the warnings that it would print.
    pub async fn warnings(&self, kind: &str, name: &str, spec: Value) -> Vec<String> {
        let resource = resource(kind);
        let path = format!(
            "/apis/{}/namespaces/{}/{}",
            resource.api_version, self.namespace, resource.plural
        );
        let object = Self::object(kind, name, spec);
        let body = serde_json::to_vec(&object).expect("JSON");
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.body(Body::from(body)).expect("a request");
        let answer = self.client.send(request).await.expect("an answer");
        assert!(answer.status().is_success(), "{}", answer.status());
        let told = answer.headers().get_all("warning").iter();
        told.map(|value| value.to_str().expect("text").to_owned())
            .collect()
    }

    /// How many reviews had such labels.
    pub fn reviews(&self, labels: &str) -> u64 {
        let (mut registry, mut text) = (Registry::default(), String::new());
        self.metrics.register(&mut registry);
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        let lines = text.lines().filter(|line| {
            line.starts_with("virtrigaud_admission_reviews_total") && line.contains(labels)
        });
        lines
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum()
    }
}

pub fn resource(kind: &str) -> ApiResource {
    let plurals = BTreeMap::from([
        ("VMPlacementPolicy", "vmplacementpolicies"),
        ("VMClass", "vmclasses"),
    ]);
    let usual = format!("{}s", kind.to_lowercase());
    let plural = plurals.get(kind).map_or(usual, ToString::to_string);
    let gvk = GroupVersionKind::gvk("infra.virtrigaud.io", "v1beta1", kind);
    ApiResource::from_gvk_with_plural(&gvk, &plural)
}

/// A VM that nobody objects to, with a change.
pub fn vm(change: Value) -> Value {
    let mut spec = json!({
        "providerRef": {"name": "hv"}, "classRef": {"name": "small"}, "imageRef": {"name": "base"},
    });
    json_patch::merge(&mut spec, &change);
    spec
}

/// What the API server said in refusing.
pub fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("not refused: {other:?}"),
    }
}

pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(GLANCE).await;
    }
}

/// Waits for an answer of the API server that pleases.
pub async fn until<T, F>(what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(GLANCE).await;
    }
}
