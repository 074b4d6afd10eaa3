//! A provider in a folder of its own, a guest, and patience.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use polyvirt_contract::model::{
    ClassSpec, CreateVm, ExecRequest, ImageSource, NicSpec, Owner, PowerOp, PowerState, VmRef,
    VmState,
};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{Provider as _, Result, TaskId};
use polyvirt_provider_qemu::{Qemu, QemuConfig};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Guests that may boot at the same time, over all tests.
static BOOTS: Semaphore = Semaphore::const_new(2);
/// How long a guest may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// The test guest, built if it is not there.
pub fn guest_image() -> &'static Path {
    static IMAGE: LazyLock<PathBuf> =
        LazyLock::new(|| polyvirt_testkit::guest::image().expect("a guest"));
    &IMAGE
}

/// A provider with a folder that goes away with it.
pub struct Lab {
    pub folder: tempfile::TempDir,
    pub provider: Arc<Qemu>,
    _boot: SemaphorePermit<'static>,
}

impl Lab {
    pub async fn new() -> Self {
        Self::at(tempfile::tempdir().expect("a folder")).await
    }

    /// A provider below this folder.
    pub async fn at(folder: tempfile::TempDir) -> Self {
        Self::tuned(folder, |_| ()).await
    }

    /// A provider below this folder, with another configuration than usual.
    pub async fn tuned(folder: tempfile::TempDir, tune: impl FnOnce(&mut QemuConfig)) -> Self {
        let boot = BOOTS.acquire().await.expect("never closed");
        let provider = open_tuned(folder.path(), tune).await;
        provider
            .validate()
            .await
            .expect("QEMU works; run hack/packages.sh");
        Self {
            folder,
            provider,
            _boot: boot,
        }
    }

    /// Ends the provider and begins a new life of it, as a restart of the process does.
    pub async fn restart(&mut self) {
        let other = tempfile::tempdir().expect("a folder");
        // The old one must be gone before the new one opens the same folder.
        let elsewhere = open(other.path()).await;
        drop(std::mem::replace(&mut self.provider, elsewhere));
        self.provider = open(self.folder.path()).await;
    }

    pub fn vm_folder(&self, vm: &VmRef) -> PathBuf {
        self.folder.path().join("state/vms").join(vm.id.as_str())
    }

    /// The process of a VM that runs.
    pub fn pid(&self, vm: &VmRef) -> i32 {
        let file = self.vm_folder(vm).join("run/qemu.pid");
        let text = std::fs::read_to_string(file).expect("a process");
        text.trim().parse().expect("a number")
    }

    pub async fn create(&self, desired: &CreateVm) -> VmRef {
        let created = self
            .provider
            .create(desired.clone())
            .await
            .expect("accepted");
        self.done(Ok(created.task)).await;
        VmRef {
            id: created.id,
            owner: desired.owner.clone(),
        }
    }

    pub async fn delete(&self, vm: &VmRef) {
        self.done(self.provider.delete(vm).await).await;
        assert_eq!(self.provider.describe(&vm.id).await, Ok(None));
        assert!(!self.vm_folder(vm).exists(), "the folder is left behind");
    }

    pub async fn power(&self, vm: &VmRef, op: PowerOp) {
        self.done(self.provider.power(vm, op.into()).await).await;
    }

    pub async fn state(&self, vm: &VmRef) -> VmState {
        self.provider
            .describe(&vm.id)
            .await
            .expect("answers")
            .expect("is there")
    }

