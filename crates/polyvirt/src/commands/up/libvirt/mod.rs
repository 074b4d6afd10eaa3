//! `polyvirt up --with libvirt`: a Provider of the libvirt of this machine, or of one that is started in our folder, and a VM
//! there.

mod files;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures::future::join_all;
use kube::Client;
use kube::api::DynamicObject;
use polyvirt_contract::Provider as _;
use polyvirt_contract::model::{PowerOp, PowerState, VmRef, VmState};
use polyvirt_provider_libvirt::{Libvirt, LibvirtConfig};
use polyvirt_provider_qemu::{Qemu, QemuConfig};
use polyvirt_testkit::detached::{Detached, Service, ensure};
use serde_json::json;
use tokio::net::UnixStream;

use files::{Home, Kvm, Who};

use super::options::Extra;
use super::progress::{Done, Progress};
use super::sample::{self, qemu_endpoint};
use super::told;

const SAMPLE: &str = include_str!("../../../../../../config/samples/libvirt.yaml");
/// Where the libvirt of this machine listens, if it runs.
const SYSTEM: &str = "/run/libvirt/libvirt-sock";
/// The daemon among the processes of the folder.
pub const NAME: &str = "libvirtd";
const GRACE: Duration = Duration::from_secs(10);
/// The first start asks QEMU what it can do.
const READY_LIMIT: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(100);

/// Whether the command line says so, or an earlier one did.
pub fn wanted(asked: &[Extra], folder: &Path) -> bool {
    asked.contains(&Extra::Libvirt) || Home::of(folder, Who::we_are()).exists()
}

/// The libvirt that a Provider is declared for.
pub enum Daemon {
    /// The one of this machine.
    Systems,
    /// One of our own, and what its guests run with.
    Ours(String),
}

/// Sees to it that there is a libvirt, before the manager looks for it.
pub async fn start(progress: &Progress, folder: &Path) -> anyhow::Result<Daemon> {
    let home = Home::of(folder, Who::we_are());
    if !home.exists() && UnixStream::connect(SYSTEM).await.is_ok() {
        return Ok(Daemon::Systems);
    }
    let accelerator = accelerator(folder).await?;
    let kvm = match accelerator.as_str() {
        "tcg" => Kvm::Useless,
        _ => Kvm::Works,
    };
    let daemon = async {
        let started = run(folder, &home, kvm).await?;
        Ok((
            (),
            told(&started, "ready", &home.socket().display().to_string()),
        ))
    };
    progress.step(NAME, daemon).await?;
    Ok(Daemon::Ours(accelerator))
}

/// Sees to it that there is a Provider of that libvirt. The name of the VM there, if one was declared.
pub async fn introduce(
    progress: &Progress,
    folder: &Path,
    client: &Client,
    daemon: &Daemon,
) -> anyhow::Result<Option<String>> {
    let Daemon::Ours(accelerator) = daemon else {
        return systems_own(progress, client).await;
    };
    let home = Home::of(folder, Who::we_are());
    let image = folder.join("images/guest.qcow2");
    let endpoint = home.endpoint(accelerator);
    let mut objects = objects(&endpoint, &image)?;
    let vm = image.is_file();
    objects.retain(|object| vm || kind(object) == "Provider");
    declare(progress, client, &objects).await?;
    vm.then(|| sample::name_of(&objects, "VirtualMachine"))
        .transpose()
}

/// Its pools are its owner's: an image is not put there, so no VM is declared.
async fn systems_own(progress: &Progress, client: &Client) -> anyhow::Result<Option<String>> {
    progress.line(&format!(
        "  {NAME:<22} the system's own runs at {SYSTEM}: it is used, and left running by `polyvirt down`"
    ));
    let mut objects = parsed()?;
    objects.retain(|object| kind(object) == "Provider");
    declare(progress, client, &objects).await?;
    Ok(None)
}

async fn declare(
    progress: &Progress,
    client: &Client,
    objects: &[DynamicObject],
) -> anyhow::Result<()> {
    let work = async {
        let made = sample::create_missing(client, objects).await?;
        let detail = format!("{made} of {} objects were missing", objects.len());
        Ok(((), Done::new("declared", detail)))
    };
    progress.step("sample of libvirt", work).await
}

fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| &types.kind)
}

fn parsed() -> anyhow::Result<Vec<DynamicObject>> {
    serde_saphyr::from_multiple(SAMPLE).context("The sample of libvirt cannot be read")
}

/// The sample for this endpoint and image.
fn objects(endpoint: &str, image: &Path) -> anyhow::Result<Vec<DynamicObject>> {
    let mut objects = parsed()?;
    for object in &mut objects {
        match kind(object) {
            "Provider" => object.data["spec"]["endpoint"] = json!(endpoint),
            "VMImage" => object.data["spec"]["source"]["libvirt"]["path"] = json!(image),
            _ => {}
        }
    }
    Ok(objects)
}

/// What guests run with. libvirt believes what the host says; QEMU's provider tries it, in a folder of its own, for that of the
/// manager belongs to the manager.
async fn accelerator(folder: &Path) -> anyhow::Result<String> {
    let trial = qemu_endpoint(&folder.join(NAME));
    let qemu = Qemu::open(QemuConfig::from_url(&trial)?).await?;
    let hosts = qemu.inventory().await?.hosts;
    let tried = hosts
        .first()
        .and_then(|host| host.labels.get("polyvirt.io/accelerator"));
    Ok(tried.cloned().unwrap_or_else(|| "ask".to_owned()))
}

