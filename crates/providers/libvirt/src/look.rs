//! Looking at domains: one by one when something happened, all at once when anything may have.
//!
//! ```text
//!   events ─► dirty set ─► look ─► differs from what was known? ─► revision, stream
//!   a new session ─► all ─► look at each; what is gone is told; what was left half done is finished or removed
//! ```

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use polyvirt_contract::model::{SnapshotState, Stage, VmState};
use polyvirt_contract::{ErrorKind, Result};
use polyvirt_provider_kit::uuid::Uuid;

use crate::core::{Core, Known, Vm};
use crate::domain::Machine;
use crate::rpc::{Addresses, Domain, Session, flags};
use crate::{create, remove, snapshot, view};

/// Domains that are looked at side by side.
const TOGETHER: usize = 8;
/// How often everything is looked at although nothing was told: what `virsh` changes in a stored domain has no event.
const RESYNC: Duration = Duration::from_mins(10);
/// How often addresses are asked for: first, at most until they are known, and afterwards.
const FIRST: Duration = Duration::from_millis(500);
const SLOWEST: Duration = Duration::from_secs(10);
const AT_REST: Duration = Duration::from_secs(120);
/// Pause after a look at everything that failed.
const AGAIN: Duration = Duration::from_secs(2);

/// What the guest itself has told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Guest {
    pub(crate) addresses: Addresses,
    pub(crate) hostname: String,
}

/// Looks at whatever must be looked at, for as long as the provider lives.
pub(crate) async fn keep_looking(core: Weak<Core>) {
    loop {
        let Some(dirty) = core.upgrade().map(|core| core.dirty.clone()) else {
            return;
        };
        let resync = tokio::time::timeout(RESYNC, dirty.woken.notified()).await;
        let Some(core) = core.upgrade() else { return };
        let marked = dirty.take();
        if marked.all || resync.is_err() {
            if let Err(error) = core.look_at_all().await {
                tracing::debug!(%error, "Not all VMs could be looked at");
                if error.kind != ErrorKind::Unavailable {
                    tokio::time::sleep(AGAIN).await;
                    dirty.all();
                }
            }
            continue;
        }
        core.look_at(marked.some).await;
    }
}

impl Core {
    async fn look_at(self: &Arc<Self>, uuids: impl IntoIterator<Item = Uuid>) {
        let looks: Vec<BoxFuture<'static, ()>> = uuids
            .into_iter()
            .map(|uuid| self.clone().look_once(uuid).boxed())
            .collect();
        futures::stream::iter(looks)
            .buffer_unordered(TOGETHER)
            .collect::<()>()
            .await;
    }

    async fn look_once(self: Arc<Self>, uuid: Uuid) {
        let vm = self.entry(uuid);
        if let Err(error) = self.look(&vm).await {
            tracing::debug!(vm = %uuid, %error, "A VM could not be looked at");
            // A new session looks at everything anyway.
            if error.kind != ErrorKind::Unavailable {
                tokio::time::sleep(AGAIN).await;
                self.dirty.mark(uuid);
            }
        }
    }

    /// Looks at every domain, tells of those that are gone, and goes on with what was left half done.
    async fn look_at_all(self: &Arc<Self>) -> Result<()> {
        let there = self.session().await?.domains().await?;
        self.look_at(there.iter().map(|domain| domain.uuid)).await;
        let known = self.all().into_iter();
        let gone = known.filter(|vm| there.iter().all(|domain| domain.uuid != vm.uuid));
        self.look_at(gone.map(|vm| vm.uuid).collect::<Vec<_>>())
            .await;
        for vm in self.all() {
            match vm.state().stage {
                Stage::Whole => {}
                Stage::Creating => create::give_up(self, &vm),
                Stage::Deleting => remove::go_on(self, &vm),
            }
        }
        Ok(())
    }

    /// All VMs by one call: those that have changed since they were seen are looked at.
    pub(crate) async fn list(self: &Arc<Self>) -> Result<Vec<VmState>> {
        let figures = self.session().await?.stats(&[]).await?;
        let stale = figures.iter().filter(|of| {
            let vm = self.entry(of.domain.uuid);
            let state = vm.state();
            let power = of.number("state.state").map(view::power_of);
            !vm.seen() || power != Some(state.power) || of.domain.name != state.name
        });
        let gone = self.all().into_iter().map(|vm| vm.uuid);
        let gone = gone.filter(|uuid| figures.iter().all(|of| of.domain.uuid != *uuid));
        let all: Vec<Uuid> = stale.map(|of| of.domain.uuid).chain(gone).collect();
        self.look_at(all).await;
        Ok(self.states())
    }

