//! A provider that remembers what it was asked and answers with fixtures.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Sink, SinkExt, StreamExt};
use polyvirt_contract::model::*;
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{
    Capabilities, ErrorKind, Features, Identity, Provider, ProviderError, RequestId, Result,
    SnapshotId, TaskId, VmId,
};

use crate::fixtures;

#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    Create(CreateVm),
    Delete(VmRef),
    Power(VmRef, PowerRequest),
    Reconfigure(VmRef, CreateVm),
    HardwareUpgrade(VmRef, i32),
    Describe(VmId),
    TaskStatus(TaskId),
    SnapshotCreate(VmRef, SnapshotRequest),
    SnapshotDelete(VmRef, SnapshotId),
    SnapshotRevert(VmRef, SnapshotId),
    Clone(CloneVm),
    ImagePrepare(PrepareImage),
    ImageDelete(PreparedImage),
    Export(ExportDisk),
    Import(ImportDisk),
    DiskInfo(VmId, String, Option<SnapshotId>),
    Find(Identity),
    Exec(VmRef, ExecRequest),
    Console(VmRef, ConsoleKind),
    Migrate(VmRef, MigrateVm),
    Cancel(VmRef, RequestId),
    Usage,
    Progress(TaskId),
    Pack(Handover),
    Receive(Handover, Luggage, String),
    Send(Handover, Landing),
    Moves(Option<VmId>),
    Settle(SettleMove),
}

#[derive(Default)]
pub struct Recorder {
    pub log: Mutex<Vec<Seen>>,
    /// Every call fails with this.
    pub fail: Mutex<Option<ProviderError>>,
    /// What `describe`, `find`, `list_vms` and `watch` tell of.
    pub vms: Mutex<Vec<VmState>>,
    /// What `task_status` answers.
    pub task: Mutex<Option<TaskState>>,
    /// `create` never ends.
    pub hang: bool,
    /// `watch` goes on for ever after the first events.
    pub endless: bool,
    /// Streams and calls that are open now.
    pub open: Arc<AtomicUsize>,
    /// Events taken from `watch` so far.
    pub pulled: Arc<AtomicUsize>,
}

impl Recorder {
    pub fn with_vms(vms: Vec<VmState>) -> Self {
        Self {
            vms: Mutex::new(vms),
            ..Self::default()
        }
    }

    /// What was asked since the last look.
    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    fn note(&self, seen: Seen) -> Result<()> {
        self.log.lock().unwrap().push(seen);
        self.refuse()
    }

