//! `polyvirt up`: a control plane, the manager and a first VM on this machine, all of which stay when the command ends.
//!
//! ```text
//!   folder ──► etcd ──► kube-apiserver ──► CRDs ──► hypervisors beside ──► manager ──► sample ──► the guest has booted
//! ```
//!
//! Each step looks at what is there first, so that a second run repairs and changes nothing else.

pub mod catalogue;
pub mod clusters;
mod first_look;
mod guest;
mod hints;
mod image;
mod import;
pub mod libvirt;
pub mod manager;
pub mod options;
pub mod progress;
mod roles;
pub mod sample;
pub mod stopped;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use kube::Client;
use kube::api::DynamicObject;
use polyvirt_testkit::detached::{Detached, Started};
use polyvirt_testkit::install_crds;
use polyvirt_testkit::local::LocalPlane;
use serde_json::Value;

use first_look::FirstLook;
use guest::Outcome;
use hints::hints;
use image::Image;
use options::{Hypervisor, Options, Ports};
use progress::{Done, Progress};

use super::vm::{Cluster, last_lines, plain};
use crate::cli::Global;

const CONSOLE_LINES: usize = 8;
const CONSOLE_LIMIT: Duration = Duration::from_secs(15);

/// Brings everything up, and shows how. The manager logs as this command was told to.
pub async fn run(options: Options, logs: &Global) -> anyhow::Result<()> {
    let progress = Progress::new();
    let image = options.image()?;
    let folder = options.folder.path()?;
    let ports = Ports::remembered(&folder).with(&options.ports);
    progress.line(&format!("Polyvirt in {}", folder.display()));
    let plane = LocalPlane::open(&folder, ports.control_plane()).await?;
    let_vms_pass(plane.folder())?;
    ports.remember(plane.folder())?;
    let started = everything(&progress, &plane, ports, logs, &options).await;
    let Everything {
        client,
        manager,
        beside,
    } = started.map_err(with_flags)?;
    clusters::introduce_all(&client, &beside.clusters).await?;
    let more = if beside.clusters.is_empty() {
        String::new()
    } else {
        clusters::hints()
    };
    let libvirt = beside.libvirt.as_ref();
    if options.no_sample {
        let more = more + &with_libvirt(&progress, &plane, &client, libvirt, None).await?;
        progress.line(&format!("{}{more}", hints(&plane.kubeconfig_path(), None)));
        return Ok(());
    }
    let objects = declare(&progress, &client, &plane, &options, image).await?;
    let vm = sample::name_of(&objects, "VirtualMachine")?;
    let look = FirstLook::of(manager, ports);
    boot(&progress, &client, &vm, look, options.timeout).await?;
    let look = Some((look, options.timeout));
    let more = more + &with_libvirt(&progress, &plane, &client, libvirt, look).await?;
    let hints = hints(&plane.kubeconfig_path(), Some(&vm));
    progress.line(&format!("{hints}{more}"));
    Ok(())
}

/// The libvirt beside, with a VM of its own if there is an image for one. What to try with it.
async fn with_libvirt(
    progress: &Progress,
    plane: &LocalPlane,
    client: &Client,
    daemon: Option<&libvirt::Daemon>,
    look: Option<(FirstLook, Duration)>,
) -> anyhow::Result<String> {
    let Some(daemon) = daemon else {
        return Ok(String::new());
    };
    let vm = libvirt::introduce(progress, plane.folder(), client, daemon).await?;
    if let (Some(vm), Some((look, limit))) = (&vm, look) {
        boot(progress, client, vm, look, limit).await?;
    }
    Ok(libvirt::hints(vm.as_deref()))
}

/// What runs whether or not there are VMs.
struct Everything {
    client: Client,
    manager: Started,
    beside: Beside,
}

/// The hypervisors that were asked for beside QEMU.
struct Beside {
    clusters: Vec<clusters::Running>,
    libvirt: Option<libvirt::Daemon>,
}

