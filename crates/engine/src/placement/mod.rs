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

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use polyvirt_api::infra::{PlacementStatus, Provider};
use polyvirt_contract::ProviderError;
use polyvirt_placement::{Choice, Overcommit, Refusal, Site, World, place};

use crate::context::Context;
use crate::runtime::key::ObjectKey;
use crate::virtual_machine::reach::Ready;

pub use chooser::Chooser;
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
        let provider = &ready.link.key;
        let mut reserved = self.lock();
        let books = books::open(
            &ctx.stores,
            &ready.link,
            snapshot,
            Some(&*reserved),
            Some(vm),
        );
        let name = provider.to_string();
        let placed: Vec<_> = books.iter().map(|entry| entry.placed(&name)).collect();
        let site = Site {
            provider: &name,
            inventory: &snapshot.inventory,
            overcommit: overcommit(ctx.stores.providers.get(provider).as_deref()),
        };
        let world = World {
            sites: &[site],
            vms: &placed,
        };
        let choice = place(&question.request, &world)?;
        let chosen = remember(&choice);
        reserved.insert(vm.clone(), chosen.clone());
        Ok(chosen)
    }

    /// The caches know the choice, or the VM is gone.
    pub(crate) fn forget(&self, vm: &ObjectKey) {
        self.lock().remove(vm);
    }
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
