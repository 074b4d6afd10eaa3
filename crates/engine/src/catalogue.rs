//! What the caches hold, for whoever judges an object before it is stored.
//!
//! A manager that leads has filled caches of its own. One that stands by has none, but may be asked just the same: it fills
//! some by [`StandIn`], which does no work on what it sees, and lets them go when it leads.

use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Client;
use polyvirt_api::infra::VirtualMachine;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::context::Stores;
use crate::runtime::key::ObjectKey;
use crate::runtime::store::Change;
use crate::runtime::watch::{Scope, objects, secrets};

/// Caches, the namespaces that they are of, and whether they are complete.
#[derive(Clone)]
pub struct Catalogue {
    stores: Arc<Stores>,
    namespaces: Vec<String>,
    filled: watch::Receiver<bool>,
}

impl Catalogue {
    pub(crate) const fn new(
        stores: Arc<Stores>,
        namespaces: Vec<String>,
        filled: watch::Receiver<bool>,
    ) -> Self {
        Self {
            stores,
            namespaces,
            filled,
        }
    }

    /// The caches, if they can tell what is missing in that namespace.
    pub fn of(&self, namespace: &str) -> Option<&Stores> {
        let covered = self.namespaces.is_empty() || self.namespaces.iter().any(|n| n == namespace);
        (covered && self.is_filled()).then_some(&*self.stores)
    }

    /// Whether everything was listed once.
    pub fn is_filled(&self) -> bool {
        *self.filled.borrow()
    }
}

/// Caches of a manager that does not lead. They end with this value.
pub struct StandIn {
    catalogue: Catalogue,
    _feeds: JoinSet<()>,
}

impl StandIn {
    /// Begins to fill caches of these namespaces; none means all.
    pub fn start(client: &Client, namespaces: &[String]) -> Self {
        let stores: Arc<Stores> = Arc::default();
        let (filled, filling) = watch::channel(false);
        let mut feeds = JoinSet::new();
        let mut listed = Vec::new();
        for scope in Scope::all(namespaces) {
            for (first, feed) in silent_feeds(client, &scope, &stores) {
                listed.push(first);
                feeds.spawn(feed);
            }
            feeds.spawn(secrets(client.clone(), scope, stores.clone(), |_| ()));
        }
        feeds.spawn(async move {
            for mut first in listed {
                let _ = first.wait_for(|done| *done).await;
            }
            filled.send_replace(true);
        });
        Self {
            catalogue: Catalogue::new(stores, namespaces.to_vec(), filling),
            _feeds: feeds,
        }
    }

    /// What it knows.
    pub const fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }
}

type Feed = (watch::Receiver<bool>, BoxFuture<'static, ()>);

/// Watches that wake nobody.
fn silent_feeds(client: &Client, scope: &Scope, stores: &Arc<Stores>) -> Vec<Feed> {
    macro_rules! feed {
        ($field:ident, $tell:expr) => {{
            let (sender, receiver) = watch::channel(false);
            let (shared, told) = (stores.clone(), stores.clone());
            let feed = objects(
                client.clone(),
                scope.clone(),
                shared,
                |stores| &stores.$field,
                move |change, _| $tell(&told, &change),
                sender,
            );
            let boxed: BoxFuture<'static, ()> = Box::pin(feed);
            (receiver, boxed)
        }};
    }
    vec![
        feed!(vms, index),
        feed!(providers, |_: &Stores, _: &Change<_>| ()),
        feed!(classes, |_: &Stores, _: &Change<_>| ()),
        feed!(images, |_: &Stores, _: &Change<_>| ()),
        feed!(networks, |_: &Stores, _: &Change<_>| ()),
        feed!(snapshots, |_: &Stores, _: &Change<_>| ()),
        feed!(policies, |_: &Stores, _: &Change<_>| ()),
        feed!(migrations, |_: &Stores, _: &Change<_>| ()),
    ]
}

fn index(stores: &Stores, change: &Change<VirtualMachine>) {
    let (old, new) = match change {
        Change::Added(new) => (None, Some(&**new)),
        Change::Updated { old, new } => (Some(&**old), Some(&**new)),
        Change::Removed(old) => (Some(&**old), None),
    };
    if let Some(any) = new.or(old) {
        stores.index.update(&ObjectKey::of(any), old, new);
    }
}
