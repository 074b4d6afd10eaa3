//! Where VMs go: what the scheduler is asked with, and what it has answered.
//!
//! ```text
//!   caches, link ──► books ──┐
//!   provider.inventory() ────┼──► polyvirt_placement::place ──► reserved ──► status.placement ──► create
//!   the VM, its policy ──────┘                                  (memory)     (durable)
//! ```
//!
//! A choice is reserved in memory in the same moment, so that no other pass gives the same away; it is written into the status
//! before the VM is made, so that a manager that comes after us counts it too. It stops to be counted when the inventory does.

mod books;
mod chooser;
pub mod question;
mod snapshots;
mod unplaced;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use polyvirt_api::infra::{PlacementStatus, Provider};
use polyvirt_contract::ProviderError;
use polyvirt_contract::model::{HostHealth, Inventory};
use polyvirt_placement::{
    Choice, Overcommit, Reason, Refusal, Site, Verdict, World, explain, named, place,
};
use polyvirt_plan::migration::record::is_open;

use crate::context::{Context, Stores};
use crate::host::rules::{host_rules, hosts_of};
use crate::runtime::key::ObjectKey;
use crate::subject::AboutVm as _;
use crate::virtual_machine::reach::Ready;

pub use chooser::{Chooser, LeftOut, NotChosen, Silence};
pub use question::Question;
pub use snapshots::Snapshot;
pub use unplaced::Unplaced;

use books::Reserved;
use snapshots::Snapshots;

/// How old an inventory may be when a host is found with it. What was given away since then is in the books.
pub(crate) const OLD: Duration = Duration::from_secs(30);

/// Where VMs were put, and what providers have.
#[derive(Default)]
pub struct Placements {
    /// Choices that may not be in the caches yet.
    reserved: Mutex<Reserved>,
    /// Hosts that VMs are about to move to.
    moving: Mutex<HashMap<ObjectKey, String>>,
    snapshots: Snapshots,
}

impl Placements {
    fn lock(&self) -> MutexGuard<'_, Reserved> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the provider has, not older than that.
    pub(crate) async fn snapshot(
        &self,
        ready: &Ready,
        now: Timestamp,
        oldest: Timestamp,
    ) -> Result<std::sync::Arc<Snapshot>, ProviderError> {
        self.snapshots.get(ready, now, oldest).await
    }

    /// What the provider told of itself turned out to be wrong.
    pub(crate) fn distrust(&self, provider: &ObjectKey) {
        self.snapshots.forget(provider);
    }

    /// Chooses a host and reserves it in the same moment.
    pub(crate) fn choose(
        &self,
        ctx: &Context,
        ready: &Ready,
        snapshot: &Snapshot,
        vm: &ObjectKey,
        question: &Question,
        remember: impl FnOnce(&Choice) -> PlacementStatus,
    ) -> Result<PlacementStatus, Refusal> {
        let mut reserved = self.lock();
        let ask = |world: &World<'_>| place(&question.request, world);
        let choice = self.ask(ctx, ready, snapshot, (vm, &reserved), ask)?;
        let chosen = remember(&choice);
        reserved.insert(vm.clone(), chosen.clone());
        Ok(chosen)
    }

    /// Chooses the host that a VM moves to, and reserves it in the same moment.
    pub(crate) fn choose_target(
        &self,
        ctx: &Context,
        ready: &Ready,
        snapshot: &Snapshot,
        vm: &ObjectKey,
        question: &Question,
    ) -> Result<Choice, Refusal> {
        let reserved = self.lock();
        let ask = |world: &World<'_>| place(&question.request, world);
        let choice = self.ask(ctx, ready, snapshot, (vm, &reserved), ask)?;
        self.moves().insert(vm.clone(), choice.host.clone());
        drop(reserved);
        Ok(choice)
    }

