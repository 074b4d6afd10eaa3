//! The trait, call by call.

use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::capabilities::{Capabilities, Features};
use crate::error::{ErrorKind, ProviderError};
use crate::ids::{Identity, RequestId, SnapshotId, TaskId, VmId};
use crate::model::{
    CloneVm, Cloned, ConsoleKind, ConsoleSession, CreateVm, Created, DiskExported, DiskImported,
    DiskInfo, ExecOutput, ExecRequest, ExportDisk, Handover, ImageIdentity, ImportDisk, Inventory,
    Landing, Luggage, MigrateVm, MigrationProgress, MoveState, PowerRequest, PrepareImage,
    PreparedImage, Sending, SettleMove, SnapshotCreated, SnapshotRequest, VmRef, VmState, VmUsage,
};
use crate::provider::{Provider, Result};
use crate::watch::{TaskState, VmEvent};
use crate::wire::ext::find_vm_request::By;
use crate::wire::v1::provider_client::ProviderClient;
use crate::wire::{ext, failure, kind_of_word, reconfigure_request, task_id, v1};

use super::super::deadline::Call;
use super::super::metadata;
use super::Client;
use super::extensions::required;
use super::peer::Peer;
use super::streams::console_open;

#[deny(
    clippy::missing_trait_methods,
    reason = "a call without a line here is answered by the trait's default and never reaches the provider"
)]
#[async_trait]
impl Provider for Client {
    async fn validate(&self) -> Result<()> {
        let request = self.request(Call::Validate, v1::ValidateRequest {});
        let mut client = self.v1.clone();
        let answer = self
            .answer(Call::Validate, client.validate(request))
            .await?;
        validated(answer)
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        let request = self.request(Call::GetCapabilities, v1::GetCapabilitiesRequest {});
        let mut client = self.v1.clone();
        let sent = client.get_capabilities(request);
        let can = Capabilities::from(self.answer(Call::GetCapabilities, sent).await?);
        let foreign = matches!(self.peer().await, Ok(Peer::Basic));
        if foreign {
            self.known.learn(&can);
        }
        Ok(can)
    }

    async fn create(&self, request: CreateVm) -> Result<Created> {
        let host = request.placement.as_ref().map(|p| p.host.clone());
        let host = host.unwrap_or_default();
        let message = v1::CreateRequest {
            target_host_id: self.known.target(&host),
            ..v1::CreateRequest::try_from(&request)?
        };
        let request = self.request_for(Call::Create, message, request.owner.as_ref());
        let mut client = self.v1.clone();
        let answer = self.answer(Call::Create, client.create(request)).await?;
        let created = Created::from(answer);
        self.known.is_on(&created.id, &host);
        Ok(created)
    }

    async fn delete(&self, vm: &VmRef) -> Result<Option<TaskId>> {
        let message = v1::DeleteRequest {
            id: vm.id.to_string(),
            target_host_id: self.known.host_of(&vm.id),
            owner: vm.owner.as_ref().map(Into::into),
        };
        let request = self.request_for(Call::Delete, message, vm.owner.as_ref());
        let mut client = self.v1.clone();
        let answer = self.answer(Call::Delete, client.delete(request)).await?;
        self.known.forget(&vm.id);
        Ok(task_id(answer.task))
    }

    async fn power(&self, vm: &VmRef, request: PowerRequest) -> Result<Option<TaskId>> {
        let message = v1::PowerRequest {
            target_host_id: self.known.host_of(&vm.id),
            owner: vm.owner.as_ref().map(Into::into),
            ..v1::PowerRequest::new(&vm.id, request.op)
        };
        let mut sent = self.request_for(Call::Power, message, vm.owner.as_ref());
        metadata::put_request(sent.metadata_mut(), request.request.as_ref());
        let mut client = self.v1.clone();
        let answer = self.answer(Call::Power, client.power(sent)).await?;
        Ok(task_id(answer.task))
    }

