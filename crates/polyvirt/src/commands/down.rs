//! `polyvirt down`: stops what `polyvirt up` started, VMs included.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::future::join_all;
use polyvirt_contract::Provider as _;
use polyvirt_contract::model::{PowerOp, PowerState, VmRef, VmState};
use polyvirt_provider_qemu::{Qemu, QemuConfig};
use polyvirt_testkit::Component;
use polyvirt_testkit::detached::Detached;
use polyvirt_testkit::local::{self, FolderLock};
use polyvirt_testkit::proc::{Found, processes_in};
use rustix::process::{Pid, Signal, kill_process};

use super::up::options::DownOptions;
use super::up::progress::{Done, Progress};
use super::up::sample::qemu_endpoint;
use super::up::stopped;
use super::up::{clusters, controllers, libvirt, manager};

/// Programs that providers start for VMs, by the beginnings of their names.
const OF_VMS: &[&str] = &["qemu-", "swtpm"];
const KILL_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);

/// Stops everything in the folder, and removes it if asked to.
pub async fn run(options: DownOptions) -> anyhow::Result<()> {
    let progress = Progress::new();
    let folder = options.folder.path()?;
    if !folder.exists() {
        progress.line(&format!("Nothing in {}", folder.display()));
        return Ok(());
    }
    let lock = FolderLock::take(&folder)?;
    let folder = lock.folder().to_owned();
    progress.line(&format!("Polyvirt in {}", folder.display()));
    // The manager first: it would start again what is stopped.
    stop(&progress, &folder, manager::NAME, manager::GRACE).await?;
    stop_vms(&progress, &folder, options.grace).await?;
    libvirt::stop(&progress, &folder, options.grace).await?;
    clusters::stop(&progress, &folder).await?;
    stop(&progress, &folder, controllers::NAME, controllers::GRACE).await?;
    for component in [Component::ApiServer, Component::Etcd] {
        stop(&progress, &folder, component.name(), local::GRACE).await?;
    }
    if options.purge {
        purge(&progress, &folder, lock)?;
    }
    Ok(())
}

async fn stop(
    progress: &Progress,
    folder: &Path,
    name: &str,
    grace: Duration,
) -> anyhow::Result<()> {
    let work = async {
        let Some(process) = Detached::find(folder, name)? else {
            return Ok(((), Done::new("absent", "")));
        };
        let detail = format!("process {}", process.pid());
        process.stop(grace).await?;
        Ok(((), Done::new("stopped", detail)))
    };
    progress.step(name, work).await
}

/// Asks guests to shut down, then QEMU to end, then the kernel to end it.
async fn stop_vms(progress: &Progress, folder: &Path, grace: Duration) -> anyhow::Result<()> {
    let work = async {
        let before = processes_in(folder, OF_VMS).len();
        if before > 0 {
            shut_down_guests(folder, grace).await;
        }
        let left = processes_in(folder, OF_VMS);
        end(folder, &left).await?;
        let detail = match (before, left.len()) {
            (0, _) => String::new(),
            (all, 0) => format!("{all} shut down"),
            (all, hard) => format!(
                "{} shut down, {hard} switched off",
                all.saturating_sub(hard)
            ),
        };
        let word = if before == 0 { "none" } else { "stopped" };
        Ok(((), Done::new(word, detail)))
    };
    progress.step("VMs", work).await
}

/// Best effort: what does not work here is ended by signals.
async fn shut_down_guests(folder: &Path, grace: Duration) {
    if let Err(error) = ask_guests(folder, grace).await {
        tracing::debug!(%error, "guests could not be asked to shut down");
    }
    let begin = Instant::now();
    while begin.elapsed() < grace && !processes_in(folder, OF_VMS).is_empty() {
        tokio::time::sleep(POLL).await;
    }
}

async fn ask_guests(folder: &Path, grace: Duration) -> anyhow::Result<()> {
    let qemu = Qemu::open(QemuConfig::from_url(&qemu_endpoint(folder))?).await?;
    let mut running = qemu.list_vms().await?;
    running.retain(|vm| vm.power != PowerState::Off);
    stopped::remember(folder, &running)?;
    let asked = running.into_iter().map(|vm| shut_down(&qemu, vm, grace));
    let _ = tokio::time::timeout(grace, join_all(asked)).await;
    Ok(())
}

async fn shut_down(qemu: &Qemu, vm: VmState, grace: Duration) {
    let vm = VmRef {
        id: vm.id,
        owner: vm.owner,
    };
    let shutdown = PowerOp::ShutdownGraceful { timeout: grace };
    if let Err(error) = qemu.power(&vm, shutdown.into()).await {
        tracing::debug!(%error, id = %vm.id, "a guest could not be asked to shut down");
    }
}

async fn end(folder: &Path, processes: &[Found]) -> anyhow::Result<()> {
    for signal in [Signal::TERM, Signal::KILL] {
        send(processes, signal);
        let begin = Instant::now();
        while begin.elapsed() < KILL_LIMIT {
            if processes_in(folder, OF_VMS).is_empty() {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    }
    let left: Vec<_> = processes_in(folder, OF_VMS)
        .iter()
        .map(ToString::to_string)
        .collect();
    bail!(
        "These do not end: {}. End them by hand, then run this again",
        left.join(", ")
    )
}

/// A process that is gone already is what we want.
fn send(processes: &[Found], signal: Signal) {
    let pids = processes
        .iter()
        .filter_map(|found| i32::try_from(found.pid).ok().and_then(Pid::from_raw));
    pids.for_each(|pid| {
        let _ = kill_process(pid, signal);
    });
}

/// Refuses a folder that is not ours.
fn purge(progress: &Progress, folder: &Path, lock: FolderLock) -> anyhow::Result<()> {
    if !folder.join("pki").is_dir() {
        bail!(
            "{} does not look like a folder of polyvirt up: remove it by hand",
            folder.display()
        );
    }
    std::fs::remove_dir_all(folder)
        .with_context(|| format!("Cannot remove {}", folder.display()))?;
    drop(lock);
    progress.line(&format!("  {} is removed", folder.display()));
    Ok(())
}
