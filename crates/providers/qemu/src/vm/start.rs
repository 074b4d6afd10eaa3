//! From a record to a running QEMU, and back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use polyvirt_contract::{ErrorKind, ProviderError, Result};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use crate::console::Serial;
use crate::core::Core;
use crate::process::{self, Process};
use crate::qmp::Qmp;
use crate::state::{OpenDir, Plugged, Record, off_worker};
use crate::vm::{Live, Vm, monitor};
use crate::{cmdline, errors, firmware, network};

/// How long QEMU may take until its monitor answers.
const READY: Duration = Duration::from_secs(30);
/// How long QEMU may take to end after it was told to.
const QUIT: Duration = Duration::from_secs(5);
const KILLED: Duration = Duration::from_secs(20);
/// What QEMU says when another QEMU of the same VM is there. It takes this lock before it touches anything else.
const HELD_BY_ANOTHER: &str = "Cannot lock pid file";
/// Between the lock and the number in the file is a moment.
const STRAY_PAUSE: Duration = Duration::from_millis(100);
/// A start counts against the limit until the guest's agent is there, or this long.
const SETTLE: Duration = Duration::from_secs(5);

/// Where a machine that starts begins.
#[derive(Clone, Copy)]
pub(crate) enum Begin<'a> {
    /// At its first instruction.
    Boot,
    Snapshot(&'a str),
    /// Nowhere yet: it waits for a guest from another host.
    Incoming,
    /// Nowhere: it is there only to be moved.
    Still,
}

impl Begin<'_> {
    /// Whether the machine runs afterwards.
    const fn runs(self) -> bool {
        matches!(self, Self::Boot | Self::Snapshot(_))
    }
}

impl Vm {
    /// Starts QEMU and lets the machine run. What waited for a start acts now.
    pub(crate) async fn start(self: &Arc<Self>, core: &Arc<Core>, begin: Begin<'_>) -> Result<()> {
        let permit = self.unless_doomed(core.starts.clone().acquire_owned());
        let permit = permit
            .await?
            .map_err(|_| errors::internal("The provider stops"))?;
        if matches!(begin, Begin::Boot) {
            self.apply_pending(core).await?;
        }
        let record = self.copy();
        let mut arguments = self.arguments(core, &record).await?;
        if matches!(begin, Begin::Incoming) {
            arguments.extend(["-incoming", "defer"].map(Into::into));
        }
        off_worker(|| {
            self.clear_sockets();
            self.give_files(core, &record)
        })?;
        self.keep(|record| record.running = true)?;
        let live = match self.launch_alone(core, &arguments).await {
            Ok(live) => Arc::new(live),
            Err(error) => return Err(self.failed_start(core, &record, error).await),
        };
        self.set_live(live.clone());
        monitor::watch(core, self, &live);
        if let Err(error) = self.begin(&live, begin).await {
            self.halt().await?;
            return Err(error);
        }
        self.update(core, |record| {
            // One that has ended already keeps the reason why.
            if record.running && begin.runs() {
                record.starts += 1;
                record.fault.clear();
            }
        })?;
        tokio::spawn(hold(permit, self.clone()));
        Ok(())
    }

    /// Gives the machine, which must be off, what waited for that.
    pub(crate) async fn apply_pending(&self, core: &Core) -> Result<()> {
        let before = self.copy();
        let target = before.wanted().clone();
        super::reconfigure::fit_disks(core, self, &before, &target).await?;
        self.keep(|record| {
            if record.pending == before.pending {
                record.hardware = target;
                record.pending = None;
            }
            record.plugged = Plugged::default();
        })
    }

    async fn arguments(&self, core: &Core, record: &Record) -> Result<Vec<std::ffi::OsString>> {
        let context = cmdline::Context {
            accel: core.emulator().await?.accel,
            firmware: firmware::find(&core.config, record.firmware)?.map(|files| files.code),
            taps: network::make_taps(core, record).await?,
        };
        Ok(cmdline::arguments(record, &context))
    }

    /// The user that QEMU runs as may be another one than it was when the VM was made.
    fn give_files(&self, core: &Core, record: &Record) -> Result<()> {
        core.user.give(&self.dir.run(), 0o700)?;
        let first_boot = [Record::SEED, Record::IGNITION].map(str::to_owned);
        let files = crate::snapshot::files(record).into_iter().chain(first_boot);
        for file in files.filter(|file| self.dir.file(file).exists()) {
            core.user.give(&self.dir.file(&file), 0o600)?;
        }
        Ok(())
    }

    fn clear_sockets(&self) {
        for name in cmdline::SOCKETS {
            // One that is not there is no trouble, and one that stays makes QEMU say so.
            let _ = std::fs::remove_file(self.dir.file(name));
        }
    }