    /// Looks at one domain; `None` if it is not there.
    pub(crate) async fn look(self: &Arc<Self>, vm: &Arc<Vm>) -> Result<Option<VmState>> {
        let session = self.session().await?;
        let _alone = vm.look.lock().await;
        let seen = match see(&session, vm).await {
            Err(error) if error.kind == ErrorKind::NotFound => None,
            other => other?,
        };
        let Some(seen) = seen else {
            self.forget(vm);
            return Ok(None);
        };
        let host = self.host_facts(&session).await?;
        let known = Known {
            state: view::state(&seen, &host.name),
            config: Some(seen.config),
            live: seen.live,
            guest: seen.guest,
        };
        let state = self.keep(vm, known);
        self.follow(vm);
        Ok(Some(state))
    }

    /// Asks the guest's agent for addresses for as long as it is there.
    fn follow(self: &Arc<Self>, vm: &Arc<Vm>) {
        let listens = vm.live().is_some_and(|live| live.agent == Some(true));
        if !listens || vm.followed.swap(true, Ordering::Relaxed) {
            return;
        }
        let (core, vm, stop) = (Arc::downgrade(self), Arc::downgrade(vm), self.stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = keep_asking(core, vm) => {}
            }
        });
    }
}

/// All that is to be seen of a domain.
pub(crate) struct Seen {
    pub(crate) config: Machine,
    pub(crate) live: Option<Machine>,
    /// State and reason, by number.
    pub(crate) power: (i32, i32),
    pub(crate) guest: Guest,
    pub(crate) snapshots: Vec<SnapshotState>,
}

async fn see(session: &Session, vm: &Vm) -> Result<Option<Seen>> {
    let Some(domain) = session.by_uuid(vm.uuid).await? else {
        return Ok(None);
    };
    let (state, stored, snapshots) = tokio::try_join!(
        session.state(&domain),
        session.xml(&domain, flags::INACTIVE),
        session.snapshots(&domain),
    )?;
    let live = if domain.id >= 0 {
        Some(Machine::read(&session.xml(&domain, 0).await?)?)
    } else {
        None
    };
    let listens = live.as_ref().is_some_and(|live| live.agent == Some(true));
    let guest = if listens {
        vm.guest()
    } else {
        Guest::default()
    };
    let snapshots = snapshot::describe(session, &vm.state(), snapshots).await?;
    Ok(Some(Seen {
        config: Machine::read(&stored)?,
        live,
        power: state,
        guest,
        snapshots,
    }))
}

async fn keep_asking(core: Weak<Core>, vm: Weak<Vm>) {
    let mut pause = FIRST;
    loop {
        let (Some(core), Some(vm)) = (core.upgrade(), vm.upgrade()) else {
            return;
        };
        let listens = vm.live().is_some_and(|live| live.agent == Some(true));
        let guest = if listens {
            ask(&core, vm.uuid).await
        } else {
            None
        };
        let Some(guest) = guest.filter(|_| listens) else {
            if listens && pause < SLOWEST {
                pause *= 2;
                tokio::time::sleep(pause).await;
                continue;
            }
            vm.followed.store(false, Ordering::Relaxed);
            return;
        };
        let has_address = guest.addresses.values().any(|list| !list.is_empty());
        if vm.guest() != guest {
            vm.set_guest(guest);
            // What comes of it is told by the look.
            let _ = core.look(&vm).await;
        }
        pause = if has_address {
            AT_REST
        } else {
            (pause * 2).min(SLOWEST)
        };
        drop((core, vm));
        tokio::time::sleep(pause).await;
    }
}

async fn ask(core: &Core, uuid: Uuid) -> Option<Guest> {
    let session = core.session().await.ok()?;
    let domain = Domain::of(uuid);
    let addresses = session.addresses(&domain).await.ok()?;
    let named = crate::guest::hostname(&session, &domain).await;
    Some(Guest {
        addresses,
        hostname: named.unwrap_or_default(),
    })
}