    async fn reconfigure(&self, vm: &VmRef, desired: CreateVm) -> Result<Option<TaskId>> {
        let message = v1::ReconfigureRequest {
            target_host_id: self.known.host_of(&vm.id),
            owner: vm.owner.as_ref().map(Into::into),
            ..reconfigure_request(&vm.id, &desired)?
        };
        let request = self.request_for(Call::Reconfigure, message, vm.owner.as_ref());
        let mut client = self.v1.clone();
        let answer = self
            .answer(Call::Reconfigure, client.reconfigure(request))
            .await?;
        self.known.changed(&vm.id, answer.restart_required);
        Ok(task_id(answer.task))
    }

    async fn hardware_upgrade(&self, vm: &VmRef, version: i32) -> Result<Option<TaskId>> {
        let message = v1::HardwareUpgradeRequest {
            id: vm.id.to_string(),
            target_version: version,
            target_host_id: self.known.host_of(&vm.id),
        };
        let request = self.request_for(Call::HardwareUpgrade, message, vm.owner.as_ref());
        let mut client = self.v1.clone();
        let answer = self
            .answer(Call::HardwareUpgrade, client.hardware_upgrade(request))
            .await?;
        Ok(task_id(answer.task))
    }

    async fn describe(&self, vm: &VmId) -> Result<Option<VmState>> {
        if let Peer::Extended(_) = self.peer().await?
            && let Some(found) = self.find_vm(By::Id(vm.to_string())).await?
        {
            return Ok(found);
        }
        self.describe_basic(vm).await
    }

    async fn task_status(&self, task: &TaskId) -> Result<TaskState> {
        let task = Some(v1::TaskRef {
            id: task.to_string(),
        });
        let mut request = self.request(Call::TaskStatus, v1::TaskStatusRequest { task });
        metadata::put_forgotten_tasks(request.metadata_mut());
        let mut client = self.v1.clone();
        Ok(self
            .answer(Call::TaskStatus, client.task_status(request))
            .await?
            .into())
    }

    async fn snapshot_create(
        &self,
        vm: &VmRef,
        request: SnapshotRequest,
    ) -> Result<SnapshotCreated> {
        let message = v1::SnapshotCreateRequest {
            target_host_id: self.known.host_of(&vm.id),
            ..v1::SnapshotCreateRequest::new(&vm.id, request)
        };
        let request = self.request_for(Call::SnapshotCreate, message, vm.owner.as_ref());
        let mut client = self.v1.clone();
        let answer = self
            .answer(Call::SnapshotCreate, client.snapshot_create(request))
            .await?;
        Ok(answer.into())
    }

    async fn snapshot_delete(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        let message = v1::SnapshotDeleteRequest {
            vm_id: vm.id.to_string(),
            snapshot_id: snapshot.to_string(),
            target_host_id: self.known.host_of(&vm.id),
        };
        let request = self.request_for(Call::SnapshotDelete, message, vm.owner.as_ref());
        let mut client = self.v1.clone();
        let answer = self
            .answer(Call::SnapshotDelete, client.snapshot_delete(request))
            .await?;
        Ok(task_id(answer.task))
    }

    async fn snapshot_revert(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        let message = v1::SnapshotRevertRequest {
            vm_id: vm.id.to_string(),
            snapshot_id: snapshot.to_string(),
            target_host_id: self.known.host_of(&vm.id),
        };
        let request = self.request_for(Call::SnapshotRevert, message, vm.owner.as_ref());
        let mut client = self.v1.clone();
        let answer = self
            .answer(Call::SnapshotRevert, client.snapshot_revert(request))
            .await?;
        Ok(task_id(answer.task))
    }

    async fn clone_vm(&self, request: CloneVm) -> Result<Cloned> {
        let message = v1::CloneRequest {
            source_host_id: self.known.host_of(&request.source),
            ..v1::CloneRequest::try_from(&request)?
        };
        let request = self.request_for(Call::Clone, message, request.owner.as_ref());
        let mut client = self.v1.clone();
        let sent = ProviderClient::clone(&mut client, request);
        Ok(self.answer(Call::Clone, sent).await?.into())
    }