/// The hypervisors are started before the manager: one that an earlier run has declared would count as unhealthy until they answer.
async fn everything(
    progress: &Progress,
    plane: &LocalPlane,
    ports: Ports,
    logs: &Global,
    options: &Options,
) -> anyhow::Result<Everything> {
    let client = control_plane(progress, plane, ports).await?;
    stopped::start_again(progress, plane.folder()).await?;
    let beside = start_beside(progress, plane.folder(), ports, options).await?;
    let manager = run_manager(progress, plane, ports, logs).await?;
    Ok(Everything {
        client,
        manager,
        beside,
    })
}

async fn start_beside(
    progress: &Progress,
    folder: &Path,
    ports: Ports,
    options: &Options,
) -> anyhow::Result<Beside> {
    let clusters = if clusters::wanted(&options.with, folder) {
        clusters::start(progress, folder, ports).await?
    } else {
        Vec::new()
    };
    let libvirt = if libvirt::wanted(&options.with, folder) {
        Some(libvirt::start(progress, folder).await?)
    } else {
        None
    };
    Ok(Beside { clusters, libvirt })
}

/// Whoever meets a port that is taken wants to know how to choose another one.
fn with_flags(error: anyhow::Error) -> anyhow::Error {
    let Some(polyvirt_testkit::Error::PortTaken { name, .. }) = error.downcast_ref() else {
        return error;
    };
    let flags = match name.as_str() {
        "etcd" => "--etcd-port",
        "kube-apiserver" => "--api-port",
        _ => "--gateway-port, --webhook-port, --metrics-port or --health-port",
    };
    anyhow::anyhow!("{error} with {flags}")
}

/// VMs of root run as another user, who must be able to pass through this folder to its own. Nobody can list it, and all
/// that is secret in it is closed by itself.
fn let_vms_pass(folder: &Path) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    std::fs::set_permissions(folder, Permissions::from_mode(0o711))
        .with_context(|| format!("Cannot set the permissions of {}", folder.display()))
}

async fn control_plane(
    progress: &Progress,
    plane: &LocalPlane,
    ports: Ports,
) -> anyhow::Result<Client> {
    let etcd = async {
        let started = plane.start_etcd().await?;
        let address = format!("127.0.0.1:{}", ports.etcd);
        Ok(((), told(&started, "started", &address)))
    };
    progress.step("etcd", etcd).await?;
    let apiserver = async {
        let started = plane.start_apiserver().await?;
        Ok(((), told(&started, "ready", &plane.url())))
    };
    progress.step("kube-apiserver", apiserver).await?;
    let client = plane.client()?;
    let definitions = polyvirt_api::crds();
    let crds = async {
        install_crds(&client, &definitions).await?;
        let detail = format!("{} kinds", definitions.len());
        Ok(((), Done::new("applied", detail)))
    };
    progress.step("resource definitions", crds).await?;
    let roles = async {
        let count = roles::apply(&client).await?;
        let detail = format!("{count} roles for consoles and commands in guests");
        Ok(((), Done::new("applied", detail)))
    };
    progress.step("roles", roles).await?;
    let catalogue = async {
        let count = catalogue::apply(&client).await?;
        let detail = format!("{count} names for marketplace:// of novacron.io");
        Ok(((), Done::new("applied", detail)))
    };
    progress.step("image catalogue", catalogue).await?;
    Ok(client)
}

async fn run_manager(
    progress: &Progress,
    plane: &LocalPlane,
    ports: Ports,
    logs: &Global,
) -> anyhow::Result<Started> {
    let work = async {
        let kubeconfig = plane.kubeconfig_path();
        let started = manager::start(plane.folder(), &kubeconfig, ports, logs).await?;
        let metrics = format!("http://127.0.0.1:{}/metrics", ports.metrics);
        Ok((started.1, told(&started, "ready", &metrics)))
    };
    progress.step("manager", work).await
}

