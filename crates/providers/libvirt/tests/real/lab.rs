//! A provider on a daemon of its own, a guest, and patience.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use polyvirt_contract::model::{
    ClassSpec, CreateVm, ExecOutput, ExecRequest, ImageSource, NicSpec, Owner, PowerOp, PowerState,
    VmRef, VmState,
};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{ErrorKind, Provider as _, Result, TaskId};
use polyvirt_provider_libvirt::{Libvirt, LibvirtConfig};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::host::Host;

/// Guests that may boot at the same time, over all tests.
static BOOTS: Semaphore = Semaphore::const_new(GUESTS as usize);
const GUESTS: u32 = 2;
/// Waits until no other test boots a guest, and lets none do so.
pub async fn alone() -> SemaphorePermit<'static> {
    BOOTS.acquire_many(GUESTS).await.expect("never closed")
}

/// How long a guest may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// The test guest, built if it is not there.
pub fn guest_image() -> &'static Path {
    static IMAGE: LazyLock<PathBuf> =
        LazyLock::new(|| polyvirt_testkit::guest::image().expect("a guest"));
    &IMAGE
}

/// A provider and its daemon.
pub struct Lab {
    pub provider: Arc<Libvirt>,
    pub host: Host,
    _boot: SemaphorePermit<'static>,
}

impl Lab {
    pub async fn new() -> Self {
        Self::on(Host::start()).await
    }

    pub async fn on(host: Host) -> Self {
        let boot = BOOTS.acquire().await.expect("never closed");
        // A copy, so that what tests do to their images stays theirs.
        let images = host.path("images");
        std::fs::create_dir_all(&images).expect("made");
        std::fs::copy(guest_image(), images.join("guest.qcow2")).expect("copied");
        host.pool("images", &images);
        let provider = open(&host.url());
        provider.validate().await.expect("libvirt answers");
        Self {
            provider,
            host,
            _boot: boot,
        }
    }

    pub fn image(&self) -> ImageSource {
        ImageSource {
            path: self.host.path("images/guest.qcow2").display().to_string(),
            ..ImageSource::default()
        }
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
        let left = self.host.volumes("default");
        let left: Vec<_> = left
            .iter()
            .filter(|name| name.starts_with(vm.id.as_str()))
            .collect();
        assert!(left.is_empty(), "volumes are left behind: {left:?}");
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
        if let Err(error) = self.ended(answer).await {
            panic!("it failed: {error:?}");
        }
    }

    /// Waits for the end of a task.
    pub async fn ended(&self, answer: Result<Option<TaskId>>) -> Result<()> {
        let Some(task) = answer? else { return Ok(()) };
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.provider.task_status(&task).await.expect("is known") {
                TaskState::Succeeded => return Ok(()),
                TaskState::Failed(error) => return Err(error),
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
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Starts the VM and waits until its guest has an address and an agent.
    pub async fn boot(&self, vm: &VmRef) -> VmState {
        self.power(vm, PowerOp::On).await;
        self.up(vm).await
    }

    pub async fn up(&self, vm: &VmRef) -> VmState {
        let up = |state: &VmState| state.power == PowerState::On && !state.ips.is_empty();
        self.until(vm, "the guest to be up", up).await
    }

    async fn try_run(&self, vm: &VmRef, script: &str) -> Result<ExecOutput> {
        let request = ExecRequest {
            command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            stdin: Bytes::new(),
            timeout: Duration::from_secs(60),
        };
        self.provider.guest_exec(vm, request).await
    }

    /// What a command of the guest writes.
    pub async fn run(&self, vm: &VmRef, script: &str) -> String {
        let output = self.try_run(vm, script).await.expect("runs");
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).trim().to_owned();
        assert_eq!(output.exit_code, 0, "{script}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs the script again and again until it ends well: guests take their time to notice, and a busy one to answer.
    pub async fn until_runs(&self, vm: &VmRef, script: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match self.try_run(vm, script).await {
                Ok(output) if output.exit_code == 0 => return,
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind, ErrorKind::Timeout, "{error:?}"),
            }
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

    /// A small VM of the test guest, with a name and an owner of its own.
    pub fn desired(&self, name: &str, number: u32) -> CreateVm {
        CreateVm {
            owner: Some(owner(name, number)),
            name: name.to_owned(),
            class: ClassSpec {
                cpu: 1,
                memory_mib: 192,
                ..ClassSpec::default()
            },
            image: self.image(),
            networks: vec![nic("eth0")],
            ..CreateVm::default()
        }
    }
}

pub fn open(url: &str) -> Arc<Libvirt> {
    Libvirt::open(LibvirtConfig::from_url(url).expect("readable"))
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

pub fn owner(name: &str, number: u32) -> Owner {
    Owner {
        identity: format!("0a1b2c3d-0000-4000-8000-{number:012x}").into(),
        namespace: "test".to_owned(),
        name: name.to_owned(),
    }
}

pub fn nic(name: &str) -> NicSpec {
    NicSpec {
        name: name.to_owned(),
        ..NicSpec::default()
    }
}
