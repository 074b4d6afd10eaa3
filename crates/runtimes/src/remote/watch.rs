//! What others do to the objects of Providers.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::{Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, ObjectMeta};
use kube::core::{NamespaceResourceScope, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource};
use polyvirt_engine::runtime::key::ObjectKey;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::names::OURS;
use super::settings::Settings;

#[derive(Default)]
struct Known {
    deployments: HashMap<ObjectKey, (Option<i64>, DeploymentStatus)>,
    touched: HashSet<ObjectKey>,
}

/// What the watches have told.
pub struct Watched {
    known: Mutex<Known>,
    news: mpsc::UnboundedSender<ObjectKey>,
}

impl Watched {
    /// Nothing yet. Providers that are concerned go to the sender.
    pub fn new(news: mpsc::UnboundedSender<ObjectKey>) -> Self {
        Self {
            known: Mutex::default(),
            news,
        }
    }

    /// Whether somebody has touched an object of the Provider since the last time that this was asked.
    pub fn take_touched(&self, provider: &ObjectKey) -> bool {
        self.known(|known| known.touched.remove(provider))
    }

    /// How the Provider's Deployment stands.
    pub fn deployment(&self, provider: &ObjectKey) -> Option<DeploymentStatus> {
        self.known(|known| known.deployments.get(provider).map(|(_, s)| s.clone()))
    }

    fn known<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn touched(&self, meta: &ObjectMeta) {
        let Some(provider) = provider_of(meta) else {
            return;
        };
        self.known(|known| known.touched.insert(provider.clone()));
        self.tell(provider);
    }

    fn tell(&self, provider: ObjectKey) {
        // Nobody listens at the end of the program.
        let _ = self.news.send(provider);
    }

    /// A Deployment moves with its pods. It was touched only if what it asks for has changed.
    fn moved(&self, deployment: Deployment) {
        let Some(provider) = provider_of(&deployment.metadata) else {
            return;
        };
        let generation = deployment.metadata.generation;
        let status = deployment.status.unwrap_or_default();
        let changed = self.known(|known| {
            let new = (generation, status);
            let old = known.deployments.insert(provider.clone(), new.clone());
            let asked = old.as_ref().map(|(generation, _)| *generation);
            if asked.is_some_and(|asked| asked != generation) {
                known.touched.insert(provider.clone());
            }
            old.as_ref() != Some(&new)
        });
        if changed {
            self.tell(provider);
        }
    }

    fn gone(&self, deployment: &Deployment) {
        if let Some(provider) = provider_of(&deployment.metadata) {
            self.known(|known| known.deployments.remove(&provider));
        }
        self.touched(&deployment.metadata);
    }
}

/// The Provider that owns an object.
fn provider_of(meta: &ObjectMeta) -> Option<ObjectKey> {
    let owners = meta.owner_references.as_ref()?;
    let owner = owners.iter().find(|owner| owner.kind == "Provider")?;
    Some(ObjectKey::new(meta.namespace.as_deref()?, &owner.name))
}

/// Watches from now on, until the program ends.
pub fn start(client: &Client, settings: &Settings, watched: &Arc<Watched>) {
    let mut scopes: Vec<_> = settings.namespaces.iter().map(Some).collect();
    if scopes.is_empty() {
        scopes.push(None);
    }
    for scope in scopes {
        tokio::spawn(deployments(api(client, scope), watched.clone()));
        tokio::spawn(others::<Service>(api(client, scope), watched.clone()));
        tokio::spawn(others::<Secret>(api(client, scope), watched.clone()));
        tokio::spawn(others::<ServiceAccount>(
            api(client, scope),
            watched.clone(),
        ));
        tokio::spawn(others::<NetworkPolicy>(api(client, scope), watched.clone()));
    }
}

fn api<K>(client: &Client, scope: Option<&String>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match scope {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

fn ours() -> watcher::Config {
    watcher::Config::default().labels(OURS)
}

async fn deployments(api: Api<Deployment>, watched: Arc<Watched>) {
    let mut events = watcher::watcher(api, ours()).default_backoff().boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(it) | Event::InitApply(it)) => watched.moved(it),
            Ok(Event::Delete(it)) => watched.gone(&it),
            Ok(Event::Init | Event::InitDone) => {}
            Err(error) => broken("Deployment", &error),
        }
    }
}

/// Of these it matters only that somebody touched them.
async fn others<K>(api: Api<PartialObjectMeta<K>>, watched: Arc<Watched>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let mut events = watcher::watcher(api, ours()).default_backoff().boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(it) | Event::Delete(it)) => watched.touched(&it.metadata),
            Ok(Event::Init | Event::InitApply(_) | Event::InitDone) => {}
            Err(error) => broken(&K::kind(&()), &error),
        }
    }
}

fn broken(kind: &str, error: &watcher::Error) {
    tracing::warn!(kind, %error, "watch of the providers' objects broke; it is opened again");
}
