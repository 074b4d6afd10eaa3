//! A VM that leaves: disks first, then memory, then the last of both while the guest stands still.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use polyvirt_contract::model::{
    Handover, Landing, MigrationMode, MigrationPhase, MigrationProgress, Sending,
};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::keeper::Keeper;
use super::key::{self, End};
use super::mirror::{Copied, Mirror};
use super::{figures, find, query, wish};
use crate::core::Core;
use crate::qmp::{Event, Qmp};
use crate::state::{Moving, Side, Was};
use crate::vm::{Begin, Vm};
use crate::{errors, snapshot};

/// How often to look where QEMU has said nothing.
const LOOK: Duration = Duration::from_millis(250);
/// How often is told how far it is.
const TELL: Duration = Duration::from_millis(500);
/// Passes over memory after which a guest that may do so goes on at the target, and fetches the rest.
const PASSES: u64 = 2;
/// How long QEMU may take to end what it is told to, and after which it is cut off.
const OVER: Duration = Duration::from_secs(10);
const CUT_OFF: Duration = Duration::from_secs(2);
/// What waits to be told.
const QUEUE: usize = 8;

/// Begins to send. It goes on for as long as somebody listens.
pub(crate) fn send(
    core: &Arc<Core>,
    handover: &Handover,
    landing: &Landing,
) -> Result<BoxStream<'static, Result<Sending>>> {
    let vm = find(core, &handover.vm)?;
    let moving = must_leave(&vm, handover)?;
    let (told, parts) = mpsc::channel(QUEUE);
    let stop = CancellationToken::new();
    let listens = stop.clone().drop_guard();
    let trip = Trip {
        core: core.clone(),
        vm,
        was: moving.was,
        handover: handover.clone(),
        landing: landing.clone(),
        told,
    };
    tokio::spawn(trip.travel(stop));
    let told = stream::unfold((parts, listens), |(mut parts, listens)| async move {
        let part = parts.recv().await?;
        Some((part, (parts, listens)))
    });
    Ok(told.boxed())
}

fn must_leave(vm: &Vm, handover: &Handover) -> Result<Moving> {
    let moving = vm.record(|record| record.moving.clone());
    let leaves = |m: &Moving| m.id == handover.id && m.side == Side::Leaves;
    moving.filter(leaves).ok_or_else(|| {
        errors::precondition(format!("The VM {} was not packed for this move", vm.uuid()))
    })
}

struct Trip {
    core: Arc<Core>,
    vm: Arc<Vm>,
    was: Was,
    handover: Handover,
    landing: Landing,
    told: mpsc::Sender<Result<Sending>>,
}

impl Trip {
    async fn travel(self, stop: CancellationToken) {
        let _alone = self.vm.change.lock().await;
        let ended = tokio::select! {
            biased;
            () = stop.cancelled() => Err(nobody_listens()),
            () = self.core.stop.cancelled() => Err(nobody_listens()),
            ended = self.go() => ended,
        };
        if let Err(error) = ended {
            call_back(&self.vm).await;
            // Nobody may listen any more.
            let _ = self.told.send(Err(error)).await;
        }
    }

    async fn go(&self) -> Result<()> {
        if self.was == Was::Off && self.vm.live().is_none() {
            self.vm.start(&self.core, Begin::Still).await?;
        }
        let live = self.vm.must_live()?;
        let qmp = &live.qmp;
        let mut watch = Watch::begin(qmp, self.core.config.moves.stall);
        self.prepare(qmp).await?;
        let mirror = Mirror {
            qmp,
            nodes: snapshot::nodes(&self.vm.copy()),
        };
        mirror.begin(&self.handover, &self.landing).await?;
        let copied = self.disks(&mirror, &mut watch).await?;
        if self.handover.wish.bandwidth.is_some() {
            mirror.beside_memory(&self.handover).await?;
        }
        self.memory(qmp, &mirror, copied, &mut watch).await
    }

    async fn prepare(&self, qmp: &Qmp) -> Result<()> {
        let wish = &self.handover.wish;
        if wish.mode == MigrationMode::Cold && self.was == Was::On {
            qmp.ask("stop").await?;
        }
        if wish.encrypted {
            let secret = &self.handover.secret;
            key::give(&self.core, &self.vm, qmp, secret, End::Client).await?;
        }
        qmp.execute("migrate-set-capabilities", wish::capabilities(wish))
            .await?;
        qmp.execute("migrate-set-parameters", wish::parameters(wish))
            .await?;
        Ok(())
    }

