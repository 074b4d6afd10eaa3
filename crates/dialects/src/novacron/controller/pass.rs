//! From a VM to what is made for it, one write after the other.

use std::sync::Arc;

use kube::core::object::HasSpec;
use polyvirt_api::infra::{self, ProviderType, VMMigration, VMNetworkAttachment};
use polyvirt_api::novacron::{FINALIZER, VirtualMachine};
use polyvirt_engine::cluster::ClusterError;
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_engine::runtime::store::Store;
use polyvirt_engine::runtime::trim;
use serde::Serialize;
use serde_json::json;

use super::Controller;
use super::market::offer;
use super::migration::Kept;
use crate::novacron::catalogue::Catalogue;
use crate::novacron::lower::{
    ImageSource, Lowered, Surroundings, lower, schedule_at_rest, schedule_name,
};
use crate::novacron::raise::Trouble;
use crate::shared::desk::{Claim, Object};
use crate::shared::made;
use crate::shared::owner::is_owned;
use crate::shared::same::is_as_lowered;

/// What a pass has found out.
#[derive(Default)]
pub(super) struct Found {
    /// What the VM becomes.
    pub lowered: Option<Lowered>,
    /// The VirtualMachine that is there.
    pub vm: Option<Arc<infra::VirtualMachine>>,
    /// The move that was asked for.
    pub migration: Option<Arc<VMMigration>>,
}

/// One pass over one VM.
pub(super) struct Pass<'a> {
    pub(super) controller: &'a Controller,
    pub(super) key: &'a ObjectKey,
    /// The VM, as it was written last.
    pub vm: Arc<VirtualMachine>,
}

impl<'a> Pass<'a> {
    pub fn new(controller: &'a Controller, key: &'a ObjectKey, vm: Arc<VirtualMachine>) -> Self {
        Self {
            controller,
            key,
            vm,
        }
    }

    /// Goes as far as it gets. `Some` if something other than Kubernetes stands in the way.
    pub async fn run(&mut self, found: &mut Found) -> Result<Option<Trouble>, ClusterError> {
        match self.steps(found).await {
            Ok(()) => Ok(None),
            Err(Stop::Trouble(trouble)) => Ok(Some(trouble)),
            Err(Stop::Cluster(error)) => Err(error),
        }
    }

    async fn steps(&mut self, found: &mut Found) -> Result<(), Stop> {
        found.vm = self.virtual_machine().await?;
        self.is_not_lost(found.vm.as_deref())?;
        let provider = self.place(found.vm.as_deref()).await?;
        let lowered = self.lower(&provider, found.vm.as_deref()).await?;
        let lowered = found.lowered.insert(lowered);
        self.mark().await?;
        self.keep_networks(lowered).await?;
        let before = found.vm.take();
        let made = made::apply(&self.controller.desk, &lowered.vm, before.clone()).await;
        let made = made.map_err(refused)?;
        let changed = before.is_none_or(|b| b.metadata.generation != made.metadata.generation);
        found.vm = Some(made);
        self.close_request().await?;
        if changed {
            self.drop_networks(lowered).await?;
        }
        self.keep_schedule(lowered).await?;
        let kept = self.controller.keep_migration(self.key, &self.vm, lowered);
        match kept.await.map_err(refused)? {
            Kept::As(migration) => found.migration = migration,
            Kept::Taken(name) => return Err(conflict("VMMigration", &name)),
        }
        Ok(())
    }

    /// The VirtualMachine of the VM's name, if it is the VM's.
    async fn virtual_machine(&self) -> Result<Option<Arc<infra::VirtualMachine>>, Stop> {
        let controller = self.controller;
        let found = made::find(&controller.engine.stores, &controller.desk, self.key).await?;
        match found {
            Some(vm) if !is_owned(&*vm, &*self.vm) => {
                Err(conflict("VirtualMachine", self.key.name()))
            }
            other => Ok(other),
        }
    }

    /// What the VM becomes on that Provider.
    async fn lower(
        &self,
        provider: &ObjectKey,
        before: Option<&infra::VirtualMachine>,
    ) -> Result<Lowered, Stop> {
        let found = self.controller.engine.stores.providers.get(provider);
        let kind = found.map(|p| p.spec.type_);
        self.lower_as(provider, kind, before).await
    }

    /// What the VM becomes on a Provider of that kind.
    pub(super) async fn lower_as(
        &self,
        provider: &ObjectKey,
        provider_type: Option<ProviderType>,
        before: Option<&infra::VirtualMachine>,
    ) -> Result<Lowered, Stop> {
        let (controller, namespace) = (self.controller, self.key.namespace());
        let stores = &controller.engine.stores;
        let place = &controller.settings.catalogue;
        let catalogue = self.catalogue().await?;
        let has_network = |name: &str| {
            let found = stores.networks.get(&ObjectKey::new(namespace, name));
            found.is_some_and(|n| n.metadata.deletion_timestamp.is_none())
        };
        let around = Surroundings {
            name: self.key.name(),
            provider,
            provider_type,
            marketplace: &|name| offer(stores, &catalogue, namespace, name),
            catalogue: place,
            has_network: &has_network,
            before,
        };
        Ok(lower(&self.vm, &around).map_err(Trouble::from)?)
    }

