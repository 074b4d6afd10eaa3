//! A QEMU process: started in its own process group, watched by a handle that no other process can take over.

use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use polyvirt_contract::{ProviderError, Result};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::Child;
use tokio::sync::watch;

use crate::accel;
use crate::config::QemuConfig;
use crate::errors;
use crate::run_as::RunAs;
use crate::state::{OpenDir, VmDir};

/// How much of QEMU's words are read to say why it failed.
const LOG_TAIL: usize = 4096;

/// A process, ours or of an earlier life of the provider.
#[derive(Debug)]
pub(crate) struct Process {
    handle: AsyncFd<OwnedFd>,
    pid: i32,
    /// How it ended, if it is a child of ours.
    status: watch::Receiver<Option<ExitStatus>>,
}

impl Process {
    /// Takes hold of a running process.
    pub(crate) fn adopt(pid: i32) -> std::io::Result<Self> {
        Self::hold(pid, watch::channel(None).1)
    }

    #[allow(
        deprecated,
        reason = "the other way is unsafe code; an owned handle cannot change under the reactor, which is all it guards against"
    )]
    fn hold(pid: i32, status: watch::Receiver<Option<ExitStatus>>) -> std::io::Result<Self> {
        let known = Pid::from_raw(pid).ok_or(std::io::ErrorKind::InvalidInput)?;
        let handle = pidfd_open(known, PidfdFlags::NONBLOCK)?;
        let handle = AsyncFd::with_interest(handle, Interest::READABLE)?;
        Ok(Self {
            handle,
            pid,
            status,
        })
    }

    pub(crate) const fn pid(&self) -> i32 {
        self.pid
    }

    /// Ends when the process has.
    pub(crate) async fn gone(&self) {
        // The handle becomes readable once and stays so; an error of the reactor would say the same.
        let _ = self.handle.readable().await;
    }

    /// Waits for the end; false if it has not come in time.
    pub(crate) async fn gone_within(&self, limit: Duration) -> bool {
        tokio::time::timeout(limit, self.gone()).await.is_ok()
    }

    /// Ends the process at once; one that has ended is left alone.
    pub(crate) fn kill(&self) {
        let _ = pidfd_send_signal(self.handle.get_ref(), Signal::KILL);
    }

    /// How the process ended, in words; empty if nobody knows, because it was not our child.
    pub(crate) async fn last_words(&self) -> String {
        let mut status = self.status.clone();
        let known = tokio::time::timeout(Duration::from_secs(1), status.wait_for(Option::is_some));
        match known.await {
            Ok(Ok(status)) => status.map(words).unwrap_or_default(),
            _ => String::new(),
        }
    }
}

fn words(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("it was ended by signal {signal}"),
        (None, Some(code)) => format!("it ended with code {code}"),
        (None, None) => String::new(),
    }
}

/// Starts QEMU in the VM's folder. It does not end with the provider.
pub(crate) fn spawn(
    config: &QemuConfig,
    user: &RunAs,
    dir: &VmDir,
    arguments: &[std::ffi::OsString],
) -> Result<Process> {
    let folder: OpenDir = dir.open_run()?;
    let log_path = dir.qemu_log();
    let log = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&log_path)
        .map_err(|error| errors::file("Opening QEMU's log", &log_path, &error))?;
    let mut command = user.accelerated(&config.emulator);
    command
        .args(arguments)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::from(log))
        .process_group(0);
    let child = command
        .spawn()
        .map_err(|error| accel::missing(&config.emulator, &error))?;
    watched(child)
}

/// Waits for the child in the background, so that nothing is left of it when it ends.
fn watched(mut child: Child) -> Result<Process> {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let (sender, status) = watch::channel(None);
    let process = pid
        .ok_or_else(|| errors::internal("QEMU ended before it could be looked at"))
        .and_then(|pid| {
            Process::hold(pid, status)
                .map_err(|error| errors::internal(format!("QEMU cannot be watched: {error}")))
        });
    tokio::spawn(async move {
        let ended = child.wait().await;
        // Nobody may wait for the answer.
        let _ = sender.send(ended.ok());
    });
    process
}

/// Why QEMU ended before it had come up: what it said last, or else how it ended.
pub(crate) async fn start_failure(process: &Process, dir: &VmDir) -> ProviderError {
    let log = std::fs::read(dir.qemu_log()).unwrap_or_default();
    let tail = log
        .get(log.len().saturating_sub(LOG_TAIL)..)
        .unwrap_or(&log);
    let mut said = String::from_utf8_lossy(tail).replace("qemu-system-x86_64: ", "");
    if said.trim().is_empty() {
        said = process.last_words().await;
    }
    errors::program("The start of QEMU", &said)
}