    /// Starts QEMU. One that an earlier life of the provider started, and that had not come up when it was looked for, holds
    /// the VM's files: it is ended, and the start tried again.
    async fn launch_alone(&self, core: &Core, arguments: &[std::ffi::OsString]) -> Result<Live> {
        let deadline = Instant::now() + KILLED;
        loop {
            let error = match self.launch(core, arguments).await {
                Ok(live) => return Ok(live),
                Err(error) => error,
            };
            let crowded = error.message.contains(HELD_BY_ANOTHER);
            if !crowded || Instant::now() > deadline {
                return Err(error);
            }
            self.end_stray().await?;
            tokio::time::sleep(STRAY_PAUSE).await;
        }
    }

    /// Starts QEMU, waits for its monitor, and takes hold of the serial port before the first instruction.
    async fn launch(&self, core: &Core, arguments: &[std::ffi::OsString]) -> Result<Live> {
        let process = process::spawn(&core.config, &core.user, &self.dir, arguments)?;
        let folder = self.dir.open_run()?;
        let qmp = tokio::select! {
            qmp = monitor_of(&folder) => qmp,
            () = process.gone() => return Err(process::start_failure(&process, &self.dir).await),
            () = tokio::time::sleep(READY) => {
                process.kill();
                return Err(ProviderError::new(ErrorKind::Timeout, "QEMU has not come up in time"));
            }
        };
        match Serial::attach(&folder, &self.dir).await {
            Ok(serial) => Ok(Live::new(qmp, process, serial)),
            Err(error) => {
                process.kill();
                process.gone().await;
                Err(error)
            }
        }
    }

    async fn failed_start(
        &self,
        core: &Core,
        record: &Record,
        error: ProviderError,
    ) -> ProviderError {
        network::remove_taps(core, record).await;
        let message = error.message.clone();
        let known = self.record(|record| record.fault == message);
        let failed = |record: &mut Record| {
            record.running = false;
            record.fault = message;
        };
        // The same failure once more is no news: news of a VM makes the manager look at it.
        let kept = if known {
            self.keep(failed)
        } else {
            self.update(core, failed)
        };
        kept.err().unwrap_or(error)
    }

    async fn begin(&self, live: &Live, begin: Begin<'_>) -> Result<()> {
        if let Begin::Snapshot(tag) = begin {
            let nodes = crate::snapshot::nodes(&self.copy());
            let job = json!({"job-id": "load", "tag": tag, "vmstate": "root", "devices": nodes});
            live.qmp
                .run_job("snapshot-load", "load", job, |_| ())
                .await?;
        }
        if begin.runs() {
            live.qmp.ask("cont").await?;
        }
        Ok(())
    }

    /// Ends QEMU, politely first. Nothing to do if none runs.
    pub(crate) async fn halt(&self) -> Result<()> {
        let Some(live) = self.live() else {
            self.end_stray().await?;
            self.stopped().await;
            return Ok(());
        };
        live.set_ending();
        // A QEMU that does not listen is killed below.
        let _ = tokio::time::timeout(QUIT, live.qmp.ask("quit")).await;
        if !live.process.gone_within(QUIT).await {
            live.process.kill();
        }
        is_gone(&live.process).await?;
        self.stopped().await;
        Ok(())
    }

    /// Ends a QEMU of this VM whose monitor does not answer. The process is known by the UUID in its arguments.
    async fn end_stray(&self) -> Result<()> {
        let pid = std::fs::read_to_string(self.dir.file("qemu.pid")).unwrap_or_default();
        let Ok(pid) = pid.trim().parse::<i32>() else {
            return Ok(());
        };
        let Ok(process) = Process::adopt(pid) else {
            return Ok(());
        };
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if !String::from_utf8_lossy(&line).contains(&self.uuid().to_string()) {
            return Ok(());
        }
        process.kill();
        is_gone(&process).await
    }
}

async fn is_gone(process: &Process) -> Result<()> {
    if process.gone_within(KILLED).await {
        return Ok(());
    }
    let message = format!(
        "QEMU (process {}) cannot be ended; the host may be in trouble",
        process.pid()
    );
    Err(ProviderError::new(ErrorKind::Timeout, message))
}

async fn monitor_of(folder: &OpenDir) -> Qmp {
    let path = folder.join(cmdline::QMP_SOCKET);
    loop {
        match Qmp::connect(&path).await {
            Ok(qmp) => return qmp,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Keeps the place among the starting VMs until the guest has come up.
async fn hold(permit: OwnedSemaphorePermit, vm: Arc<Vm>) {
    let up = async {
        while vm.live().is_some() && !vm.agent_is_open() {
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    };
    let _ = tokio::time::timeout(SETTLE, up).await;
    drop(permit);
}
