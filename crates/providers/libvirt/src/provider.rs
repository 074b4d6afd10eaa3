//! The contract, call by call. Each is one line of intent; the work is elsewhere.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use polyvirt_contract::model::{
    CloneVm, Cloned, ConsoleKind, ConsoleSession, CreateVm, Created, DiskInfo, ExecOutput,
    ExecRequest, Inventory, PowerRequest, PrepareImage, PreparedImage, SnapshotCreated,
    SnapshotRequest, VmRef, VmState, VmUsage,
};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{
    Capabilities, ErrorKind, Features, Identity, Provider, ProviderError, Result, SnapshotId,
    TaskId, VmId,
};

use crate::config::LibvirtConfig;
use crate::core::{Core, Revisions};
use crate::{
    clone, console, create, disk_info, guest, image, inventory, look, offer, power, reconfigure,
    remove, revert, sizes, snapshot, usage,
};

/// A provider whose VMs are domains of a libvirt, on this machine or another.
///
/// Dropping it ends its tasks and streams, and closes the connection. VMs go on.
pub struct Libvirt {
    pub(crate) core: Arc<Core>,
}

impl std::fmt::Debug for Libvirt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Libvirt")
            .field("config", &self.core.config)
            .finish_non_exhaustive()
    }
}

impl Drop for Libvirt {
    fn drop(&mut self) {
        self.core.stop.cancel();
    }
}

impl Libvirt {
    /// Begins to connect. A libvirt that does not answer is told of by `validate`, and connected to when it does.
    pub fn open(config: LibvirtConfig) -> Arc<Self> {
        Self::open_among(config, Revisions::begin())
    }

    /// The same as one of several hosts, which number what they tell together.
    pub(crate) fn open_among(config: LibvirtConfig, revisions: Arc<Revisions>) -> Arc<Self> {
        let core = Core::open(config, revisions);
        let (looks, stop) = (look::keep_looking(Arc::downgrade(&core)), core.stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = looks => {}
            }
        });
        Arc::new(Self { core })
    }
}

#[async_trait]
impl Provider for Libvirt {
    async fn validate(&self) -> Result<()> {
        let session = self.core.session().await?;
        tokio::try_join!(session.version(), session.hypervisor_version())?;
        Ok(())
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        Ok(offer::capabilities())
    }

    async fn features(&self) -> Result<Features> {
        Ok(offer::features(1))
    }

    async fn create(&self, request: CreateVm) -> Result<Created> {
        create::create(&self.core, request).await
    }

    async fn delete(&self, vm: &VmRef) -> Result<Option<TaskId>> {
        remove::delete(&self.core, self.core.allowed(vm).await?).await
    }

    async fn power(&self, vm: &VmRef, request: PowerRequest) -> Result<Option<TaskId>> {
        power::power(&self.core, self.core.allowed(vm).await?, request).await
    }

    async fn reconfigure(&self, vm: &VmRef, desired: CreateVm) -> Result<Option<TaskId>> {
        reconfigure::reconfigure(&self.core, self.core.allowed(vm).await?, desired).await
    }

    async fn describe(&self, vm: &VmId) -> Result<Option<VmState>> {
        match self.core.by_id(vm).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            found => Ok(Some(found?.state())),
        }
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
        snapshot::create(&self.core, self.core.allowed(vm).await?, request).await
    }

    async fn snapshot_delete(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        snapshot::delete(&self.core, self.core.allowed(vm).await?, snapshot.clone()).await
    }

    async fn snapshot_revert(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        revert::revert(&self.core, self.core.allowed(vm).await?, snapshot.clone()).await
    }

    async fn clone_vm(&self, request: CloneVm) -> Result<Cloned> {
        clone::clone_vm(&self.core, request).await
    }

    async fn image_prepare(&self, request: PrepareImage) -> Result<PreparedImage> {
        image::prepare(&self.core, &request).await
    }

    async fn image_delete(&self, image: &PreparedImage) -> Result<()> {
        image::delete(&self.core, image).await?;
        for other in image::others(&self.core, image).await.unwrap_or_default() {
            if let Err(error) = image::delete(&self.core, &other).await {
                tracing::debug!(image = %other.id, %error, "A version of an image is left");
            }
        }
        Ok(())
    }

    async fn disk_info(
        &self,
        vm: &VmId,
        disk: &str,
        snapshot: Option<&SnapshotId>,
    ) -> Result<DiskInfo> {
        let vm = self.core.by_id(vm).await?;
        disk_info::disk_info(&self.core, &vm, disk, snapshot).await
    }

    async fn list_vms(&self) -> Result<Vec<VmState>> {
        let mut all = self.core.list().await?;
        sizes::fill(&self.core, &mut all).await;
        Ok(all)
    }

    async fn find(&self, identity: &Identity) -> Result<Option<VmState>> {
        let found = self.core.by_identity(identity).await?;
        Ok(found.map(|vm| vm.state()))
    }

    async fn watch(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
        let core = self.core.clone();
        // What is told first must be all that there is.
        core.list().await?;
        Ok(self
            .core
            .hub
            .subscribe(move || core.states(), self.core.stop.clone()))
    }

    async fn inventory(&self) -> Result<Inventory> {
        inventory::inventory(&self.core).await
    }

    async fn usage(&self) -> Result<Vec<VmUsage>> {
        usage::of_all(&self.core).await
    }

    async fn guest_exec(&self, vm: &VmRef, request: ExecRequest) -> Result<ExecOutput> {
        let vm = self.core.allowed(vm).await?;
        guest::exec(&self.core, &vm, &request).await
    }

    async fn console(&self, vm: &VmRef, kind: ConsoleKind) -> Result<ConsoleSession> {
        let vm = self.core.allowed(vm).await?;
        console::attach(&self.core, &vm, kind).await
    }
}
