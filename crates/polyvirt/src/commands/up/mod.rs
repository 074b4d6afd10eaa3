//! `polyvirt up`: a control plane, the manager and a first VM on this machine, all of which stay when the command ends.
//!
//! ```text
//!   folder ──► etcd ──► kube-apiserver ──► CRDs ──► manager ──► sample ──► the guest has booted
//! ```
//!
//! Each step looks at what is there first, so that a second run repairs and changes nothing else.

pub mod guest;
pub mod manager;
pub mod options;
pub mod progress;
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

use guest::Outcome;
use options::{Hypervisor, Options, Ports};
use progress::{Done, Progress};
use sample::Image;

use super::vm::{Cluster, last_lines};

const CONSOLE_LINES: usize = 8;
/// A manager that has just begun needs this long to look at its VMs.
const FIRST_LOOK: Duration = Duration::from_secs(3);
const CONSOLE_LIMIT: Duration = Duration::from_secs(15);

/// Brings everything up, and shows how.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let progress = Progress::new();
    let image = options.image.as_deref().map(Image::parse).transpose()?;
    let folder = options.folder.path()?;
    let ports = Ports::remembered(&folder).with(&options.ports);
    progress.line(&format!("Polyvirt in {}", folder.display()));
    let plane = LocalPlane::open(&folder, ports.control_plane()).await?;
    let_vms_pass(plane.folder())?;
    ports.remember(plane.folder())?;
    let started = everything(&progress, &plane, ports).await;
    let (client, manager) = started.map_err(with_flags)?;
    if options.no_sample {
        progress.line(&hints(&plane.kubeconfig_path(), None));
        return Ok(());
    }
    let objects = declare(&progress, &client, &plane, &options, image).await?;
    if manager == Started::Now {
        // What is said of VMs is still from the last manager.
        tokio::time::sleep(FIRST_LOOK).await;
    }
    let vm = sample::vm_name(&objects).context("The sample has no VirtualMachine")?;
    boot(&progress, &client, &vm, options.timeout).await?;
    progress.line(&hints(&plane.kubeconfig_path(), Some(&vm)));
    Ok(())
}

/// What runs whether or not there are VMs.
async fn everything(
    progress: &Progress,
    plane: &LocalPlane,
    ports: Ports,
) -> anyhow::Result<(Client, Started)> {
    let client = control_plane(progress, plane, ports).await?;
    stopped::start_again(progress, plane.folder()).await?;
    let manager = run_manager(progress, plane, ports).await?;
    Ok((client, manager))
}

/// Whoever meets a port that is taken wants to know how to choose another one.
fn with_flags(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<polyvirt_testkit::Error>() {
        Some(polyvirt_testkit::Error::PortTaken { .. }) => anyhow::anyhow!(
            "{error} (--api-port, --etcd-port, --gateway-port, --metrics-port, --health-port)"
        ),
        _ => error,
    }
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
        let detail = format!("{} kinds of infra.virtrigaud.io", definitions.len());
        Ok(((), Done::new("applied", detail)))
    };
    progress.step("resource definitions", crds).await?;
    Ok(client)
}

async fn run_manager(
    progress: &Progress,
    plane: &LocalPlane,
    ports: Ports,
) -> anyhow::Result<Started> {
    let work = async {
        let started = manager::start(plane.folder(), &plane.kubeconfig_path(), ports).await?;
        let metrics = format!("http://127.0.0.1:{}/metrics", ports.metrics);
        Ok((started.1, told(&started, "ready", &metrics)))
    };
    progress.step("manager", work).await
}