    /// Waits until the copies of all disks follow the guest.
    async fn disks(&self, mirror: &Mirror<'_>, watch: &mut Watch) -> Result<Copied> {
        loop {
            let copied = mirror.look().await?;
            self.tell(watch, copied, &Value::Null);
            if copied.ready {
                return Ok(copied);
            }
            watch.lives(figures::moved(copied, &Value::Null))?;
            watch.next().await?;
        }
    }

    async fn memory(
        &self,
        qmp: &Qmp,
        mirror: &Mirror<'_>,
        mut copied: Copied,
        watch: &mut Watch,
    ) -> Result<()> {
        let address = json!({
            "transport": "socket", "type": "inet", "host": self.landing.address,
            "port": self.landing.memory_port.to_string(),
        });
        let channels = json!({"channels": [{"channel-type": "main", "addr": address}]});
        let mut keeper = Keeper::begin(qmp, wish::pace(&self.handover.wish, self.was)).await?;
        qmp.execute("migrate", channels).await?;
        let mut reached = Reached::Copies;
        let mut said = None;
        loop {
            let (status, migration) = Self::stands(qmp, said.take()).await?;
            match (status.as_str(), reached) {
                ("pre-switchover", Reached::Copies) => {
                    mirror.finish(&self.handover).await?;
                    let state = json!({"state": "pre-switchover"});
                    qmp.execute("migrate-continue", state).await?;
                    reached = Reached::Switches;
                }
                ("completed", _) => return self.released(watch, MigrationPhase::Finishing).await,
                ("failed" | "cancelled", _) => return Err(self.failed(qmp).await),
                ("postcopy-active", Reached::Copies | Reached::Switches) => {
                    self.released(watch, MigrationPhase::Fetching).await?;
                    reached = Reached::Fetches;
                }
                ("active", Reached::Copies) if migration.is_object() => {
                    copied = mirror.look().await?;
                    watch.lives(figures::moved(copied, &migration))?;
                    keeper.look(qmp, &migration).await?;
                    self.fetch_soon(qmp, &migration).await;
                }
                ("device", _) => watch.lives(0)?,
                _ => {}
            }
            self.tell(watch, copied, &migration);
            said = watch.next().await?;
        }
    }

    /// How the migration stands: as QEMU has just said, or else as it says when it is asked, with figures.
    async fn stands(qmp: &Qmp, said: Option<String>) -> Result<(String, Value)> {
        if let Some(status) = said {
            return Ok((status, Value::Null));
        }
        let migration = query(qmp).await?;
        let status = migration["status"].as_str().unwrap_or_default();
        Ok((status.to_owned(), migration))
    }

    /// A guest that may, and that is not caught up with, goes on at the target.
    async fn fetch_soon(&self, qmp: &Qmp, migration: &Value) {
        let passes = migration["ram"]["dirty-sync-count"].as_u64().unwrap_or(0);
        if self.handover.wish.post_copy
            && passes > PASSES
            && let Err(error) = qmp.ask("migrate-start-postcopy").await
        {
            tracing::debug!(%error, "The guest cannot go on at the target yet");
        }
    }

    /// Tells how far it is, if somebody has the time to listen.
    fn tell(&self, watch: &mut Watch, disks: Copied, migration: &Value) {
        if watch.told.is_some_and(|at| at.elapsed() < TELL) {
            return;
        }
        watch.told = Some(Instant::now());
        figures::take_in(&mut watch.progress, disks, migration);
        let part = Sending {
            progress: watch.progress.clone(),
            released: false,
        };
        let _ = self.told.try_send(Ok(part));
    }

    /// The guest will not go on here any more.
    async fn released(&self, watch: &mut Watch, phase: MigrationPhase) -> Result<()> {
        watch.progress.phase = phase;
        if phase == MigrationPhase::Finishing {
            watch.progress.remaining_bytes = Some(0);
        }
        if let Some(stopped) = watch.stopped.take() {
            watch.progress.downtime = Some(stopped.elapsed());
        }
        let part = Sending {
            progress: watch.progress.clone(),
            released: true,
        };
        let _ = self.told.send(Ok(part)).await;
        Ok(())
    }