    fn refuse(&self) -> Result<()> {
        self.fail.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    fn find_by(&self, matches: impl Fn(&VmState) -> bool) -> Option<VmState> {
        self.vms
            .lock()
            .unwrap()
            .iter()
            .find(|vm| matches(vm))
            .cloned()
    }

    pub fn open_now(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

/// Counts as open until dropped.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn task() -> Option<TaskId> {
    TaskId::non_empty("task-9")
}

#[async_trait]
impl Provider for Recorder {
    async fn validate(&self) -> Result<()> {
        self.refuse()
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        self.refuse()?;
        Ok(fixtures::capabilities())
    }

    async fn create(&self, request: CreateVm) -> Result<Created> {
        self.note(Seen::Create(request))?;
        if self.hang {
            let _open = Open::new(&self.open);
            std::future::pending::<()>().await;
        }
        Ok(Created {
            id: "vm-7".into(),
            task: task(),
        })
    }

    async fn delete(&self, vm: &VmRef) -> Result<Option<TaskId>> {
        self.note(Seen::Delete(vm.clone()))?;
        Ok(None)
    }

    async fn power(&self, vm: &VmRef, request: PowerRequest) -> Result<Option<TaskId>> {
        self.note(Seen::Power(vm.clone(), request))?;
        Ok(task())
    }

    async fn reconfigure(&self, vm: &VmRef, desired: CreateVm) -> Result<Option<TaskId>> {
        self.note(Seen::Reconfigure(vm.clone(), desired))?;
        Ok(task())
    }

    async fn hardware_upgrade(&self, vm: &VmRef, version: i32) -> Result<Option<TaskId>> {
        self.note(Seen::HardwareUpgrade(vm.clone(), version))?;
        Ok(task())
    }

    async fn describe(&self, vm: &VmId) -> Result<Option<VmState>> {
        self.note(Seen::Describe(vm.clone()))?;
        Ok(self.find_by(|v| v.id == *vm))
    }

    async fn task_status(&self, task: &TaskId) -> Result<TaskState> {
        self.note(Seen::TaskStatus(task.clone()))?;
        let state = self.task.lock().unwrap().clone();
        state.ok_or_else(|| ProviderError::not_found(format!("Task {task}")))
    }

    async fn snapshot_create(
        &self,
        vm: &VmRef,
        request: SnapshotRequest,
    ) -> Result<SnapshotCreated> {
        self.note(Seen::SnapshotCreate(vm.clone(), request))?;
        Ok(SnapshotCreated {
            id: "snap-1".into(),
            task: task(),
        })
    }

    async fn snapshot_delete(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        self.note(Seen::SnapshotDelete(vm.clone(), snapshot.clone()))?;
        Ok(task())
    }

    async fn snapshot_revert(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        self.note(Seen::SnapshotRevert(vm.clone(), snapshot.clone()))?;
        Ok(task())
    }

    async fn clone_vm(&self, request: CloneVm) -> Result<Cloned> {
        self.note(Seen::Clone(request))?;
        Ok(Cloned {
            id: "vm-8".into(),
            task: task(),
        })
    }

    async fn image_prepare(&self, request: PrepareImage) -> Result<PreparedImage> {
        self.note(Seen::ImagePrepare(request))?;
        Ok(PreparedImage {
            id: "9000".into(),
            path: "/pool/u.qcow2".into(),
            task: task(),
        })
    }

    async fn export_disk(&self, request: ExportDisk) -> Result<DiskExported> {
        self.note(Seen::Export(request))?;
        Ok(DiskExported {
            id: "exp-1".into(),
            task: task(),
            estimated_size_bytes: 5,
            checksum: "abc".into(),
        })
    }

    async fn import_disk(&self, request: ImportDisk) -> Result<DiskImported> {
        self.note(Seen::Import(request))?;
        Ok(DiskImported {
            id: "disk-9".into(),
            path: "/pool/web.qcow2".into(),
            task: task(),
            actual_size_bytes: 3,
            checksum: "abc".into(),
        })
    }

    async fn disk_info(
        &self,
        vm: &VmId,
        disk: &str,
        snapshot: Option<&SnapshotId>,
    ) -> Result<DiskInfo> {
        self.note(Seen::DiskInfo(
            vm.clone(),
            disk.to_owned(),
            snapshot.cloned(),
        ))?;
        Ok(fixtures::disk_info())
    }

    async fn list_vms(&self) -> Result<Vec<VmState>> {
        self.refuse()?;
        Ok(self.vms.lock().unwrap().clone())
    }

    async fn features(&self) -> Result<Features> {
        Ok(fixtures::features())
    }

    async fn find(&self, identity: &Identity) -> Result<Option<VmState>> {
        self.note(Seen::Find(identity.clone()))?;
        Ok(self.find_by(|v| v.owner.as_ref().is_some_and(|o| o.identity == *identity)))
    }

    async fn watch(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
        self.refuse()?;
        let open = Open::new(&self.open);
        let pulled = self.pulled.clone();
        let vms = self.vms.lock().unwrap().clone();
        let first = stream::iter(vms.clone()).map(VmEvent::State);
        let rest = if self.endless {
            stream::iter(vms.into_iter().cycle())
                .map(VmEvent::State)
                .boxed()
        } else {
            stream::pending().boxed()
        };
        let events = first.chain(stream::iter([VmEvent::Synced])).chain(rest);
        let counted = events.map(move |event| {
            let _ = &open;
            pulled.fetch_add(1, Ordering::SeqCst);
            Ok(event)
        });
        Ok(counted.boxed())
    }

    async fn image_delete(&self, image: &PreparedImage) -> Result<()> {
        self.note(Seen::ImageDelete(image.clone()))
    }

    async fn inventory(&self) -> Result<Inventory> {
        self.refuse()?;
        Ok(fixtures::inventory())
    }

    async fn guest_exec(&self, vm: &VmRef, request: ExecRequest) -> Result<ExecOutput> {
        self.note(Seen::Exec(vm.clone(), request.clone()))?;
        Ok(ExecOutput {
            exit_code: 3,
            stdout: request.stdin,
            stderr: Bytes::from_static(b"\xfferr"),
        })
    }

    async fn migrate(&self, vm: &VmRef, request: MigrateVm) -> Result<Option<TaskId>> {
        self.note(Seen::Migrate(vm.clone(), request))?;
        Ok(task())
    }

    async fn migration_progress(&self, task: &TaskId) -> Result<MigrationProgress> {
        self.note(Seen::Progress(task.clone()))?;
        Ok(fixtures::progress())
    }

    async fn cancel_migration(&self, vm: &VmRef, request: &RequestId) -> Result<()> {
        self.note(Seen::Cancel(vm.clone(), request.clone()))
    }

    async fn pack_vm(&self, handover: &Handover) -> Result<Luggage> {
        self.note(Seen::Pack(handover.clone()))?;
        Ok(fixtures::luggage())
    }

    async fn receive_vm(
        &self,
        handover: &Handover,
        luggage: Luggage,
        address: &str,
    ) -> Result<Landing> {
        let seen = Seen::Receive(handover.clone(), luggage, address.to_owned());
        self.note(seen)?;
        Ok(fixtures::landing())
    }

    async fn send_vm(
        &self,
        handover: &Handover,
        landing: &Landing,
    ) -> Result<BoxStream<'static, Result<Sending>>> {
        self.note(Seen::Send(handover.clone(), landing.clone()))?;
        let open = Open::new(&self.open);
        let rest = if self.endless {
            stream::pending().boxed()
        } else {
            stream::empty().boxed()
        };
        let parts = stream::iter(fixtures::sending()).map(Ok).chain(rest);
        let counted = parts.map(move |part| {
            let _ = &open;
            part
        });
        Ok(counted.boxed())
    }

    async fn moves(&self, vm: Option<&VmId>) -> Result<Vec<MoveState>> {
        self.note(Seen::Moves(vm.cloned()))?;
        Ok(fixtures::moves())
    }

    async fn settle_move(&self, settle: &SettleMove) -> Result<()> {
        self.note(Seen::Settle(settle.clone()))
    }

    async fn usage(&self) -> Result<Vec<VmUsage>> {
        self.note(Seen::Usage)?;
        Ok(fixtures::usage())
    }

    /// Answers each line with itself, in capitals. The word `off` ends the VM, `break` the input.
    async fn console(&self, vm: &VmRef, kind: ConsoleKind) -> Result<ConsoleSession> {
        self.note(Seen::Console(vm.clone(), kind))?;
        let open = Open::new(&self.open);
        let (to_guest, from_client) = tokio::sync::mpsc::channel::<Bytes>(1);
        let output = stream::unfold((from_client, open), |(mut from_client, open)| async move {
            let line = from_client.recv().await?;
            let line = line.to_ascii_uppercase();
            (line != b"OFF").then(|| (Ok(Bytes::from(line)), (from_client, open)))
        });
        Ok(ConsoleSession {
            output: output.boxed(),
            input: guest_input(to_guest),
        })
    }
}

fn guest_input(
    to_guest: tokio::sync::mpsc::Sender<Bytes>,
) -> Pin<Box<dyn Sink<Bytes, Error = ProviderError> + Send>> {
    let sink = tokio_util::sync::PollSender::new(to_guest)
        .sink_map_err(|_| ProviderError::new(ErrorKind::Unavailable, "The VM is off"))
        .with(|line: Bytes| async move {
            if line == "break" {
                return Err(ProviderError::new(
                    ErrorKind::Precondition,
                    "The port is broken",
                ));
            }
            Ok(line)
        });
    Box::pin(sink)
}
