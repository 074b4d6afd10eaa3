//! A real control plane, the manager, and the QEMU provider, each a process of its own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::future::try_join_all;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use polyvirt_api::infra::VirtualMachine;
use polyvirt_testkit::{ControlPlane, install_crds};
use rustix::process::{Pid, Signal, kill_process};

use super::{LIMIT, POLL, READY, objects};
use crate::commands::bench::lab::{client, create, declare};
use crate::commands::bench::manager::Manager;
use crate::commands::bench::objects::NAMESPACE;
use crate::commands::bench::running::{Running, free_address};
use crate::commands::bench::screen::Screen;

/// What a provider does after its last VM has started: nothing, after this time.
const REST: Duration = Duration::from_secs(3);

/// Everything that guests are measured with.
pub struct GuestLab {
    manager: Manager,
    pub provider: Running,
    client: Client,
    screen: Screen,
    _plane: ControlPlane,
    folder: tempfile::TempDir,
}

impl GuestLab {
    /// Starts everything; the images are not prepared yet.
    pub async fn start(image: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("Cannot make a temporary folder")?;
        tracing::info!("starting etcd, kube-apiserver and the QEMU provider");
        let plane = ControlPlane::builder().start().await?;
        let client = client(&plane)?;
        install_crds(&client, &polyvirt_api::crds()).await?;
        let blank = folder.path().join("blank.qcow2");
        qemu_img(&["create", "-q", "-f", "qcow2"], &blank, Some("1M"))?;
        let (provider, address) = start_provider(folder.path(), image).await?;
        let surroundings = objects::surroundings(&address, image, &blank);
        declare(&client, &[NAMESPACE], surroundings).await?;
        let log = folder.path().join("manager.log");
        let manager = Manager::start(&plane.kubeconfig_path(), NAMESPACE, log).await?;
        let screen = Screen::open(client.clone(), NAMESPACE);
        Ok(Self {
            manager,
            provider,
            client,
            screen,
            _plane: plane,
            folder,
        })
    }

    /// Where the provider keeps its VMs and images.
    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// The folder of the only VM, when it is there.
    pub fn vm_folder(&self) -> Option<PathBuf> {
        let folders = std::fs::read_dir(self.state().join("vms")).ok()?;
        folders.flatten().map(|entry| entry.path()).next()
    }

    fn vms(&self) -> Api<VirtualMachine> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Declares a VM; the time until its guest says that it is ready.
    pub async fn boot(&self, name: &str) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        create(&self.vms(), &objects::vm("guest", name)).await?;
        until("the guest is ready", || {
            let said = self
                .vm_folder()
                .map(|vm| std::fs::read(vm.join("console.log")));
            said.is_some_and(|said| said.is_ok_and(|said| is_ready(&said)))
        })
        .await?;
        Ok(begin.elapsed())
    }

    /// Declares so many VMs that have nothing to boot from, and returns when all run and nothing moves any more.
    pub async fn run_idle(&self, vms: usize) -> anyhow::Result<()> {
        let names: Vec<_> = (0..vms).map(|number| format!("idle-{number}")).collect();
        let api = self.vms();
        let creates = names.iter().map(async |name| {
            let vm = objects::vm("blank", name);
            create(&api, &vm).await.map(drop)
        });
        try_join_all(creates).await?;
        let all_ready = |picture: &crate::commands::bench::screen::Picture| {
            names.iter().all(|name| picture.vm(name).ready)
        };
        self.screen.until("all VMs run", LIMIT, all_ready).await?;
        tokio::time::sleep(REST).await;
        Ok(())
    }

    /// Deletes all VMs, and returns when nothing is left of them.
    pub async fn delete_all(&self) -> anyhow::Result<()> {
        let (delete, all) = (DeleteParams::default(), ListParams::default());
        self.vms().delete_collection(&delete, &all).await?;
        until("all VMs are gone", || self.vm_folder().is_none()).await
    }

    /// The ends of the logs.
    pub fn last_words(&self) -> String {
        format!(
            "The log of the manager ends with:\n{}\nThat of the provider:\n{}",
            self.manager.process.last_words(),
            self.provider.last_words()
        )
    }
}

/// VMs outlive their provider; those of a bench that failed must not outlive the bench.
impl Drop for GuestLab {
    fn drop(&mut self) {
        let vms = std::fs::read_dir(self.state().join("vms"))
            .into_iter()
            .flatten();
        for vm in vms.flatten() {
            end(&vm.path());
        }
    }
}

/// Ends the QEMU of a VM; it is known by the UUID in its arguments, which is the name of the folder.
fn end(vm: &Path) {
    let pid = std::fs::read_to_string(vm.join("run/qemu.pid")).unwrap_or_default();
    let line = std::fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
    let uuid = vm.file_name().unwrap_or_default().to_string_lossy();
    let pid = pid.trim().parse().ok().and_then(Pid::from_raw);
    if let Some(pid) = pid.filter(|_| String::from_utf8_lossy(&line).contains(&*uuid)) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

pub fn is_ready(said: &[u8]) -> bool {
    said.windows(READY.len()).any(|piece| piece == READY)
}

/// Looks until it is so.
async fn until(what: &str, is_so: impl Fn() -> bool) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() > LIMIT {
            bail!("Not seen within {} s: {what}", LIMIT.as_secs());
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Runs `qemu-img` on a file.
pub fn qemu_img(words: &[&str], file: &Path, size: Option<&str>) -> anyhow::Result<()> {
    let mut command = std::process::Command::new("qemu-img");
    let output = command.args(words).arg(file).args(size).output();
    let output = output.context("Cannot run qemu-img")?;
    if !output.status.success() {
        bail!(
            "qemu-img: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

/// The provider and its address. It takes images from the folder and from where the image is.
async fn start_provider(folder: &Path, image: &Path) -> anyhow::Result<(Running, String)> {
    let (address, probes) = (free_address().await?, free_address().await?);
    let images = image.parent().unwrap_or(image);
    let endpoint = format!(
        "qemu://{0}/state?maxStarts=20&imageDir={0}&imageDir={1}",
        folder.display(),
        images.display()
    );
    let words = [
        ("--endpoint", endpoint),
        ("--bind", address.ip().to_string()),
        ("--port", address.port().to_string()),
        ("--health-port", probes.port().to_string()),
        ("--tls-dir", folder.join("no-tls").display().to_string()),
    ];
    let pairs = words
        .into_iter()
        .flat_map(|(flag, value)| [flag.to_owned(), value]);
    let mut arguments = ["provider", "qemu", "--insecure"]
        .map(str::to_owned)
        .to_vec();
    arguments.extend(pairs);
    let log = folder.join("provider.log");
    let running = Running::start("provider", &arguments, probes, log).await?;
    Ok((running, address.to_string()))
}