/// Declares the first VM and what it needs.
async fn declare(
    progress: &Progress,
    client: &Client,
    plane: &LocalPlane,
    options: &Options,
    image: Option<Image>,
) -> anyhow::Result<Vec<DynamicObject>> {
    let image = match (options.provider, image) {
        (Hypervisor::Qemu, image) => Some(keep_image(progress, plane.folder(), image).await?),
        (Hypervisor::Mock, image) => image,
    };
    let objects = sample::objects(options.provider, plane.folder(), image.as_ref())?;
    let apply = async {
        let made = sample::create_missing(client, &objects).await?;
        let detail = format!("{made} of {} objects were missing", objects.len());
        Ok(((), Done::new("declared", detail)))
    };
    progress.step("sample", apply).await?;
    Ok(objects)
}

async fn boot(
    progress: &Progress,
    client: &Client,
    vm: &str,
    limit: Duration,
) -> anyhow::Result<()> {
    let booted = guest::until_booted(progress, client, vm, limit);
    if progress.step(&format!("VM {vm}"), booted).await? == Outcome::Booted {
        show_console(progress, client, vm).await;
    }
    Ok(())
}

/// A file is copied into our folder, so that it stays; without one the copy of an earlier run is used.
async fn keep_image(
    progress: &Progress,
    folder: &Path,
    image: Option<Image>,
) -> anyhow::Result<Image> {
    let work = async {
        let kept = sample::keep(folder, image).await?;
        let detail = match &kept {
            Image::File(path) => path.display().to_string(),
            Image::Url(url) => url.clone(),
        };
        Ok((kept, Done::new("there", detail)))
    };
    progress.step("image", work).await
}

/// The last lines of the serial console. A VM that is off has none.
async fn show_console(progress: &Progress, client: &Client, vm: &str) {
    let cluster = Cluster {
        client: client.clone(),
        namespace: "default".to_owned(),
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

/// Without the sequences by which programs drive a terminal: this is no terminal of the guest.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' => {
                let _ = letters.find(char::is_ascii_alphabetic);
            }
            letter if letter.is_control() => {}
            letter => text.push(letter),
        }
    }
    text
}

fn told((process, started): &(Detached, Started), word: &'static str, detail: &str) -> Done {
    let pid = process.pid();
    match started {
        Started::Now => Done::new(word, format!("{detail} (process {pid})")),
        Started::Before => Done::new("runs", format!("{detail} (process {pid})")),
    }
}

/// What to try next.
fn hints(kubeconfig: &Path, vm: Option<&str>) -> String {
    let mut lines = vec![
        String::new(),
        "Try:".to_owned(),
        format!("  export KUBECONFIG={}", kubeconfig.display()),
    ];
    lines.extend(path_hint());
    lines.push(hint("kubectl get virt", "what there is"));
    if let Some(vm) = vm {
        lines.extend([
            hint(
                &format!("kubectl describe vm {vm}"),
                "its state, conditions and events",
            ),
            hint(
                &format!("polyvirt vm console {vm}"),
                "its serial console, Ctrl-] leaves it",
            ),
            hint(
                &format!("polyvirt vm exec {vm} -- uname -a"),
                "a command in the guest",
            ),
            hint(
                &format!("polyvirt vm stop {vm} --wait"),
                "shut it down; start starts it",
            ),
            hint(
                &format!("kubectl delete vm {vm}"),
                "remove it; polyvirt up makes it again",
            ),
        ]);
    }
    lines.extend([
        hint("polyvirt status", "the health of everything"),
        hint("polyvirt down", "stop everything; nothing is lost"),
    ]);
    lines.join("\n")
}

/// How to call this program by its name, where the shell does not find it yet.
fn path_hint() -> Option<String> {
    let folder = std::env::current_exe().ok()?.parent()?.to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|p| p.join("polyvirt").is_file());
    (!found).then(|| format!("  export PATH=$PATH:{}", folder.display()))
}

fn hint(command: &str, meaning: &str) -> String {
    format!("  {command:<38} {meaning}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_console_drive_no_terminal() {
        assert_eq!(
            plain("guest# \x1b[6nGUEST\x1b[1;31m ok\x07\r"),
            "guest# GUEST ok"
        );
        assert_eq!(plain("\x1b["), "");
    }
}