    async fn image_prepare(&self, request: PrepareImage) -> Result<PreparedImage> {
        let mut message = v1::ImagePrepareRequest::try_from(&request)?;
        let identity = self.artifact_identity(&request);
        if let Some(identity) = &identity {
            message.target_name.clear();
            message.image = Some((&identity.image).into());
            message.source_digest.clone_from(&identity.source_digest);
        }
        let request = self.request(Call::ImagePrepare, message);
        let mut client = self.v1.clone();
        let answer = self
            .answer(Call::ImagePrepare, client.image_prepare(request))
            .await?;
        if let Some(identity) = &identity {
            of_that_image(&answer, identity)?;
        }
        Ok(answer.into())
    }

    async fn export_disk(&self, request: ExportDisk) -> Result<DiskExported> {
        let message = v1::ExportDiskRequest {
            target_host_id: self.known.host_of(&request.vm),
            ..request.into()
        };
        let request = self.request(Call::ExportDisk, message);
        let mut client = self.v1.clone();
        Ok(self
            .answer(Call::ExportDisk, client.export_disk(request))
            .await?
            .into())
    }

    async fn import_disk(&self, request: ImportDisk) -> Result<DiskImported> {
        let request = self.request(Call::ImportDisk, request.into());
        let mut client = self.v1.clone();
        Ok(self
            .answer(Call::ImportDisk, client.import_disk(request))
            .await?
            .into())
    }

    async fn disk_info(
        &self,
        vm: &VmId,
        disk: &str,
        snapshot: Option<&SnapshotId>,
    ) -> Result<DiskInfo> {
        let message = v1::GetDiskInfoRequest {
            vm_id: vm.to_string(),
            disk_id: disk.to_owned(),
            snapshot_id: snapshot.map(ToString::to_string).unwrap_or_default(),
            target_host_id: self.known.host_of(vm),
        };
        let request = self.request(Call::GetDiskInfo, message);
        let mut client = self.v1.clone();
        Ok(self
            .answer(Call::GetDiskInfo, client.get_disk_info(request))
            .await?
            .into())
    }

    async fn list_vms(&self) -> Result<Vec<VmState>> {
        if let Peer::Extended(_) = self.peer().await?
            && let Some(vms) = self.list_extended().await?
        {
            return Ok(vms);
        }
        self.list_basic().await
    }

    fn is_on(&self, vm: &VmId, host: &str) {
        self.known.is_on(vm, host);
    }

    async fn features(&self) -> Result<Features> {
        Ok(match self.peer().await? {
            Peer::Extended(features) => features,
            Peer::Basic => Features::default(),
        })
    }

    async fn find(&self, identity: &Identity) -> Result<Option<VmState>> {
        let found = self.find_vm(By::Identity(identity.to_string())).await?;
        required(found, "look-up by identity")
    }

    async fn watch(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
        self.watch_stream().await
    }

    async fn image_delete(&self, image: &PreparedImage) -> Result<()> {
        let message = ext::DeleteImageRequest {
            id: image.id.to_string(),
            path: image.path.clone(),
        };
        let request = self.request(Call::DeleteImage, message);
        let limit = self.deadlines.of(Call::DeleteImage);
        let mut client = self.ext.clone();
        let answer = self.extended(limit, client.delete_image(request)).await?;
        required(answer, "deleting images").map(|_| ())
    }

    async fn inventory(&self) -> Result<Inventory> {
        let request = self.request(Call::Inventory, ext::InventoryRequest {});
        let limit = self.deadlines.of(Call::Inventory);
        let mut client = self.ext.clone();
        match self.extended(limit, client.inventory(request)).await? {
            Some(answer) => Ok(answer.into()),
            None => self.hosts_basic().await,
        }
    }

    async fn guest_exec(&self, vm: &VmRef, request: ExecRequest) -> Result<ExecOutput> {
        let limit = self
            .deadlines
            .of(Call::GuestExec)
            .saturating_add(request.timeout);
        let message = ext::GuestExecRequest::new(&vm.id, request);
        let mut sent = self.request_for(Call::GuestExec, message, vm.owner.as_ref());
        sent.set_timeout(limit);
        let mut client = self.ext.clone();
        let answer = self.extended(limit, client.guest_exec(sent)).await?;
        Ok(required(answer, "commands in the guest")?.into())
    }