/// Declares the first VM and what it needs, and returns when its image is there.
async fn declare(
    progress: &Progress,
    client: &Client,
    plane: &LocalPlane,
    options: &Options,
    image: Option<Image>,
) -> anyhow::Result<Vec<DynamicObject>> {
    let bare = sample::objects(options.provider, plane.folder(), None)?;
    if options.provider == Hypervisor::Mock {
        return apply(progress, client, bare).await;
    }
    let name = sample::name_of(&bare, "VMImage")?;
    let vm = sample::name_of(&bare, "VirtualMachine")?;
    let source = choose_image(progress, client, plane.folder(), image, &name, &vm).await?;
    let objects = sample::objects(options.provider, plane.folder(), source.as_ref())?;
    let objects = apply(progress, client, objects).await?;
    if source.is_some_and(|source| source.get("http").is_some()) {
        let imported = import::until_ready(progress, client, &name, options.timeout);
        progress.step("import", imported).await?;
    }
    Ok(objects)
}

async fn apply(
    progress: &Progress,
    client: &Client,
    objects: Vec<DynamicObject>,
) -> anyhow::Result<Vec<DynamicObject>> {
    let work = async {
        let made = sample::create_missing(client, &objects).await?;
        let detail = format!("{made} of {} objects were missing", objects.len());
        Ok(((), Done::new("declared", detail)))
    };
    progress.step("sample", work).await?;
    Ok(objects)
}

async fn boot(
    progress: &Progress,
    client: &Client,
    vm: &str,
    look: FirstLook,
    limit: Duration,
) -> anyhow::Result<()> {
    let booted = guest::until_booted(progress, client, vm, look, limit);
    if progress.step(&format!("VM {vm}"), booted).await? == Outcome::Booted {
        show_console(progress, client, vm).await;
    }
    Ok(())
}

/// The source of the VMImage: that which the user names, else that of the VMImage which is there, else the file of an
/// earlier run. `None` to leave a VMImage as it is.
async fn choose_image(
    progress: &Progress,
    client: &Client,
    folder: &Path,
    image: Option<Image>,
    name: &str,
    vm: &str,
) -> anyhow::Result<Option<Value>> {
    let mut warning = None;
    let work = async {
        let there = import::find(client, name).await?;
        let image = match (image, &there) {
            (Some(image), _) => image,
            (None, Some(_)) => {
                let detail = format!("that of VMImage {name}");
                return Ok((None, Done::new("there", detail)));
            }
            (None, None) => Image::kept(folder)?,
        };
        let (kept, copied) = image.keep(folder).await?;
        let (source, detail) = (kept.source()?, kept.public());
        if let Some(there) = there {
            warning = import::follow(client, &there, &source, vm, copied).await?;
        }
        let word = if kept.is_file() { "there" } else { "named" };
        Ok((Some(source), Done::new(word, detail)))
    };
    let source = progress.step("image", work).await?;
    if let Some(text) = warning {
        progress.line(&format!("    {text}"));
    }
    Ok(source)
}

/// The last lines of the serial console. A VM that is off has none.
async fn show_console(progress: &Progress, client: &Client, vm: &str) {
    let cluster = Cluster {
        client: client.clone(),
        namespace: "default".to_owned(),
        server: "127.0.0.1".to_owned(),
    };
    let begin = Instant::now();
    // The API server finds a new gateway within seconds.
    let lines = loop {
        match last_lines(&cluster, vm, CONSOLE_LINES).await {
            Ok(lines) => break lines,
            Err(error) if begin.elapsed() > CONSOLE_LIMIT => {
                return progress.line(&format!("    (no console: {error:#})"));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(300)).await,
        }
    };
    for line in lines.lines() {
        progress.line(&format!("    | {}", plain(line).trim_end()));
    }
}

pub(crate) fn told(
    (process, started): &(Detached, Started),
    word: &'static str,
    detail: &str,
) -> Done {
    let pid = process.pid();
    match started {
        Started::Now => Done::new(word, format!("{detail} (process {pid})")),
        Started::Before => Done::new("runs", format!("{detail} (process {pid})")),
    }
}
