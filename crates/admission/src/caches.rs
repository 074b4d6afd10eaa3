//! What the caches of the manager know. No review waits for the API server, except for the state of a controlling owner.

use std::sync::{Arc, PoisonError, RwLock};

use polyvirt_api::infra::{
    Provider, VMClass, VMImage, VMNetworkAttachment, VMSnapshot, VirtualMachine,
};
use polyvirt_engine::catalogue::{Catalogue, StandIn};
use polyvirt_engine::context::Stores;
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_engine::runtime::store::Store;
use polyvirt_engine::runtime::vm_index::Target;
use polyvirt_plan::Problem;

use crate::facts::{Facts, Found, Users};
use crate::owned::{Owner, OwnerState};
use crate::owners::Owners;

/// Names shown in a refusal.
const SHOWN_USERS: usize = 10;

/// Tells whether this program can run a provider where its object says.
pub type Linked = Arc<dyn Fn(&Provider) -> Result<(), Problem> + Send + Sync>;

/// The caches of this manager, and while it stands by those that stand in for them.
pub struct Caches {
    own: Catalogue,
    stand_in: RwLock<Option<StandIn>>,
    linked: Linked,
    owners: Owners,
}

impl Caches {
    /// Nothing is known until one of the two is filled.
    pub fn new(own: Catalogue, stand_in: Option<StandIn>, linked: Linked, owners: Owners) -> Self {
        Self {
            own,
            stand_in: RwLock::new(stand_in),
            linked,
            owners,
        }
    }

    /// The manager's own caches are filled: the others go.
    pub fn leads(&self) {
        let mut held = self
            .stand_in
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *held = None;
    }

    /// Asks whichever caches can tell of that namespace.
    fn ask<T>(&self, namespace: &str, question: impl FnOnce(&Stores) -> T) -> Option<T> {
        if let Some(stores) = self.own.of(namespace) {
            return Some(question(stores));
        }
        let held = self.stand_in.read().unwrap_or_else(PoisonError::into_inner);
        let stores = held.as_ref()?.catalogue().of(namespace)?;
        Some(question(stores))
    }

    fn find<K: kube::Resource>(
        &self,
        key: &ObjectKey,
        pick: impl FnOnce(&Stores) -> &Store<K>,
    ) -> Found<K> {
        match self.ask(key.namespace(), |stores| pick(stores).get(key)) {
            None => Found::Unknown,
            Some(None) => Found::Missing,
            Some(Some(object)) => Found::Here(object),
        }
    }
}

impl Facts for Caches {
    fn provider(&self, key: &ObjectKey) -> Found<Provider> {
        self.find(key, |stores| &stores.providers)
    }

    fn providers(&self, namespace: &str) -> Vec<Arc<Provider>> {
        let all = self.ask(namespace, |stores| stores.providers.list());
        all.unwrap_or_default()
    }

    fn class(&self, key: &ObjectKey) -> Found<VMClass> {
        self.find(key, |stores| &stores.classes)
    }

    fn image(&self, key: &ObjectKey) -> Found<VMImage> {
        self.find(key, |stores| &stores.images)
    }

    fn network(&self, key: &ObjectKey) -> Found<VMNetworkAttachment> {
        self.find(key, |stores| &stores.networks)
    }

    fn vm(&self, key: &ObjectKey) -> Found<VirtualMachine> {
        self.find(key, |stores| &stores.vms)
    }

    fn names(&self, kind: &str, namespace: &str) -> Vec<String> {
        let keys = self.ask(namespace, |stores| match kind {
            "Provider" => stores.providers.keys(),
            "VMClass" => stores.classes.keys(),
            "VMImage" => stores.images.keys(),
            "VMNetworkAttachment" => stores.networks.keys(),
            _ => Vec::new(),
        });
        let here = keys.into_iter().flatten();
        let here = here.filter(|key| key.namespace() == namespace);
        here.map(|key| key.name().to_owned()).collect()
    }

    fn snapshot(&self, key: &ObjectKey) -> Found<VMSnapshot> {
        self.find(key, |stores| &stores.snapshots)
    }

    fn secret(&self, key: &ObjectKey) -> Found<()> {
        let known = self.ask(key.namespace(), |stores| stores.secrets.has(key));
        match known.flatten() {
            None => Found::Unknown,
            Some(false) => Found::Missing,
            Some(true) => Found::Here(Arc::new(())),
        }
    }

    fn owner(&self, namespace: &str, owner: &Owner) -> OwnerState {
        self.owners.state(namespace, owner)
    }

    fn users(&self, target: &Target) -> Option<Users> {
        let (Target::Provider(key)
        | Target::Class(key)
        | Target::Image(key)
        | Target::Network(key)
        | Target::Policy(key)) = target
        else {
            return None;
        };
        self.ask(key.namespace(), |stores| users_of(stores, target))
    }

    fn runnable(&self, provider: &Provider) -> Result<(), Problem> {
        (self.linked)(provider)
    }
}

fn users_of(stores: &Stores, target: &Target) -> Users {
    let leaves = |key: &ObjectKey| {
        let vm = stores.vms.get(key);
        vm.is_some_and(|vm| vm.metadata.deletion_timestamp.is_some())
    };
    let all = stores.index.users(target);
    let (leaving, mut staying): (Vec<_>, Vec<_>) = all.into_iter().partition(leaves);
    let count = staying.len();
    staying.truncate(SHOWN_USERS);
    Users {
        count,
        some: staying,
        leaving: leaving.len(),
    }
}
