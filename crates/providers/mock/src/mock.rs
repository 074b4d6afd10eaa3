//! The shell around the state: locks, clocks, faults, the folder and the watch streams.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use polyvirt_contract::model::VmState;
use polyvirt_contract::{ErrorKind, ProviderError, Result, VmId};
use tokio::sync::Notify;

use crate::clock::Time;
use crate::config::{MockConfig, Offer, TaskMode, Times};
use crate::faults::{Effect, injected};
use crate::handles::{FaultsHandle, OutOfBand};
use crate::inner::Inner;
use crate::rpc::{Counts, Rpc};
use crate::state::LogEntry;

/// A provider without a hypervisor.
///
/// Cheap to share: everything is behind one lock, held only while the state changes and never across a wait. A folder is
/// read and written under that lock too, because a VM must be stored before anybody hears of it.
pub struct Mock {
    pub(crate) config: MockConfig,
    pub(crate) time: Time,
    inner: Mutex<Inner>,
    earlier: Arc<Notify>,
    me: Weak<Self>,
}

impl std::fmt::Debug for Mock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mock")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Mock {
    /// A mock that behaves so. If its folder cannot be used, every call, `validate` first, tells why.
    pub fn new(config: MockConfig) -> Arc<Self> {
        let time = Time::new(config.clock);
        let inner = Inner::open(&config);
        Arc::new_cyclic(|me| Self {
            config,
            time,
            inner: Mutex::new(inner),
            earlier: Arc::new(Notify::new()),
            me: me.clone(),
        })
    }

    /// Turns the manual clock and does everything that becomes due, each thing at its time.
    pub fn advance(&self, duration: Duration) {
        let target = self.time.now() + duration;
        while let Some(due) = self.next_due().filter(|due| *due < target) {
            self.time.turn_to(due);
            self.settle();
        }
        self.time.turn_to(target);
        self.settle();
    }

    /// When something will happen by itself, since the mock began; `None` if nothing will.
    pub fn next_due(&self) -> Option<Duration> {
        let calendar = self.lock().state.next_due();
        [calendar, self.time.next_sleeper()]
            .into_iter()
            .flatten()
            .min()
    }

    /// The time since the mock began.
    pub fn now(&self) -> Duration {
        self.time.now()
    }

    /// All VMs, by id.
    pub fn vms(&self) -> Vec<VmState> {
        self.settle();
        self.lock().state.list()
    }

    /// One VM, seen past all faults.
    pub fn vm(&self, id: &VmId) -> Option<VmState> {
        self.settle();
        self.lock().state.describe(id)
    }

    /// How often each call was made.
    pub fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    /// Counts from zero again.
    pub fn reset_counts(&self) {
        self.lock().counts = Counts::default();
    }

    /// How many images were prepared, each source once.
    pub fn images_prepared(&self) -> u64 {
        self.lock().state.images_prepared()
    }

    /// What happened lately, in order.
    pub fn journal(&self) -> Vec<LogEntry> {
        self.settle();
        self.lock().state.journal()
    }

    /// Makes things go wrong.
    pub const fn faults(&self) -> FaultsHandle<'_> {
        FaultsHandle(self)
    }

    /// Does what people do behind a provider's back.
    pub const fn out_of_band(&self) -> OutOfBand<'_> {
        OutOfBand(self)
    }

    /// Dies and starts anew, as a process does: tasks in flight and watch streams are lost, VMs stay. A VM whose creation was
    /// in flight is not there afterwards.
    pub fn restart(&self) {
        self.settle();
        let now = self.time.now();
        let mut inner = self.lock();
        inner
            .hub
            .break_all("The provider was restarted; open a new watch");
        inner.consoles.end_all();
        inner.state.crash();
        inner.reopen();
        inner.flush(now);
        drop(inner);
        self.arm();
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn me(&self) -> Weak<Self> {
        self.me.clone()
    }

    /// A call of the contract: counted, disturbed as the faults say, then done at once under the lock.
    pub(crate) async fn call<T: Send>(
        &self,
        rpc: Rpc,
        work: impl FnOnce(&mut Inner, Duration) -> Result<T> + Send,
    ) -> Result<T> {
        let effect = self.arrive(rpc).await?;
        let answer = self.act(rpc, work);
        match effect {
            Some(Effect::LoseReply(kind)) => Err(injected(kind, rpc)),
            Some(Effect::Crash) => {
                self.restart();
                Err(injected(ErrorKind::Unavailable, rpc))
            }
            _ => answer,
        }
    }

    /// Counts the call, lets it wait, and refuses it if the faults say so; else what is to happen to its answer.
    async fn arrive(&self, rpc: Rpc) -> Result<Option<Effect>> {
        let decision = {
            let mut inner = self.lock();
            inner.counts.called(rpc);
            inner.usable()?;
            inner.state.faults.decide(rpc)
        };
        self.time.sleep(decision.latency).await;
        match decision.effect {
            Some(Effect::Fail(kind)) => return Err(injected(kind, rpc)),
            Some(Effect::DropRequest) => return Err(injected(ErrorKind::Timeout, rpc)),
            Some(Effect::Hang) => std::future::pending().await,
            _ => {}
        }
        self.time.sleep(self.work_time(rpc)).await;
        Ok(decision.effect)
    }

    /// How long the caller waits for the work itself, where it is not answered by a task.
    fn work_time(&self, rpc: Rpc) -> Duration {
        match self.config.tasks {
            TaskMode::Immediate => time_of(&self.config.times, rpc),
            TaskMode::Async => Duration::ZERO,
        }
    }

    pub(crate) fn act<T>(
        &self,
        rpc: Rpc,
        work: impl FnOnce(&mut Inner, Duration) -> Result<T>,
    ) -> Result<T> {
        let now = self.time.now();
        let mut inner = self.lock();
        inner.state.settle(now);
        let before = inner.state.progress();
        let answer = work(&mut inner, now);
        if inner.state.progress() != before {
            inner.counts.changed(rpc);
        }
        inner.flush(now);
        let usable = inner.usable();
        drop(inner);
        self.arm();
        usable.and(answer)
    }

    /// A change that is no call of the contract.
    pub(crate) fn change<T>(&self, work: impl FnOnce(&mut Inner, Duration) -> T) -> T {
        let now = self.time.now();
        let mut inner = self.lock();
        inner.state.settle(now);
        let answer = work(&mut inner, now);
        inner.flush(now);
        drop(inner);
        self.arm();
        answer
    }

    fn settle(&self) {
        self.change(|_, _| ());
    }

    /// Refuses what a provider without extensions does not have.
    pub(crate) fn needs_extensions(&self, what: &str) -> Result<()> {
        match self.config.offer {
            Offer::Full => Ok(()),
            Offer::Basic => Err(ProviderError::unsupported(what)),
        }
    }

    /// Makes sure that somebody wakes up when the next thing is due: on tokio's clock one task, only while there is need.
    fn arm(&self) {
        let mut inner = self.lock();
        let Some(due) = inner.state.next_due() else {
            return;
        };
        if self.time.instant(due).is_none() || inner.timer.is_some_and(|timer| timer <= due) {
            return;
        }
        let running = inner.timer.is_some();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        inner.timer = Some(due);
        drop(inner);
        if running {
            self.earlier.notify_one();
        } else {
            runtime.spawn(keep_time(Timer(self.me()), self.earlier.clone()));
        }
    }

    /// Does what is due; when to look again, `None` if there is nothing to wait for.
    fn tick(&self) -> Option<tokio::time::Instant> {
        let now = self.time.now();
        let mut inner = self.lock();
        inner.state.settle(now);
        inner.flush(now);
        inner.timer = inner.state.next_due();
        inner.timer.and_then(|due| self.time.instant(due))
    }
}

/// The one timer of a mock on tokio's clock. It ends when nothing is due, or with the mock.
async fn keep_time(mut timer: Timer, earlier: Arc<Notify>) {
    while let Some(due) = timer.0.upgrade().and_then(|mock| mock.tick()) {
        tokio::select! {
            () = tokio::time::sleep_until(due) => {}
            () = earlier.notified() => {}
        }
    }
    timer.0 = Weak::new();
}

/// Dropped before its end, when its runtime goes away under it, the timer leaves word that there is none.
struct Timer(Weak<Mock>);

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(mock) = self.0.upgrade() {
            mock.lock().timer = None;
        }
    }
}

const fn time_of(times: &Times, rpc: Rpc) -> Duration {
    match rpc {
        Rpc::Create => times.create,
        Rpc::Delete => times.delete,
        Rpc::Power => times.power,
        Rpc::Reconfigure | Rpc::HardwareUpgrade => times.reconfigure,
        Rpc::SnapshotCreate | Rpc::SnapshotDelete | Rpc::SnapshotRevert => times.snapshot,
        Rpc::Clone => times.clone,
        Rpc::ImagePrepare => times.image,
        Rpc::ExportDisk | Rpc::ImportDisk => times.disk,
        _ => Duration::ZERO,
    }
}
