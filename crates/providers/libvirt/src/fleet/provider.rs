//! The contract, call by call: who has the VM, and then the same call there.

use async_trait::async_trait;
use futures::future::join_all;
use futures::stream::BoxStream;
use polyvirt_contract::model::{
    CloneVm, Cloned, ConsoleKind, ConsoleSession, CreateVm, Created, DiskInfo, ExecOutput,
    ExecRequest, Inventory, MigrateVm, MigrationProgress, PowerRequest, PrepareImage,
    PreparedImage, SnapshotCreated, SnapshotRequest, VmRef, VmState, VmUsage,
};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{
    Capabilities, ErrorKind, Features, Identity, Provider, ProviderError, RequestId, Result,
    SnapshotId, TaskId, VmId,
};
use polyvirt_provider_kit::fleet::choice;

use super::{Fleet, told};
use crate::{image, inventory, offer};

#[async_trait]
impl Provider for Fleet {
    async fn validate(&self) -> Result<()> {
        self.any_answers().await?;
        // Names are told by hosts that answer.
        self.candidates().await;
        self.check_host_names()
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        Ok(offer::capabilities())
    }

    async fn features(&self) -> Result<Features> {
        Ok(offer::features(self.hosts.len()))
    }

    async fn create(&self, request: CreateVm) -> Result<Created> {
        self.create_somewhere(request).await
    }

    async fn delete(&self, vm: &VmRef) -> Result<Option<TaskId>> {
        self.of(vm).await?.delete(vm).await
    }

    async fn power(&self, vm: &VmRef, request: PowerRequest) -> Result<Option<TaskId>> {
        self.of(vm).await?.power(vm, request).await
    }

    async fn reconfigure(&self, vm: &VmRef, desired: CreateVm) -> Result<Option<TaskId>> {
        self.of(vm).await?.reconfigure(vm, desired).await
    }

    async fn describe(&self, vm: &VmId) -> Result<Option<VmState>> {
        match self.holder(vm).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            host => host?.describe(vm).await,
        }
    }

    async fn task_status(&self, task: &TaskId) -> Result<TaskState> {
        let mut hosts = self.hosts.iter();
        let state = hosts.find_map(|host| host.core.tasks.status(task));
        state.ok_or_else(|| ProviderError::not_found(format!("The task {task}")))
    }

    async fn snapshot_create(
        &self,
        vm: &VmRef,
        request: SnapshotRequest,
    ) -> Result<SnapshotCreated> {
        self.of(vm).await?.snapshot_create(vm, request).await
    }

    async fn snapshot_delete(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        self.of(vm).await?.snapshot_delete(vm, snapshot).await
    }

    async fn snapshot_revert(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        self.of(vm).await?.snapshot_revert(vm, snapshot).await
    }

    /// On the host of the source: its disks are there.
    async fn clone_vm(&self, request: CloneVm) -> Result<Cloned> {
        let key = super::key(request.owner.as_ref(), &request.target_name);
        let _alone = self.book.turn(&key).await;
        self.check_name(request.owner.as_ref(), &request.target_name)?;
        self.holder(&request.source).await?.clone_vm(request).await
    }

    /// On every host that answers. One that is away brings it when its first VM needs it.
    async fn image_prepare(&self, request: PrepareImage) -> Result<PreparedImage> {
        let hosts = self.hosts.iter();
        let answers = join_all(hosts.map(|host| host.image_prepare(request.clone()))).await;
        let (prepared, failed): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        let mut prepared: Vec<PreparedImage> = prepared.into_iter().flatten().collect();
        // The one that is still at work is the one to wait for.
        prepared.sort_by_key(|image| image.task.is_none());
        let why = failed.into_iter().find_map(Result::err);
        let none = || why.unwrap_or_else(|| choice::unavailable("There is no host".to_owned()));
        prepared.into_iter().next().ok_or_else(none)
    }

    /// Hosts may share the pool that the image is in: what any of them needs is deleted on none.
    /// Its other versions go with it, but for those that a VM is built upon.
    async fn image_delete(&self, image: &PreparedImage) -> Result<()> {
        self.delete_image(image).await?;
        for host in &self.hosts {
            for other in image::others(&host.core, image).await.unwrap_or_default() {
                if let Err(error) = self.delete_image(&other).await {
                    tracing::debug!(image = %other.id, %error, "A version of an image is left");
                }
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
        let host = self.holder(vm).await?;
        host.disk_info(vm, disk, snapshot).await
    }

    /// VMs of a host that is away are told as unknown. One that has never answered may have any: then there is no list.
    async fn list_vms(&self) -> Result<Vec<VmState>> {
        let lists = join_all(self.hosts.iter().map(|host| host.list_vms())).await;
        let mut all = Vec::new();
        for (place, (host, list)) in self.hosts.iter().zip(lists).enumerate() {
            let list = match list {
                Ok(list) => list,
                Err(error) if !host.core.has_told_all() => return Err(error),
                Err(_) => host.core.states().into_iter().map(told::unknown).collect(),
            };
            let here = |state: &VmState| !told::stands_back(self.cores(), place, &state.id);
            all.extend(list.into_iter().filter(here));
        }
        Ok(all)
    }

    async fn find(&self, identity: &Identity) -> Result<Option<VmState>> {
        let found = self.find_state(identity).await?;
        Ok(found.map(|(_, state)| state))
    }

    async fn watch(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
        Ok(told::merged(&self.hosts))
    }

    async fn inventory(&self) -> Result<Inventory> {
        let hosts = self.hosts.iter();
        let all = join_all(hosts.map(|host| async {
            let told = host.inventory().await;
            told.unwrap_or_else(|_| inventory::of_absent(&host.core))
        }))
        .await;
        Ok(inventory::merged(all))
    }

    /// What the hosts tell that answer.
    async fn usage(&self) -> Result<Vec<VmUsage>> {
        let told = join_all(self.hosts.iter().map(|host| host.usage())).await;
        Ok(told.into_iter().flatten().flatten().collect())
    }

    async fn guest_exec(&self, vm: &VmRef, request: ExecRequest) -> Result<ExecOutput> {
        self.of(vm).await?.guest_exec(vm, request).await
    }

    async fn migrate(&self, vm: &VmRef, request: MigrateVm) -> Result<Option<TaskId>> {
        Box::pin(self.move_vm(vm, request)).await
    }

    async fn migration_progress(&self, task: &TaskId) -> Result<MigrationProgress> {
        self.moves.progress(task)
    }

    async fn cancel_migration(&self, vm: &VmRef, request: &RequestId) -> Result<()> {
        self.moves.stop(vm, request)
    }

    async fn console(&self, vm: &VmRef, kind: ConsoleKind) -> Result<ConsoleSession> {
        self.of(vm).await?.console(vm, kind).await
    }
}

impl Fleet {
    /// Deletes one version of an image, wherever it is, if no VM of any host needs it.
    async fn delete_image(&self, image: &PreparedImage) -> Result<()> {
        for host in &self.hosts {
            image::must_be_unused(&host.core, image).await?;
        }
        // One after the other: on storage that they share the first deletes it for all.
        let mut answers = Vec::new();
        for host in &self.hosts {
            answers.push(image::delete(&host.core, image).await);
        }
        let absent =
            |answer: &Result<()>| matches!(answer, Err(e) if e.kind == ErrorKind::NotFound);
        let nowhere = answers.iter().all(absent);
        let mut told = answers
            .into_iter()
            .filter(|answer| nowhere || !absent(answer));
        told.find(Result::is_err).unwrap_or(Ok(()))
    }
}
