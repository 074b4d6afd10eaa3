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
use polyvirt_provider_kit::guest::Told;
use polyvirt_provider_kit::uuid::Uuid;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::addresses::{self, Again, Source, Turn};
use crate::core::{Core, Known, Vm};
use crate::domain::Machine;
use crate::rpc::{Session, flags};
use crate::{create, frozen, image, remove, snapshot, view};

/// Domains that are looked at side by side.
const TOGETHER: usize = 8;
/// How often everything is looked at although nothing was told: what `virsh` changes in a stored domain has no event.
const RESYNC: Duration = Duration::from_mins(10);
/// Pause after a look at everything that failed.
const AGAIN: Duration = Duration::from_secs(2);

/// Looks at whatever must be looked at, for as long as the provider lives.
pub(crate) async fn keep_looking(core: Weak<Core>) {
    let turns = Arc::new(Semaphore::new(TOGETHER));
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
        for (uuid, again) in marked.some {
            let Ok(turn) = turns.clone().acquire_owned().await else {
                return;
            };
            core.look_soon(uuid, again, turn);
        }
    }
}

impl Core {
    /// Fails if libvirt went away in between: then not all that is there was seen.
    async fn look_at(self: &Arc<Self>, uuids: impl IntoIterator<Item = Uuid>) -> Result<()> {
        let looks: Vec<BoxFuture<'static, Result<()>>> = uuids
            .into_iter()
            .map(|uuid| self.clone().look_once(uuid).boxed())
            .collect();
        let looks = futures::stream::iter(looks).buffer_unordered(TOGETHER);
        looks
            .fold(Ok(()), |all, one| std::future::ready(all.and(one)))
            .await
    }

    /// Looks at a domain without anybody waiting: one that is slow to answer does not hold up others.
    fn look_soon(self: &Arc<Self>, uuid: Uuid, again: Option<Again>, turn: OwnedSemaphorePermit) {
        let vm = self.entry(uuid);
        if let Some(why) = again {
            vm.asking().ask_again(why);
        }
        if vm.travels() || vm.awaits_look.swap(true, Ordering::Relaxed) {
            return;
        }
        let look = self.clone().look_once(uuid);
        tokio::spawn(async move {
            // A new session looks at everything anyway.
            let _ = look.await;
            drop(turn);
        });
    }

    /// Looks at a domain, and later again if that cannot be done for a reason of its own.
    async fn look_once(self: Arc<Self>, uuid: Uuid) -> Result<()> {
        let vm = self.entry(uuid);
        let Err(error) = self.look(&vm).await else {
            return Ok(());
        };
        tracing::debug!(vm = %uuid, %error, "A VM could not be looked at");
        if error.kind == ErrorKind::Unavailable {
            return Err(error);
        }
        let dirty = self.dirty.clone();
        tokio::spawn(async move {
            tokio::time::sleep(AGAIN).await;
            dirty.mark(uuid);
        });
        Ok(())
    }

    /// Looks at every domain, tells of those that are gone, and goes on with what was left half done.
    async fn look_at_all(self: &Arc<Self>) -> Result<()> {
        let there = self.session().await?.domains().await?;
        for vm in self.all() {
            vm.asking().ask_again(Again::Repair);
        }
        self.look_at(there.iter().map(|domain| domain.uuid)).await?;
        let known = self.all().into_iter();
        let gone = known.filter(|vm| there.iter().all(|domain| domain.uuid != vm.uuid));
        self.look_at(gone.map(|vm| vm.uuid).collect::<Vec<_>>())
            .await?;
        self.set_told_all();
        for vm in self.all() {
            match vm.state().stage {
                Stage::Whole => frozen::look(self, &vm),
                Stage::Creating => create::give_up(self, &vm),
                Stage::Deleting => remove::go_on(self, &vm),
            }
        }
        image::sweep(self).await;
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
        self.look_at(all).await?;
        self.set_told_all();
        Ok(self.states())
    }

    /// Sees to it that all domains were seen once: just after a start, what was not seen has neither memory nor devices.
    pub(crate) async fn know_all(self: &Arc<Self>) -> Result<()> {
        if !self.has_told_all() {
            self.list().await?;
        }
        Ok(())
    }

    /// Looks at one domain; `None` if it is not there.
    pub(crate) async fn look(self: &Arc<Self>, vm: &Arc<Vm>) -> Result<Option<VmState>> {
        let session = self.session().await?;
        let _alone = vm.look.lock().await;
        self.look_alone(&session, vm).await
    }

    /// The same after its guest has told something.
    pub(crate) async fn look_after(
        self: &Arc<Self>,
        vm: &Arc<Vm>,
        turn: &Turn,
        told: Told,
    ) -> Result<Option<VmState>> {
        let session = self.session().await?;
        let _alone = vm.look.lock().await;
        vm.asking().learn(turn, told);
        self.look_alone(&session, vm).await
    }

    /// The caller holds [`Vm::look`].
    async fn look_alone(
        self: &Arc<Self>,
        session: &Session,
        vm: &Arc<Vm>,
    ) -> Result<Option<VmState>> {
        vm.awaits_look.store(false, Ordering::Relaxed);
        let host = self.host_facts(session).await?;
        let seen = match see(session, vm).await {
            Err(error) if error.kind == ErrorKind::NotFound => None,
            other => other?,
        };
        // One that is on its way here is another host's to tell of.
        let here = seen.filter(|(seen, _)| !seen.is_coming());
        let Some((seen, turn)) = here else {
            self.forget(vm);
            return Ok(None);
        };
        let mut state = view::state(&seen, &host.name);
        if let Some(trouble) = vm.trouble().filter(|_| seen.leaves()) {
            trouble.clone_into(&mut state.fault);
        }
        let known = Known {
            state: vm.frozen.told_in(state, seen.live.as_ref()),
            config: Some(seen.config),
            live: seen.live,
        };
        let state = self.keep(vm, known);
        if let Some(turn) = turn {
            addresses::begin(self, vm, turn);
        }
        Ok(Some(state))
    }
}

/// All that is to be seen of a domain.
pub(crate) struct Seen {
    pub(crate) config: Machine,
    pub(crate) live: Option<Machine>,
    /// State and reason, by number.
    pub(crate) power: (i32, i32),
    pub(crate) guest: Told,
    pub(crate) snapshots: Vec<SnapshotState>,
}

impl Seen {
    fn is_coming(&self) -> bool {
        let marks = self.config.marks.as_ref();
        marks.is_some_and(crate::domain::Marks::is_coming)
    }

    fn leaves(&self) -> bool {
        let marks = self.config.marks.as_ref();
        marks.is_some_and(|marks| marks.leaves_as().is_some())
    }
}

async fn see(session: &Session, vm: &Vm) -> Result<Option<(Seen, Option<Turn>)>> {
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
    let snapshots = snapshot::describe(session, &vm.state(), snapshots).await?;
    let config = Machine::read(&stored)?;
    let source = live.as_ref().and_then(|live| Source::of(live, domain.id));
    if live.is_none() {
        vm.asking().has_stopped();
    }
    // Last of all: a turn that was given out must be begun.
    let (guest, turn) = vm.asking().turn_to(source);
    let seen = Seen {
        config,
        live,
        power: state,
        guest,
        snapshots,
    };
    Ok(Some((seen, turn)))
}
