//! Watches of Kubernetes into the caches.

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::Api;
use kube::core::{ApiResource, NamespaceResourceScope, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::context::Stores;
use crate::runtime::dispatch::Source;
use crate::runtime::key::ObjectKey;
use crate::runtime::loose::Loose;
use crate::runtime::namespaces::News;
use crate::runtime::store::{Change, Store};
use crate::runtime::trim::{self, Compact};
use crate::runtime::vanished::Vanishing;

/// Objects in one answer of a first list.
const PAGE: u32 = 500;

/// Which namespaces are watched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All.
    Cluster,
    /// One. Several are several watches.
    Namespace(String),
}

impl Scope {
    /// One for each namespace; none means all of them.
    pub fn all(namespaces: &[String]) -> Vec<Self> {
        if namespaces.is_empty() {
            return vec![Self::Cluster];
        }
        namespaces.iter().cloned().map(Self::Namespace).collect()
    }

    /// The objects of a kind in it.
    pub fn api<K>(&self, client: Client) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        match self {
            Self::Cluster => Api::all(client),
            Self::Namespace(name) => Api::namespaced(client, name),
        }
    }

    fn covers(&self, key: &ObjectKey) -> bool {
        match self {
            Self::Cluster => true,
            Self::Namespace(name) => key.namespace() == name,
        }
    }
}

/// Whether work can begin without a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It cannot: what is merely not listed yet must not look missing.
    Required,
    /// It can, if the kind cannot be listed.
    Optional,
}

/// Keeps a cache up to date for ever, and tells the dispatcher. `listed` turns true with the first complete list.
pub async fn objects<K, S>(
    client: Client,
    scope: Scope,
    stores: Arc<S>,
    pick: fn(&S) -> &Store<K>,
    tell: impl Fn(Change<K>, Source) + Send,
    listed: watch::Sender<bool>,
) where
    S: Send + Sync,
    K: Resource<DynamicType = ()>
        + Compact
        + Vanishing
        + Clone
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    objects_as_needed(client, scope, stores, pick, tell, (listed, Need::Required)).await;
}

/// The same. `listed` turns true, too, when a kind that is optional cannot be listed.
pub async fn objects_as_needed<K, S>(
    client: Client,
    scope: Scope,
    stores: Arc<S>,
    pick: fn(&S) -> &Store<K>,
    tell: impl Fn(Change<K>, Source) + Send,
    (listed, need): (watch::Sender<bool>, Need),
) where
    S: Send + Sync,
    K: Resource<DynamicType = ()>
        + Compact
        + Vanishing
        + Clone
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let mut events = events(client, &scope, &ApiResource::erase::<K>(&()));
    let mut feed = Feed {
        store: pick(&stores),
        scope,
        tell,
        fresh: None,
        listed,
    };
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => feed.take(event),
            Err(error) => {
                tracing::warn!(kind = %K::kind(&()), %error, "watch broke; it is opened again");
                if need == Need::Optional {
                    feed.listed.send_replace(true);
                }
            }
        }
    }
}

type Events = BoxStream<'static, watcher::Result<watcher::Event<Loose>>>;

/// What happens to the objects of a kind, for ever.
fn events(client: Client, scope: &Scope, kind: &ApiResource) -> Events {
    let api = match scope {
        Scope::Cluster => Api::all_with(client, kind),
        Scope::Namespace(name) => Api::namespaced_with(client, name, kind),
    };
    let config = watcher::Config::default().any_semantic().page_size(PAGE);
    watcher(api, config).default_backoff().boxed()
}

struct Feed<'a, K, T> {
    store: &'a Store<K>,
    scope: Scope,
    tell: T,
    /// What a list under way has named so far.
    fresh: Option<HashSet<ObjectKey>>,
    listed: watch::Sender<bool>,
}

