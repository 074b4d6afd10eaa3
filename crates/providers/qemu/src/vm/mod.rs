//! One VM.
//!
//! ```text
//!             create            power on           cont
//!   (none) ──────────► Ready, off ──────► QEMU, stopped ──────► QEMU, running
//!      ▲                 │   ▲  ▲                                 │       │
//!      └──── delete ─────┘   │  └── SHUTDOWN, then the end ───────┘       │
//!                            └───── the end without SHUTDOWN: a fault ────┘
//! ```
//!
//! Changes that somebody asked for hold [`Vm::change`] and so come one after the other. What QEMU does by itself is taken in
//! by one task for each running VM ([`monitor`]), at any time. Both write the record, one after the
//! other, off the threads that serve everybody else; readers never wait for that.

mod check;
mod create;
mod delete;
mod desired;
mod hotplug;
mod live;
mod monitor;
mod power;
mod reconfigure;
mod recover;
mod start;
pub(crate) mod usage;
mod view;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polyvirt_contract::model::VmState;
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{ProviderError, Result};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::core::Core;
use crate::errors;
use crate::state::{self, Record, VmDir};
use crate::uuid::Uuid;

pub(crate) use create::{Origin, already_there, create, make, make_run, resume};
pub(crate) use delete::{delete, remove};
pub(crate) use desired::{hardware, with_later};
pub(crate) use live::{Guest, Live};
pub(crate) use power::power;
pub(crate) use reconfigure::{change_live, drop_files, reconfigure};
pub(crate) use recover::{hear_agent, recover};
pub(crate) use start::Begin;
use usage::Usage;
pub(crate) use view::MOVES_TO;

/// A VM, whether it runs or not.
pub(crate) struct Vm {
    uuid: Uuid,
    pub(crate) dir: VmDir,
    /// Held by whoever changes the VM.
    pub(crate) change: tokio::sync::Mutex<()>,
    /// Held by whoever speaks with the guest agent, which listens to one at a time.
    pub(crate) agent: tokio::sync::Mutex<()>,
    /// Counts how often the agent came: whoever asks it for addresses ends when it comes anew.
    agent_came: AtomicU64,
    /// Told when the guest was left frozen.
    pub(crate) freezes: Arc<Notify>,
    running: watch::Sender<bool>,
    /// Cancelled when somebody wants the VM deleted: what waits on its behalf stops waiting.
    pub(crate) doomed: CancellationToken,
    /// Another host has the VM by now: nothing more is told of it here but that it is gone.
    pub(crate) silent: AtomicBool,
    /// Held by whoever writes the record to the disk.
    writing: Mutex<()>,
    inside: Mutex<Inside>,
}

struct Inside {
    record: Record,
    live: Option<Arc<Live>>,
    guest: Guest,
    usage: Usage,
    context: view::Context,
}

impl Vm {
    pub(crate) fn new(core: &Core, record: Record) -> Arc<Self> {
        core.count_from(record.revision);
        Arc::new(Self {
            uuid: record.uuid,
            dir: core.state.vm(record.uuid),
            change: tokio::sync::Mutex::default(),
            agent: tokio::sync::Mutex::default(),
            agent_came: AtomicU64::new(0),
            freezes: Arc::default(),
            running: watch::channel(false).0,
            doomed: CancellationToken::new(),
            silent: AtomicBool::new(false),
            writing: Mutex::default(),
            inside: Mutex::new(Inside {
                record,
                live: None,
                guest: Guest::default(),
                usage: Usage::default(),
                context: view::Context::new(core),
            }),
        })
    }

