//! The link to one provider: how it stands, what it offers, and what it has told.
//!
//! ```text
//!   Connecting ──► Connected ◄──► Unavailable        (session.rs drives it, one task a Provider)
//! ```
//!
//! Passes read it and never wait on it: a provider that does not answer costs them nothing.

pub mod addresses;
pub mod guard;
pub mod observations;
pub mod rate;
mod remembered;
pub mod session;
mod sources;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use polyvirt_contract::model::Inventory;
use polyvirt_contract::{Capabilities, Features, Provider, ProviderError};

pub use observations::{Concerns, Observations};

use crate::runtime::key::ObjectKey;

/// How a link stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The first connection is being made.
    Connecting,
    /// It answers.
    Connected {
        /// Since when.
        since: Timestamp,
        /// How long the last health check took.
        latency: Duration,
    },
    /// It does not answer.
    Unavailable {
        /// Since when.
        since: Timestamp,
        /// What it, or the network, said last.
        error: ProviderError,
    },
}

/// What a pass needs to know of a link, at one moment.
#[derive(Clone)]
pub struct View {
    /// How it stands.
    pub standing: Standing,
    /// Since when its stream of news is heard without a break; `None` if there was none yet.
    pub heard: Option<Timestamp>,
    /// To call; `None` before the first connection.
    pub provider: Option<Arc<dyn Provider>>,
    /// What it offers.
    pub features: Arc<Features>,
    /// What it can do.
    pub capabilities: Arc<Capabilities>,
    /// Hosts, datastores and networks as they were when it was connected; `None` if it does not tell.
    pub inventory: Option<Arc<Inventory>>,
}

struct State {
    view: View,
    seen: Observations,
}

/// The link to one provider.
pub struct Link {
    /// The Provider object.
    pub key: ObjectKey,
    state: Mutex<State>,
}

impl Link {
    /// A link that has not been connected yet.
    pub fn new(key: ObjectKey) -> Self {
        let view = View {
            standing: Standing::Connecting,
            heard: None,
            provider: None,
            features: Arc::default(),
            capabilities: Arc::default(),
            inventory: None,
        };
        Self {
            key,
            state: Mutex::new(State {
                view,
                seen: Observations::default(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it stands now.
    pub fn view(&self) -> View {
        self.lock().view.clone()
    }

    /// Reads or changes what the provider has told. Never held across an await.
    pub fn seen<T>(&self, work: impl FnOnce(&mut Observations) -> T) -> T {
        work(&mut self.lock().seen)
    }

    /// The provider answers.
    pub fn connected(
        &self,
        provider: Arc<dyn Provider>,
        features: Features,
        capabilities: Capabilities,
        now: Timestamp,
        latency: Duration,
    ) {
        let mut state = self.lock();
        let since = match state.view.standing {
            Standing::Connected { since, .. } => since,
            _ => now,
        };
        state.view.provider = Some(provider);
        if *state.view.features != features {
            state.view.features = Arc::new(features);
        }
        if *state.view.capabilities != capabilities {
            state.view.capabilities = Arc::new(capabilities);
        }
        state.view.standing = Standing::Connected { since, latency };
    }

    /// A new stream of news begins.
    pub fn hears(&self, now: Timestamp) {
        let mut state = self.lock();
        state.seen.begin_stream();
        state.view.heard = Some(now);
    }

    /// What the hypervisor has.
    pub fn has(&self, inventory: Option<Inventory>) {
        self.lock().view.inventory = inventory.map(Arc::new);
    }

    /// A health check passed.
    pub fn alive(&self, latency: Duration) {
        if let Standing::Connected { latency: last, .. } = &mut self.lock().view.standing {
            *last = latency;
        }
    }

    /// The provider does not answer. What it offers stays known.
    pub fn unavailable(&self, error: ProviderError, now: Timestamp) {
        let mut state = self.lock();
        let since = match state.view.standing {
            Standing::Unavailable { since, .. } => since,
            _ => now,
        };
        state.seen.end_stream();
        state.view.standing = Standing::Unavailable { since, error };
    }
}

/// All links, by Provider.
#[derive(Default)]
pub struct Links {
    links: Mutex<HashMap<ObjectKey, Arc<Link>>>,
}

impl Links {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The link to the Provider, if it has one.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Link>> {
        self.lock().get(key).cloned()
    }

    /// Adds or replaces the link to a Provider.
    pub fn put(&self, link: Arc<Link>) {
        self.lock().insert(link.key.clone(), link);
    }

    /// Forgets the link to a Provider.
    pub fn remove(&self, key: &ObjectKey) -> Option<Arc<Link>> {
        self.lock().remove(key)
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Link>> {
        self.lock().values().cloned().collect()
    }
}
