//! The contract, call by call. Each is one line of intent; the work is elsewhere.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use polyvirt_contract::model::{
    CloneVm, Cloned, ConsoleKind, ConsoleSession, CreateVm, Created, DiskInfo, ExecOutput,
    ExecRequest, Handover, Inventory, Landing, Luggage, MoveState, PowerRequest, PrepareImage,
    PreparedImage, Sending, SettleMove, SnapshotCreated, SnapshotRequest, VmRef, VmState, VmUsage,
};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{
    Capabilities, Features, Identity, Provider, ProviderError, Result, SnapshotId, TaskId, VmId,
};

use crate::config::QemuConfig;
use crate::core::Core;
use crate::image::Source;
use crate::state::off_worker;
use crate::{
    agent, clone, console, disk_info, image, inventory, moving, offer, revert, snapshot, vm,
};

/// A provider that runs its VMs with QEMU on this machine.
///
/// Dropping it ends its tasks and streams. VMs go on, and the next one that opens the folder finds them.
pub struct Qemu {
    core: Arc<Core>,
}

impl std::fmt::Debug for Qemu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Qemu")
            .field("config", &self.core.config)
            .finish_non_exhaustive()
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.core.stop.cancel();
    }
}

impl Qemu {
    /// Opens the folder of VMs and finds those again that run. A QEMU that is not installed is told of by `validate`.
    pub async fn open(config: QemuConfig) -> Result<Arc<Self>> {
        let core = Core::open(config).await?;
        if let Err(error) = core.emulator().await {
            tracing::warn!(%error, "VMs cannot be started for now");
        }
        image::clear_leftovers(&core);
        let provider = Arc::new(Self { core });
        vm::recover(&provider.core).await?;
        Ok(provider)
    }
}

#[async_trait]
impl Provider for Qemu {
    async fn validate(&self) -> Result<()> {
        self.core.emulator().await.map(drop)
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        Ok(offer::capabilities())
    }

    async fn features(&self) -> Result<Features> {
        Ok(offer::features())
    }

    async fn create(&self, request: CreateVm) -> Result<Created> {
        vm::create(&self.core, request).await
    }

    async fn delete(&self, vm: &VmRef) -> Result<Option<TaskId>> {
        vm::delete(&self.core, self.core.changeable(vm)?).await
    }

    async fn power(&self, vm: &VmRef, request: PowerRequest) -> Result<Option<TaskId>> {
        vm::power(&self.core, self.core.changeable(vm)?, request).await
    }

    async fn reconfigure(&self, vm: &VmRef, desired: CreateVm) -> Result<Option<TaskId>> {
        vm::reconfigure(&self.core, self.core.changeable(vm)?, desired).await
    }

    async fn describe(&self, vm: &VmId) -> Result<Option<VmState>> {
        Ok(self.core.by_id(vm).ok().map(|vm| vm.state()))
    }

    async fn task_status(&self, task: &TaskId) -> Result<TaskState> {
        let state = self.core.tasks.status(task);
        state.ok_or_else(|| ProviderError::not_found(format!("The task {task}")))
    }

    async fn snapshot_create(
        &self,
        vm: &VmRef,
        request: SnapshotRequest,
    ) -> Result<SnapshotCreated> {
        snapshot::create(&self.core, self.core.changeable(vm)?, request).await
    }

    async fn snapshot_delete(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        snapshot::delete(&self.core, self.core.changeable(vm)?, snapshot.clone()).await
    }

    async fn snapshot_revert(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        revert::revert(&self.core, self.core.changeable(vm)?, snapshot.clone()).await
    }

    async fn clone_vm(&self, request: CloneVm) -> Result<Cloned> {
        clone::clone_vm(&self.core, request).await
    }

    async fn image_prepare(&self, request: PrepareImage) -> Result<PreparedImage> {
        let source = Source::of_request(&self.core, &request)?;
        let prepared = image::prepare(&self.core, source).await?;
        prepared.answer(&self.core).await
    }

    async fn image_delete(&self, image: &PreparedImage) -> Result<()> {
        image::delete(&self.core, image).await
    }

    async fn disk_info(
        &self,
        vm: &VmId,
        disk: &str,
        snapshot: Option<&SnapshotId>,
    ) -> Result<DiskInfo> {
        disk_info::disk_info(&self.core, &*self.core.by_id(vm)?, disk, snapshot).await
    }

    async fn list_vms(&self) -> Result<Vec<VmState>> {
        Ok(self.core.states())
    }

    async fn find(&self, identity: &Identity) -> Result<Option<VmState>> {
        Ok(self.core.by_identity(identity).map(|vm| vm.state()))
    }

    async fn watch(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
        let core = self.core.clone();
        Ok(self
            .core
            .hub
            .subscribe(move || core.states(), self.core.stop.clone()))
    }

    async fn inventory(&self) -> Result<Inventory> {
        Ok(off_worker(|| inventory::inventory(&self.core)))
    }

    async fn pack_vm(&self, handover: &Handover) -> Result<Luggage> {
        moving::pack(&self.core, handover).await
    }

    async fn receive_vm(
        &self,
        handover: &Handover,
        luggage: Luggage,
        address: &str,
    ) -> Result<Landing> {
        moving::receive(&self.core, handover, &luggage, address).await
    }

    async fn send_vm(
        &self,
        handover: &Handover,
        landing: &Landing,
    ) -> Result<BoxStream<'static, Result<Sending>>> {
        moving::send(&self.core, handover, landing)
    }

    async fn moves(&self, vm: Option<&VmId>) -> Result<Vec<MoveState>> {
        Ok(moving::moves(&self.core, vm).await)
    }

    async fn settle_move(&self, settle: &SettleMove) -> Result<()> {
        moving::settle(&self.core, settle).await
    }

    async fn usage(&self) -> Result<Vec<VmUsage>> {
        Ok(vm::usage::of_all(&self.core))
    }

    async fn guest_exec(&self, vm: &VmRef, request: ExecRequest) -> Result<ExecOutput> {
        agent::exec(&*self.core.allowed(vm)?, &request).await
    }

    async fn console(&self, vm: &VmRef, kind: ConsoleKind) -> Result<ConsoleSession> {
        console::attach(&*self.core.allowed(vm)?, kind).await
    }
}