async fn run(
    folder: &Path,
    home: &Home,
    kvm: Kvm,
) -> anyhow::Result<(Detached, polyvirt_testkit::detached::Started)> {
    prepare(home, kvm)?;
    let [program, words @ ..] = home.runner() else {
        bail!("Nothing runs libvirtd")
    };
    let script = home.script().display().to_string();
    let arguments = words.iter().map(ToString::to_string).chain([script]);
    let service = Service {
        name: NAME.to_owned(),
        program: found(program)?,
        arguments: arguments.collect(),
        variables: Vec::new(),
    };
    found("libvirtd")?;
    let (mut process, started) = ensure(folder, &service, GRACE).await?;
    let begin = Instant::now();
    while UnixStream::connect(home.socket()).await.is_err() {
        process.check_alive()?;
        if begin.elapsed() > READY_LIMIT {
            bail!(
                "libvirtd does not listen after {} s; its log is {}",
                READY_LIMIT.as_secs(),
                process.log().display()
            );
        }
        tokio::time::sleep(POLL).await;
    }
    Ok((process, started))
}

/// Where a program is. Those of administrators are not on the path of everybody.
fn found(program: &str) -> anyhow::Result<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let mut files = folders.map(|folder| folder.join(program));
    files.find(|file| file.is_file()).with_context(|| {
        format!("There is no {program}: install libvirt (Debian: libvirt-daemon-system, hack/packages.sh), then run this again")
    })
}

/// Written again each time: nothing here is anybody's but ours.
fn prepare(home: &Home, kvm: Kvm) -> anyhow::Result<()> {
    let failed = |path: &Path| format!("Cannot write {}", path.display());
    for folder in home.folders() {
        std::fs::create_dir_all(&folder).with_context(|| failed(&folder))?;
        let mode = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(&folder, mode).with_context(|| failed(&folder))?;
    }
    for (path, text) in home.files(kvm) {
        std::fs::write(&path, text).with_context(|| failed(&path))?;
    }
    for (link, to) in home.links() {
        if std::fs::read_link(&link).is_err() {
            std::os::unix::fs::symlink(to, &link).with_context(|| failed(&link))?;
        }
    }
    Ok(())
}

/// Shuts the guests of our own libvirtd down, then the daemon. The system's is left alone.
pub async fn stop(progress: &Progress, folder: &Path, grace: Duration) -> anyhow::Result<()> {
    let home = Home::of(folder, Who::we_are());
    let Some(process) = Detached::find(folder, NAME)? else {
        return Ok(());
    };
    let work = async {
        let guests = shut_down_all(&home, grace).await?;
        let pid = process.pid();
        process.stop(GRACE).await?;
        let detail = format!("process {pid}; {guests} guests are off");
        Ok(((), Done::new("stopped", detail)))
    };
    progress.step(NAME, work).await
}

async fn shut_down_all(home: &Home, grace: Duration) -> anyhow::Result<usize> {
    let libvirt = Libvirt::open(LibvirtConfig::from_url(&home.endpoint("ask"))?);
    let mut running = libvirt.list_vms().await?;
    running.retain(|vm| vm.power != PowerState::Off);
    let count = running.len();
    let all = running.into_iter().map(|vm| shut_down(&libvirt, vm, grace));
    for ended in join_all(all).await {
        ended?;
    }
    Ok(count)
}

/// By its own will, else by pulling the plug.
async fn shut_down(libvirt: &Arc<Libvirt>, vm: VmState, grace: Duration) -> anyhow::Result<()> {
    let vm = VmRef {
        id: vm.id,
        owner: vm.owner,
    };
    let asked = PowerOp::ShutdownGraceful { timeout: grace };
    let by_itself = libvirt.power(&vm, asked.into()).await;
    let deadline = Instant::now() + grace;
    while by_itself.is_ok() && Instant::now() < deadline {
        let state = libvirt.describe(&vm.id).await?;
        if state.is_none_or(|state| state.power == PowerState::Off) {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
    libvirt.power(&vm, PowerOp::Off.into()).await?;
    Ok(())
}

/// What to try with it.
pub fn hints(vm: Option<&str>) -> String {
    let hint = |command: &str, meaning: &str| format!("  {command:<52} {meaning}");
    let mut lines = vec![
        String::new(),
        "With libvirt:".to_owned(),
        hint(
            "kubectl get provider libvirt",
            "the Provider, and how it is",
        ),
    ];
    match vm {
        Some(vm) => lines.push(hint(&format!("polyvirt vm console {vm}"), "its VM")),
        None => lines.push(hint(
            "config/samples/libvirt.yaml",
            "a VM there; name an image in one of its pools",
        )),
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_fits_its_daemon() {
        let objects = objects("qemu:///session", Path::new("/a/guest.qcow2")).expect("readable");
        let text = serde_json::to_string(&objects).expect("JSON");
        assert!(text.contains("qemu:///session") && text.contains("/a/guest.qcow2"));
        let vm = sample::name_of(&objects, "VirtualMachine").expect("one");
        assert_eq!(vm, "demo-libvirt");
    }
}
