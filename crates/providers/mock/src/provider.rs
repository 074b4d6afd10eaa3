//! The contract, call by call. Each is one line of intent; [`Mock::call`] does what all have in common.

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt as _};
use polyvirt_contract::model::{
    CloneVm, Cloned, ConsoleKind, ConsoleSession, CreateVm, Created, DiskExported, DiskImported,
    DiskInfo, ExecOutput, ExecRequest, ExportDisk, ImportDisk, Inventory, MigrateVm,
    MigrationProgress, Owner, PowerRequest, PrepareImage, PreparedImage, SnapshotCreated,
    SnapshotRequest, VmRef, VmState, VmUsage,
};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{
    Capabilities, ErrorKind, Features, Identity, Provider, ProviderError, RequestId, Result,
    SnapshotId, TaskId, VmId,
};

use crate::config::Offer;
use crate::guest::Ran;
use crate::inner::Inner;
use crate::mock::Mock;
use crate::rpc::Rpc;
use crate::state::{Content, sha256};
use crate::{offer, staging};

#[async_trait]
impl Provider for Mock {
    async fn validate(&self) -> Result<()> {
        self.call(Rpc::Validate, |_, _| Ok(())).await
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        let resize = self.config.resize;
        self.call(Rpc::GetCapabilities, |_, _| Ok(offer::capabilities(resize)))
            .await
    }

    async fn create(&self, request: CreateVm) -> Result<Created> {
        let owner = self.heard(request.owner);
        let request = CreateVm { owner, ..request };
        self.call(Rpc::Create, |inner, now| inner.state.create(now, &request))
            .await
    }

    async fn delete(&self, vm: &VmRef) -> Result<Option<TaskId>> {
        let vm = self.spoken(vm);
        self.call(Rpc::Delete, |inner, now| inner.state.delete(now, &vm))
            .await
    }

    async fn power(&self, vm: &VmRef, request: PowerRequest) -> Result<Option<TaskId>> {
        let vm = self.spoken(vm);
        self.call(Rpc::Power, |inner, now| {
            inner.state.power(now, &vm, request)
        })
        .await
    }

    async fn reconfigure(&self, vm: &VmRef, desired: CreateVm) -> Result<Option<TaskId>> {
        let vm = self.spoken(vm);
        let owner = self.heard(desired.owner);
        let desired = CreateVm { owner, ..desired };
        self.call(Rpc::Reconfigure, |inner, now| {
            inner.state.reconfigure(now, &vm, desired)
        })
        .await
    }

    async fn hardware_upgrade(&self, vm: &VmRef, version: i32) -> Result<Option<TaskId>> {
        let vm = self.spoken(vm);
        self.call(Rpc::HardwareUpgrade, |inner, now| {
            inner.state.upgrade(now, &vm, version)
        })
        .await
    }

    async fn describe(&self, vm: &VmId) -> Result<Option<VmState>> {
        let state = self
            .call(Rpc::Describe, |inner, _| Ok(inner.state.describe(vm)))
            .await?;
        Ok(state.map(|state| self.shown(state)))
    }

    async fn task_status(&self, task: &TaskId) -> Result<TaskState> {
        self.call(Rpc::TaskStatus, |inner, now| {
            inner.state.task_status(now, task)
        })
        .await
    }

    async fn snapshot_create(
        &self,
        vm: &VmRef,
        request: SnapshotRequest,
    ) -> Result<SnapshotCreated> {
        let vm = self.spoken(vm);
        self.call(Rpc::SnapshotCreate, |inner, now| {
            inner.state.snapshot_create(now, &vm, &request)
        })
        .await
    }

    async fn snapshot_delete(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        let vm = self.spoken(vm);
        self.call(Rpc::SnapshotDelete, |inner, now| {
            inner.state.snapshot_delete(now, &vm, snapshot)
        })
        .await
    }

    async fn snapshot_revert(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        let vm = self.spoken(vm);
        self.call(Rpc::SnapshotRevert, |inner, now| {
            inner.state.snapshot_revert(now, &vm, snapshot)
        })
        .await
    }

    async fn clone_vm(&self, request: CloneVm) -> Result<Cloned> {
        let owner = self.heard(request.owner);
        let request = CloneVm { owner, ..request };
        self.call(Rpc::Clone, |inner, now| inner.state.clone_vm(now, &request))
            .await
    }

    async fn image_prepare(&self, request: PrepareImage) -> Result<PreparedImage> {
        self.call(Rpc::ImagePrepare, |inner, now| {
            inner.state.image_prepare(now, &request)
        })
        .await
    }

    async fn image_delete(&self, image: &PreparedImage) -> Result<()> {
        self.needs_extensions("deleting images")?;
        self.call(Rpc::DeleteImage, |inner, _| inner.state.image_delete(image))
            .await
    }

    async fn export_disk(&self, request: ExportDisk) -> Result<DiskExported> {
        let path = staging::file(&self.config.staging, &request.staging)?;
        self.call(Rpc::ExportDisk, |inner, now| {
            let raw = content(inner, &request)?;
            let bytes = staging::encode(raw, &request.format, request.compress)?;
            staging::write(&path, &bytes)?;
            inner.state.exported(now, &request, &bytes)
        })
        .await
    }

    async fn import_disk(&self, request: ImportDisk) -> Result<DiskImported> {
        let path = staging::file(&self.config.staging, &request.staging)?;
        self.call(Rpc::ImportDisk, |inner, now| {
            let staged = staging::read(&path, &request)?;
            let (name, raw) = (&request.target_name, &staged.raw);
            let kept = inner.store.save_disk(name, &sha256(raw), raw);
            inner.note(kept);
            inner.state.imported(now, &request, staged)
        })
        .await
    }