    /// The same for a host that somebody names: reserved if it can take the VM at all. What is for or against each is told too.
    pub(crate) fn name_target(
        &self,
        ctx: &Context,
        ready: &Ready,
        snapshot: &Snapshot,
        vm: &ObjectKey,
        (question, host): (&Question, &str),
    ) -> (Option<Result<(), Reason>>, Vec<Verdict>) {
        let reserved = self.lock();
        let ask = |world: &World<'_>| {
            let request = &question.request;
            (named(request, world, host), explain(request, world))
        };
        let answer = self.ask(ctx, ready, snapshot, (vm, &reserved), ask);
        if answer.0 == Some(Ok(())) {
            self.moves().insert(vm.clone(), host.to_owned());
        }
        drop(reserved);
        answer
    }

    /// Asks the scheduler about a VM, with all in the books that was given away before.
    fn ask<T>(
        &self,
        ctx: &Context,
        ready: &Ready,
        snapshot: &Snapshot,
        (vm, reserved): (&ObjectKey, &Reserved),
        ask: impl FnOnce(&World<'_>) -> T,
    ) -> T {
        let (stores, link) = (&ctx.stores, &ready.link);
        let mut books = books::open(stores, link, snapshot, Some(reserved), Some(vm));
        books.extend(self.arrivals(ctx, ready, vm));
        let name = link.key.to_string();
        let placed: Vec<_> = books.iter().map(|entry| entry.placed(&name)).collect();
        let object = stores.providers.get(&link.key);
        let inventory = open_hosts(stores, &link.key, object.as_deref(), &snapshot.inventory);
        let overcommit = overcommit(object.as_deref());
        let rules = host_rules(stores, &link.key, overcommit);
        let site = Site {
            provider: &name,
            inventory: &inventory,
            overcommit,
            rules: Some(&rules),
        };
        let namespaces = stores.namespaces.labels().unwrap_or_default();
        ask(&World {
            sites: &[site],
            vms: &placed,
            namespaces: &namespaces,
        })
    }

    fn moves(&self) -> MutexGuard<'_, HashMap<ObjectKey, String>> {
        self.moving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The caches know where the VM moves to, or it does not.
    pub(crate) fn forget_target(&self, vm: &ObjectKey) {
        self.moves().remove(vm);
    }

    /// VMs on their way, on the hosts that they go to. Until they arrive they need room on both.
    fn arrivals(&self, ctx: &Context, ready: &Ready, without: &ObjectKey) -> Vec<books::Entry> {
        let mut hosts = self.moves().clone();
        for key in ctx.stores.migration_index.all() {
            let migration = ctx.stores.migrations.get(&key);
            let Some(migration) = migration.filter(|m| is_open(m)) else {
                continue;
            };
            let moved = migration.status.as_ref().and_then(|s| s.host_move.as_ref());
            if let Some(host) = moved.and_then(|m| m.target_host.clone()) {
                hosts.insert(migration.vm(), host);
            }
        }
        hosts.remove(without);
        let found = hosts.into_iter();
        found
            .filter_map(|(vm, host)| books::arrival(&ctx.stores, &ready.link, vm, host))
            .collect()
    }

    /// The caches know the choice, or the VM is gone.
    pub(crate) fn forget(&self, vm: &ObjectKey) {
        self.lock().remove(vm);
    }
}

/// The hosts as the provider tells of them, but for those that the Provider's user has closed, in the Provider or in a Host; and
/// with the labels of Hosts.
fn open_hosts<'a>(
    stores: &Stores,
    key: &ObjectKey,
    provider: Option<&Provider>,
    told: &'a Inventory,
) -> Cow<'a, Inventory> {
    let closed = provider.map_or(&[][..], |p| p.spec.cordoned_hosts.as_slice());
    let objects = hosts_of(stores, key);
    if closed.is_empty() && objects.is_empty() {
        return Cow::Borrowed(told);
    }
    let mut inventory = told.clone();
    for host in &mut inventory.hosts {
        let object = objects.get(&host.name).map(|object| &object.spec);
        let shut = object.is_some_and(|spec| spec.schedulable == Some(false));
        if (shut || closed.contains(&host.name)) && host.health == HostHealth::Ready {
            host.health = HostHealth::Cordoned;
        }
        host.labels
            .extend(object.map(|spec| spec.labels.clone()).unwrap_or_default());
    }
    Cow::Owned(inventory)
}

fn overcommit(provider: Option<&Provider>) -> Overcommit {
    let told = provider
        .and_then(|p| p.spec.overcommit.clone())
        .unwrap_or_default();
    let percent =
        |told: Option<i32>, default| told.and_then(|p| u32::try_from(p).ok()).unwrap_or(default);
    let default = Overcommit::default();
    Overcommit {
        cpu_percent: percent(told.cpu_percent, default.cpu_percent),
        memory_percent: percent(told.memory_percent, default.memory_percent),
    }
}