    pub(crate) const fn uuid(&self) -> Uuid {
        self.uuid
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the record.
    pub(crate) fn record<T>(&self, look: impl FnOnce(&Record) -> T) -> T {
        look(&self.lock().record)
    }

    /// A copy of the record, to work with while it may change.
    pub(crate) fn copy(&self) -> Record {
        self.record(Clone::clone)
    }

    /// Changes the record and keeps it. If it cannot be kept, the record is as it was.
    pub(crate) fn keep(&self, change: impl FnOnce(&mut Record)) -> Result<()> {
        state::off_worker(|| self.write(change))
    }

    /// Writers come one after the other. They do not hold the lock that readers take: those never wait for the disk.
    fn write(&self, change: impl FnOnce(&mut Record)) -> Result<()> {
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.copy();
        let mut record = before.clone();
        change(&mut record);
        if record == before {
            return Ok(());
        }
        state::write_json(&self.dir.record(), &record)?;
        let mut inside = self.lock();
        // What was told meanwhile has a number of its own, and numbers only grow.
        record.revision = record.revision.max(inside.record.revision);
        inside.record = record;
        Ok(())
    }

    /// The QEMU of this VM, if it runs.
    pub(crate) fn live(&self) -> Option<Arc<Live>> {
        self.lock().live.clone()
    }

    /// The QEMU of this VM, or the reason why there is nothing to be done without one.
    pub(crate) fn must_live(&self) -> Result<Arc<Live>> {
        self.live()
            .ok_or_else(|| errors::precondition(format!("The VM {} is off; start it", self.uuid)))
    }

    /// Takes in a QEMU that runs now.
    pub(crate) fn set_live(&self, live: Arc<Live>) {
        let mut inside = self.lock();
        inside.live = Some(live);
        inside.guest = Guest::default();
        drop(inside);
        self.running.send_replace(true);
    }

    /// The QEMU of this VM has ended. Whoever waits for that hears of it when `told` has been done.
    pub(crate) fn set_ended(&self, told: impl FnOnce()) {
        let mut inside = self.lock();
        inside.live = None;
        inside.guest = Guest::default();
        drop(inside);
        told();
        self.running.send_replace(false);
    }

    /// Waits until no QEMU runs, and all that follows from its end has been written down.
    pub(crate) async fn stopped(&self) {
        let mut running = self.running.subscribe();
        // The sender lives as long as the VM, which is borrowed here.
        let _ = running.wait_for(|runs| !runs).await;
    }

    /// Changes what is known of the guest; true if that made a difference.
    pub(crate) fn guest(&self, change: impl FnOnce(&mut Guest)) -> bool {
        let mut inside = self.lock();
        let before = inside.guest.clone();
        change(&mut inside.guest);
        inside.guest != before
    }

    pub(crate) fn agent_is_open(&self) -> bool {
        self.lock().guest.agent
    }

    /// The guest's file systems could not be let go on.
    pub(crate) fn stays_frozen(&self, why: String) {
        self.guest(|guest| guest.frozen = why);
        self.freezes.notify_one();
    }

    pub(crate) fn is_frozen(&self) -> bool {
        !self.lock().guest.frozen.is_empty()
    }

    /// Counts the agent's coming.
    pub(crate) fn agent_comes(&self) -> u64 {
        self.agent_came.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether the agent listens and has not gone since it came for this time.
    pub(crate) fn agent_stays(&self, coming: u64) -> bool {
        self.agent_is_open() && self.agent_came.load(Ordering::Relaxed) == coming
    }

    /// The VM as the contract shows it.
    pub(crate) fn state(&self) -> VmState {
        view::state(&self.lock())
    }

    /// Gives the VM a new revision and tells that it changed.
    pub(crate) fn touch(&self, core: &Core) {
        // Measured before the lock is taken: whoever looks at the VM does not wait for its disk.
        let live = self.live();
        let usage = state::off_worker(|| Usage::of(&self.dir, live.as_deref()));
        let mut inside = self.lock();
        inside.usage = usage;
        inside.context = view::Context::new(core);
        inside.record.revision = core.next_revision();
        let state = view::state(&inside);
        // Under the lock, so that readers hear of changes in their order; and nothing more of a VM that is gone.
        let told = !inside.record.comes() && !self.silent.load(Ordering::Relaxed);
        if told && core.get(self.uuid).is_some() {
            core.hub.publish(VmEvent::State(state));
        }
    }

    /// Changes the record, keeps it and tells.
    pub(crate) fn update(&self, core: &Core, change: impl FnOnce(&mut Record)) -> Result<()> {
        let revision = core.next_revision();
        self.keep(|record| {
            change(record);
            record.revision = revision;
        })?;
        self.touch(core);
        Ok(())
    }

    /// Refuses a VM that is half made, half gone, or on its way to another host.
    pub(crate) fn must_be_whole(&self) -> Result<()> {
        self.must_stay()?;
        match self.record(|record| record.stage) {
            state::Stage::Ready => Ok(()),
            state::Stage::Creating => Err(self.not_now("is still being made; wait for that")),
            state::Stage::Deleting => Err(self.not_now("is being deleted; wait until it is gone")),
        }
    }

    /// Refuses a VM that is on its way between hosts. That may take long, so nobody waits for it.
    pub(crate) fn must_stay(&self) -> Result<()> {
        let peer = self.record(|record| record.moving.as_ref().map(|moving| moving.peer.clone()));
        let moves = |peer| {
            let why = format!("moves between this host and {peer}; wait for that, or stop it");
            Err(self.not_now(&why))
        };
        peer.map_or(Ok(()), moves)
    }

    /// Waits for something that others hold up, unless the VM is to be deleted.
    pub(crate) async fn unless_doomed<T>(&self, waits: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.doomed.cancelled() => Err(self.not_now("is being deleted; wait until it is gone")),
            done = waits => Ok(done),
        }
    }

    fn not_now(&self, why: &str) -> ProviderError {
        errors::precondition(format!("The VM {} {why}", self.uuid))
    }
}

#[cfg(test)]
mod tests;