    async fn disk_info(
        &self,
        vm: &VmId,
        disk: &str,
        snapshot: Option<&SnapshotId>,
    ) -> Result<DiskInfo> {
        self.call(Rpc::GetDiskInfo, |inner, _| {
            inner.state.disk_info(vm, disk, snapshot)
        })
        .await
    }

    async fn list_vms(&self) -> Result<Vec<VmState>> {
        let list = self
            .call(Rpc::ListVMs, |inner, _| Ok(inner.state.list()))
            .await?;
        Ok(list.into_iter().map(|state| self.shown(state)).collect())
    }

    async fn features(&self) -> Result<Features> {
        let offer = self.config.offer;
        self.call(Rpc::Features, |_, _| Ok(offer::features(offer)))
            .await
    }

    async fn find(&self, identity: &Identity) -> Result<Option<VmState>> {
        self.needs_extensions("look-up by identity")?;
        self.call(Rpc::Find, |inner, _| Ok(inner.state.find(identity)))
            .await
    }

    async fn watch(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
        self.needs_extensions("watch")?;
        let me = self.me();
        self.call(Rpc::Watch, |inner, _| {
            let look = move |key| me.upgrade().and_then(|mock| mock.lock().look(key));
            Ok(inner.hub.subscribe(inner.state.keys(), look).boxed())
        })
        .await
    }

    async fn inventory(&self) -> Result<Inventory> {
        self.needs_extensions("inventory")?;
        self.call(Rpc::Inventory, |inner, _| Ok(inner.state.inventory()))
            .await
    }

    async fn usage(&self) -> Result<Vec<VmUsage>> {
        self.needs_extensions("the usage of VMs")?;
        self.call(Rpc::GetUsage, |inner, now| Ok(inner.state.usage(now)))
            .await
    }

    async fn guest_exec(&self, vm: &VmRef, request: ExecRequest) -> Result<ExecOutput> {
        self.needs_extensions("commands in the guest")?;
        let ran = self
            .call(Rpc::GuestExec, |inner, _| inner.state.exec(vm, &request))
            .await?;
        let sleeps = match ran {
            Ran::Ended(output) => return Ok(output),
            Ran::Sleeps(time) if time <= request.timeout => Some(time),
            Ran::Sleeps(_) | Ran::Hangs => None,
        };
        self.time.sleep(sleeps.unwrap_or(request.timeout)).await;
        sleeps.map(|_| ExecOutput::default()).ok_or_else(|| {
            let message =
                "The command has not ended in time; allow more time, or look at the guest";
            ProviderError::new(ErrorKind::Timeout, message)
        })
    }

    async fn migrate(&self, vm: &VmRef, request: MigrateVm) -> Result<Option<TaskId>> {
        self.needs_extensions("moving VMs between hosts")?;
        let vm = self.spoken(vm);
        self.call(Rpc::Migrate, |inner, now| {
            inner.state.migrate(now, &vm, &request)
        })
        .await
    }

    async fn migration_progress(&self, task: &TaskId) -> Result<MigrationProgress> {
        self.needs_extensions("moving VMs between hosts")?;
        self.call(Rpc::GetMigrationProgress, |inner, now| {
            inner.state.migration_progress(now, task)
        })
        .await
    }

    async fn cancel_migration(&self, vm: &VmRef, request: &RequestId) -> Result<()> {
        self.needs_extensions("stopping a move")?;
        let vm = self.spoken(vm);
        self.call(Rpc::CancelMigration, |inner, _| {
            inner.state.cancel_migration(&vm, request)
        })
        .await
    }

    async fn console(&self, vm: &VmRef, kind: ConsoleKind) -> Result<ConsoleSession> {
        self.needs_extensions("a console")?;
        if kind == ConsoleKind::Vnc {
            return Err(ProviderError::unsupported(
                "a screen; attach to the serial console",
            ));
        }
        self.call(Rpc::Console, |inner, _| {
            let vm = inner.state.powered(vm)?;
            Ok(inner.consoles.attach(vm))
        })
        .await
    }
}

impl Mock {
    /// The owner, as far as this mock understands owners.
    fn heard(&self, owner: Option<Owner>) -> Option<Owner> {
        owner.filter(|_| self.config.offer == Offer::Full)
    }

    fn spoken(&self, vm: &VmRef) -> VmRef {
        VmRef {
            id: vm.id.clone(),
            owner: self.heard(vm.owner.clone()),
        }
    }

    /// What a `provider.v1` server without extensions can say of a VM.
    fn shown(&self, state: VmState) -> VmState {
        match self.config.offer {
            Offer::Full => state,
            Offer::Basic => VmState {
                owner: None,
                revision: 0,
                restart_required: Vec::new(),
                last_request: None,
                snapshots: None,
                ..state
            },
        }
    }
}

/// The bytes of the disk that is to be exported.
fn content(inner: &Inner, request: &ExportDisk) -> Result<bytes::Bytes> {
    match inner.state.content(request)? {
        Content::Label(bytes) => Ok(bytes),
        Content::Imported(sha256) => {
            let stored = inner
                .store
                .disk(&sha256)
                .map_err(|error| ProviderError::new(ErrorKind::Internal, error.to_string()))?;
            stored.ok_or_else(|| ProviderError::not_found("The imported disk of this VM"))
        }
    }
}