    async fn failed(&self, qmp: &Qmp) -> ProviderError {
        let migration = query(qmp).await.unwrap_or_default();
        let why = migration["error-desc"].as_str();
        let message = format!(
            "The guest could not be sent to {}: {}",
            self.handover.wish.target_host,
            why.unwrap_or("QEMU gave it up")
        );
        ProviderError::new(ErrorKind::Unavailable, message)
    }
}

/// How far memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    /// The guest runs here.
    Copies,
    /// It stands still, and goes over.
    Switches,
    /// It runs there, and fetches.
    Fetches,
}

/// What QEMU does, and whether anything moves.
struct Watch {
    events: Receiver<Event>,
    progress: MigrationProgress,
    told: Option<Instant>,
    /// Since when the guest stands still.
    stopped: Option<Instant>,
    moved: (u64, Instant),
    stall: Duration,
}

impl Watch {
    fn begin(qmp: &Qmp, stall: Duration) -> Self {
        Self {
            events: qmp.events(),
            progress: MigrationProgress::default(),
            told: None,
            stopped: None,
            moved: (0, Instant::now()),
            stall,
        }
    }

    /// Waits until something happens, or a moment. What QEMU says of its migration, if that was it.
    async fn next(&mut self) -> Result<Option<String>> {
        match tokio::time::timeout(LOOK, self.events.recv()).await {
            Ok(Ok(event)) => Ok(self.take(&event)),
            Ok(Err(RecvError::Closed)) => Err(ended()),
            Ok(Err(RecvError::Lagged(_))) | Err(_) => Ok(None),
        }
    }

    fn take(&mut self, event: &Event) -> Option<String> {
        match event.name.as_str() {
            "STOP" => self.stopped = self.stopped.or_else(|| Some(Instant::now())),
            "RESUME" => self.stopped = None,
            "MIGRATION" => return Some(event.text("status").to_owned()),
            _ => {}
        }
        None
    }

    /// A link on which nothing moves is not waited for.
    fn lives(&mut self, moved: u64) -> Result<()> {
        if moved > self.moved.0 {
            self.moved = (moved, Instant::now());
        } else if self.moved.1.elapsed() > self.stall {
            let message = format!(
                "Nothing has reached the target for {:?}, so the guest goes on where it was; look at the link between the hosts",
                self.stall
            );
            return Err(ProviderError::new(ErrorKind::Timeout, message));
        }
        Ok(())
    }
}

fn ended() -> ProviderError {
    ProviderError::new(
        ErrorKind::Unavailable,
        "QEMU has ended while its guest was being moved",
    )
}

fn nobody_listens() -> ProviderError {
    let message = "Whoever moves the VM has gone, and it goes on where it was";
    ProviderError::new(ErrorKind::Cancelled, message)
}

/// Calls back a guest that is being sent, whatever became of the link. One that is split between both hosts is left alone.
pub(crate) async fn call_back(vm: &Vm) {
    let Some(live) = vm.live() else {
        return key::forget(vm);
    };
    let qmp = &live.qmp;
    let begun = Instant::now();
    let mut cut_off = false;
    loop {
        let migration = query(qmp).await.unwrap_or_default();
        match migration["status"].as_str().unwrap_or_default() {
            status if status.starts_with("postcopy") => return,
            "setup" | "active" | "pre-switchover" | "device" | "wait-unplug" => {
                // One that ends by itself meanwhile is no trouble.
                let _ = qmp.ask("migrate_cancel").await;
            }
            "cancelling" if begun.elapsed() > CUT_OFF && !cut_off => {
                cut_off = true;
                let _ = qmp
                    .execute("yank", json!({"instances": [{"type": "migration"}]}))
                    .await;
            }
            "cancelling" => {}
            _ => break,
        }
        if begun.elapsed() > OVER {
            tracing::error!(vm = %vm.uuid(), "QEMU does not end its migration; it is looked at again");
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let nodes = snapshot::nodes(&vm.copy());
    Mirror { qmp, nodes }.abandon().await;
    key::take_away(vm, qmp).await;
}