impl<K, T> Feed<'_, K, T>
where
    K: Resource<DynamicType = ()> + Compact + Vanishing + Clone + DeserializeOwned,
    T: Fn(Change<K>, Source),
{
    fn take(&mut self, event: watcher::Event<Loose>) {
        match event {
            watcher::Event::Init => self.fresh = Some(HashSet::new()),
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                self.apply(&object);
            }
            watcher::Event::Delete(object) => self.delete(&object),
            watcher::Event::InitDone => self.complete(),
        }
    }

    /// A first list is background work; the same list after a break may hold what people did meanwhile.
    fn source(&self) -> Source {
        if *self.listed.borrow() {
            Source::Watch
        } else {
            Source::FirstList
        }
    }

    /// One object that cannot be read stops nobody else.
    fn apply(&mut self, object: &Loose) {
        let key = ObjectKey::of(object);
        if let Some(fresh) = &mut self.fresh {
            fresh.insert(key.clone());
        }
        match object.read::<K>() {
            Ok(object) => {
                if let Some(change) = self.store.watched(trim::for_cache(object)) {
                    (self.tell)(change, self.source());
                }
            }
            Err(error) => {
                tracing::error!(kind = %K::kind(&()), object = %key, %error, "cannot read the object; it is left alone");
            }
        }
    }

    fn delete(&self, object: &Loose) {
        let change = match object.read::<K>() {
            Ok(object) => self.removed(&object),
            Err(_) => self.store.remove_key(&ObjectKey::of(object)),
        };
        if let Some(change) = change {
            (self.tell)(change, Source::Watch);
        }
    }

    /// The watch has no selector, so what it calls deleted is deleted.
    fn removed(&self, object: &K) -> Option<Change<K>> {
        let Some(kept) = object.kept() else {
            return self.store.removed(object);
        };
        tracing::warn!(kind = %K::kind(&()), object = %ObjectKey::of(object), "removed with our finalizer on it; what it stood for is still taken down");
        self.store.vanish(trim::for_cache(kept))
    }

    fn is_gone(&self, key: &ObjectKey, fresh: &HashSet<ObjectKey>) -> bool {
        self.scope.covers(key) && !fresh.contains(key) && !self.store.has_vanished(key)
    }

    fn complete(&mut self) {
        let fresh = self.fresh.take().unwrap_or_default();
        let gone: Vec<_> = self
            .store
            .keys()
            .into_iter()
            .filter(|key| self.is_gone(key, &fresh))
            .collect();
        for key in gone {
            if let Some(change) = self.store.remove_key(&key) {
                (self.tell)(change, Source::Watch);
            }
        }
        self.listed.send_replace(true);
    }
}

/// Keeps the labels of namespaces, and tells when some have changed. `listed` turns true with the first complete list, or when there
/// is none to be had: who needs no labels need not wait for them.
pub async fn namespaces(
    client: Client,
    stores: Arc<Stores>,
    tell: impl Fn() + Send,
    listed: watch::Sender<bool>,
) {
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(client);
    let config = watcher::Config::default().any_semantic().page_size(PAGE);
    let mut stream = watcher(api, config).default_backoff().boxed();
    while let Some(event) = stream.next().await {
        match event.map(|event| stores.namespaces.take(event)) {
            Ok(News::Some) => tell(),
            Ok(News::None) => {}
            Err(error) => {
                tracing::warn!(%error, "watch of namespaces broke; it is opened again");
                listed.send_replace(true);
            }
        }
        if stores.namespaces.labels().is_some() {
            listed.send_replace(true);
        }
    }
}

/// Keeps the names of Secrets, and tells of each that changed. Only their metadata is ever read here.
pub async fn secrets(
    client: Client,
    scope: Scope,
    stores: Arc<Stores>,
    tell: impl Fn(&PartialObjectMeta<Secret>) + Send,
) {
    let api: Api<PartialObjectMeta<Secret>> = scope.api(client);
    let config = watcher::Config::default().any_semantic().page_size(PAGE);
    let mut stream = watcher(api, config).default_backoff().boxed();
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => {
                stores.secrets.take(&scope, &event);
                if let watcher::Event::Apply(secret) | watcher::Event::Delete(secret) = &event {
                    tell(secret);
                }
            }
            Err(error) => tracing::warn!(%error, "watch of Secrets broke; it is opened again"),
        }
    }
}