    /// Waits for a task to end well.
    pub async fn done(&self, answer: Result<Option<TaskId>>) {
        let Some(task) = answer.expect("accepted") else {
            return;
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.provider.task_status(&task).await.expect("is known") {
                TaskState::Succeeded => return,
                TaskState::Failed(error) => panic!("the task failed: {error}"),
                TaskState::Running { .. } => assert!(Instant::now() < deadline, "too slow"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Looks until the VM is as expected.
    pub async fn until(
        &self,
        vm: &VmRef,
        what: &str,
        expected: impl Fn(&VmState) -> bool,
    ) -> VmState {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let state = self.state(vm).await;
            if expected(&state) {
                return state;
            }
            assert!(
                Instant::now() < deadline,
                "waited in vain for {what}: {state:?}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Starts the VM and waits until its guest has an address and an agent.
    pub async fn boot(&self, vm: &VmRef) -> VmState {
        self.power(vm, PowerOp::On).await;
        self.up(vm).await
    }

    pub async fn up(&self, vm: &VmRef) -> VmState {
        let up = |state: &VmState| {
            state.power == PowerState::On && !state.ips.is_empty() && agent(state) == "connected"
        };
        self.until(vm, "the guest to be up", up).await
    }

    /// What a command of the guest writes.
    pub async fn run(&self, vm: &VmRef, script: &str) -> String {
        let request = ExecRequest {
            command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            stdin: Bytes::new(),
            timeout: Duration::from_secs(60),
        };
        let output = self.provider.guest_exec(vm, request).await.expect("runs");
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).trim().to_owned();
        assert_eq!(output.exit_code, 0, "{script}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs the script again and again until it ends well: guests take their time to notice.
    pub async fn until_runs(&self, vm: &VmRef, script: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self
            .run(vm, &format!("if {script}; then echo yes; fi"))
            .await
            != "yes"
        {
            assert!(Instant::now() < deadline, "waited in vain for {script}");
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    /// A stream that has told all VMs.
    pub async fn watch(&self) -> BoxStream<'static, Result<VmEvent>> {
        let mut stream = self.provider.watch().await.expect("watched");
        while next(&mut stream).await != VmEvent::Synced {}
        stream
    }
}

/// A test that failed leaves no QEMU behind.
impl Drop for Lab {
    fn drop(&mut self) {
        kill_machines(self.folder.path());
    }
}

/// Ends every QEMU below the folder of a provider.
pub fn kill_machines(folder: &Path) {
    let vms = std::fs::read_dir(folder.join("state/vms"))
        .into_iter()
        .flatten();
    for vm in vms.flatten() {
        let pid = std::fs::read_to_string(vm.path().join("run/qemu.pid")).unwrap_or_default();
        let line = std::fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
        let ours = String::from_utf8_lossy(&line).contains(&*vm.file_name().to_string_lossy());
        let pid = pid
            .trim()
            .parse()
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid.filter(|_| ours) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

pub fn agent(state: &VmState) -> &str {
    state.details.get("guestAgent").map_or("", String::as_str)
}

pub async fn next(stream: &mut BoxStream<'static, Result<VmEvent>>) -> VmEvent {
    let event = tokio::time::timeout(PATIENCE, stream.next()).await;
    event.expect("in time").expect("goes on").expect("an event")
}

/// The first state of the stream that is looked for.
pub async fn told(
    stream: &mut BoxStream<'static, Result<VmEvent>>,
    wanted: impl Fn(&VmState) -> bool,
) -> VmState {
    loop {
        if let VmEvent::State(state) = next(stream).await
            && wanted(&state)
        {
            return state;
        }
    }
}

pub async fn open(folder: &Path) -> Arc<Qemu> {
    open_tuned(folder, |_| ()).await
}

async fn open_tuned(folder: &Path, tune: impl FnOnce(&mut QemuConfig)) -> Arc<Qemu> {
    let mut config = QemuConfig::new(folder.join("state"));
    // The servers of these tests are here.
    config.image_hosts = polyvirt_disks::fetch::Reach::Anywhere;
    let images = guest_image().parent().expect("a folder").to_owned();
    config.image_dirs = vec![images, folder.to_owned()];
    tune(&mut config);
    let found_out = config.state_dir.join("accel.json");
    share_knowledge(&found_out);
    let provider = Qemu::open(config).await.expect("opened");
    if let Ok(bytes) = std::fs::read(&found_out) {
        // The first that found out has found out for all.
        let _ = KNOWN.set(bytes);
    }
    provider
}

/// What guests run with takes seconds to find out, and is the same for all providers of this machine.
static KNOWN: OnceLock<Vec<u8>> = OnceLock::new();

pub fn share_knowledge(place: &Path) {
    if let Some(known) = KNOWN.get().filter(|_| !place.exists()) {
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("made");
        std::fs::write(place, known).expect("written");
    }
}

/// A program in the place of another: everybody may run it, and write to `log` beside it.
pub fn stand_in(folder: &Path, name: &str, script: &str) -> PathBuf {
    let (program, log) = (folder.join(name), folder.join(format!("{name}.log")));
    let script = script.replace("$LOG", &log.display().to_string());
    let modes = [(&program, 0o755), (&log, 0o666)];
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("written");
    std::fs::write(&log, "").expect("written");
    for (path, mode) in modes {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("opened");
    }
    std::fs::set_permissions(folder, Permissions::from_mode(0o711)).expect("opened");
    program
}

/// A disk that nothing can boot from: a machine with it is on and costs nothing.
pub fn blank_image(folder: &Path) -> ImageSource {
    let path = folder.join("blank.qcow2");
    let made = Command::new("qemu-img")
        .args(["create", "-q", "-f", "qcow2"])
        .arg(&path)
        .arg("1M")
        .status();
    assert!(made.expect("qemu-img is installed").success());
    ImageSource {
        path: path.display().to_string(),
        ..ImageSource::default()
    }
}

/// Whether a process of this number is there.
pub fn runs(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

pub fn signal(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a process");
    rustix::process::kill_process(pid, signal).expect("there");
}

/// A small VM of the test guest, with a name and an owner of its own.
pub fn desired(name: &str, number: u32) -> CreateVm {
    CreateVm {
        owner: Some(Owner {
            identity: format!("0a1b2c3d-0000-4000-8000-{number:012x}").into(),
            namespace: "test".to_owned(),
            name: name.to_owned(),
        }),
        name: name.to_owned(),
        class: ClassSpec {
            cpu: 1,
            memory_mib: 192,
            ..ClassSpec::default()
        },
        image: ImageSource {
            path: guest_image().display().to_string(),
            ..ImageSource::default()
        },
        networks: vec![nic("eth0")],
        ..CreateVm::default()
    }
}

pub fn nic(name: &str) -> NicSpec {
    NicSpec {
        name: name.to_owned(),
        ..NicSpec::default()
    }
}