    async fn migrate(&self, vm: &VmRef, request: MigrateVm) -> Result<Option<TaskId>> {
        let message = ext::MigrateRequest::new(&vm.id, request);
        let sent = self.request_for(Call::Migrate, message, vm.owner.as_ref());
        let limit = self.deadlines.of(Call::Migrate);
        let mut client = self.ext.clone();
        let answer = self.extended(limit, client.migrate(sent)).await?;
        let answer = required(answer, "moving VMs between hosts")?;
        Ok(TaskId::non_empty(answer.task_id))
    }

    async fn migration_progress(&self, task: &TaskId) -> Result<MigrationProgress> {
        let task_id = task.to_string();
        let message = ext::GetMigrationProgressRequest { task_id };
        let sent = self.request(Call::GetMigrationProgress, message);
        let limit = self.deadlines.of(Call::GetMigrationProgress);
        let mut client = self.ext.clone();
        let answer = self.extended(limit, client.get_migration_progress(sent));
        Ok(required(answer.await?, "moving VMs between hosts")?.into())
    }

    async fn cancel_migration(&self, vm: &VmRef, request: &RequestId) -> Result<()> {
        let message = ext::CancelMigrationRequest {
            vm_id: vm.id.to_string(),
            request_id: request.to_string(),
        };
        let sent = self.request_for(Call::CancelMigration, message, vm.owner.as_ref());
        let limit = self.deadlines.of(Call::CancelMigration);
        let mut client = self.ext.clone();
        let answer = self.extended(limit, client.cancel_migration(sent)).await?;
        required(answer, "stopping a move").map(drop)
    }

    async fn pack_vm(&self, handover: &Handover) -> Result<Luggage> {
        self.pack(handover).await
    }

    async fn receive_vm(
        &self,
        handover: &Handover,
        luggage: Luggage,
        address: &str,
    ) -> Result<Landing> {
        self.receive(handover, luggage, address).await
    }

    async fn send_vm(
        &self,
        handover: &Handover,
        landing: &Landing,
    ) -> Result<BoxStream<'static, Result<Sending>>> {
        self.send(handover, landing).await
    }

    async fn moves(&self, vm: Option<&VmId>) -> Result<Vec<MoveState>> {
        self.list_moves(vm).await
    }

    async fn settle_move(&self, settle: &SettleMove) -> Result<()> {
        self.settle(settle).await
    }

    async fn usage(&self) -> Result<Vec<VmUsage>> {
        let sent = self.request(Call::GetUsage, ext::GetUsageRequest {});
        let limit = self.deadlines.of(Call::GetUsage);
        let mut client = self.ext.clone();
        let answer = self.extended(limit, client.get_usage(sent)).await?;
        Ok(required(answer, "the usage of VMs")?.into())
    }

    async fn console(&self, vm: &VmRef, kind: ConsoleKind) -> Result<ConsoleSession> {
        self.console_session(console_open(vm, kind)).await
    }
}

/// What was prepared for another image, or for none that is named, must not be taken for ours.
fn of_that_image(answer: &v1::ImagePrepareResponse, identity: &ImageIdentity) -> Result<()> {
    let artifact = answer.artifact.as_ref();
    if artifact.is_some_and(|artifact| artifact.is_of(identity)) {
        return Ok(());
    }
    Err(ProviderError::new(
        ErrorKind::Internal,
        "The provider prepared another image than the one that was requested. Upgrade the provider",
    ))
}

/// A peer that only says "no" is taken to be out of reach of its hypervisor.
fn validated(answer: v1::ValidateResponse) -> Result<()> {
    if answer.ok {
        return Ok(());
    }
    if kind_of_word(&answer.error_kind).is_some() {
        return Err(failure(
            answer.message,
            &answer.error_kind,
            answer.error_field,
        ));
    }
    Err(ProviderError::new(ErrorKind::Unavailable, answer.message))
}