    /// It is read for those that name something of it.
    async fn catalogue(&self) -> Result<Arc<Catalogue>, ClusterError> {
        let controller = self.controller;
        let source = ImageSource::parse(&self.vm.spec.template.spec.image.source);
        if !matches!(source, Ok(ImageSource::Marketplace(_))) {
            return Ok(Arc::default());
        }
        let place = &controller.settings.catalogue;
        controller.market.catalogue(&controller.desk, place).await
    }

    /// Before anything is made, the VM is marked, so that it cannot go without what was made.
    async fn mark(&mut self) -> Result<(), ClusterError> {
        let meta = &self.vm.metadata;
        let mut finalizers = meta.finalizers.clone().unwrap_or_default();
        if finalizers.iter().any(|f| f == FINALIZER) {
            return Ok(());
        }
        finalizers.push(FINALIZER.to_owned());
        let body = json!({"metadata": {
            "resourceVersion": meta.resource_version,
            "finalizers": finalizers,
        }});
        let written: VirtualMachine = self.controller.desk.merge(self.key, &body).await?;
        let written = trim::metadata(written);
        self.controller.stores.vms.written(written.clone());
        self.vm = Arc::new(written);
        Ok(())
    }

    async fn keep_networks(&self, lowered: &Lowered) -> Result<(), Stop> {
        let store = &self.controller.engine.stores.networks;
        for network in &lowered.networks {
            self.keep(store, network, "VMNetworkAttachment").await?;
        }
        Ok(())
    }

    /// What a schedule took would go with it, so one that is no longer wanted rests until the VM goes.
    async fn keep_schedule(&self, lowered: &Lowered) -> Result<(), Stop> {
        let store = &self.controller.engine.stores.snapshots;
        if let Some(wanted) = &lowered.snapshot {
            return self.keep(store, wanted, "VMSnapshot").await;
        }
        let key = ObjectKey::new(self.key.namespace(), &schedule_name(self.key.name()));
        let stale = store.get(&key).filter(|s| is_owned(&**s, &*self.vm));
        match stale {
            Some(stale) => {
                let rests = schedule_at_rest(&stale, &self.vm);
                self.keep(store, &rests, "VMSnapshot").await
            }
            None => Ok(()),
        }
    }

    /// Writes an object if it is not as it is wanted. One that is somebody else's is never touched.
    async fn keep<K: Object + HasSpec<Spec: Serialize>>(
        &self,
        store: &Store<K>,
        wanted: &K,
        kind: &'static str,
    ) -> Result<(), Stop> {
        let (desk, key) = (&self.controller.desk, ObjectKey::of(wanted));
        let mut there = store.get(&key);
        if there.is_none() {
            there = desk.get(&key).await?.map(Arc::new);
        }
        let mut wanted = wanted.clone();
        let claim = match &there {
            None => Claim::New,
            Some(there) if !is_owned(&**there, &*self.vm) => {
                return Err(conflict(kind, key.name()));
            }
            Some(there) if there.meta().deletion_timestamp.is_some() => return Ok(()),
            Some(there) if is_as_lowered(&**there, &wanted) => return Ok(()),
            Some(there) => {
                wanted.meta_mut().uid.clone_from(&there.meta().uid);
                Claim::Ours
            }
        };
        desk.apply(&wanted, claim).await.map_err(refused).map(drop)
    }

    /// Networks of cards that are gone.
    async fn drop_networks(&self, lowered: &Lowered) -> Result<(), ClusterError> {
        let wanted: Vec<_> = lowered.networks.iter().map(ObjectKey::of).collect();
        for (key, network) in self.controller.own_networks(self.key, &self.vm) {
            if !wanted.contains(&key) {
                made::delete(&self.controller.desk, &key, &*network).await?;
            }
        }
        Ok(())
    }
}

impl Controller {
    /// The networks that were made for a VM, as far as the cache knows.
    pub(super) fn own_networks(
        &self,
        key: &ObjectKey,
        vm: &VirtualMachine,
    ) -> Vec<(ObjectKey, Arc<VMNetworkAttachment>)> {
        let all = self.engine.stores.networks.list().into_iter();
        let near = all.filter(|n| n.metadata.namespace.as_deref() == Some(key.namespace()));
        let own = near.filter(|n| is_owned(&**n, vm));
        own.map(|n| (ObjectKey::of(&*n), n)).collect()
    }
}

fn conflict(kind: &'static str, name: &str) -> Stop {
    let name = name.to_owned();
    Trouble::NameConflict { kind, name }.into()
}

/// What the API server will never take is for people to see; the rest passes.
fn refused(error: ClusterError) -> Stop {
    match error {
        ClusterError::Invalid(why) => Trouble::Refused(why).into(),
        error => error.into(),
    }
}

/// Why a pass ends early.
pub(super) enum Stop {
    /// Something that people have to know.
    Trouble(Trouble),
    /// Kubernetes.
    Cluster(ClusterError),
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<ClusterError> for Stop {
    fn from(error: ClusterError) -> Self {
        Self::Cluster(error)
    }
}
