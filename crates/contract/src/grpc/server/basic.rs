//! `provider.v1`, call by call.

use tonic::metadata::MetadataMap;
use tonic::{Request, Response};

use crate::error::{ErrorKind, ProviderError};
use crate::ids::{SnapshotId, TaskId};
use crate::model::{CloneVm, CreateVm, PowerRequest, PrepareImage};
use crate::watch::TaskState;
use crate::wire::v1::provider_server::Provider;
use crate::wire::{reconfigured, v1};

use super::super::metadata;
use super::super::status::to_status;
use super::{Answer, Server, answer, task_answer, vm_id, vm_ref};

#[tonic::async_trait]
impl Provider for Server {
    async fn validate(&self, _: Request<v1::ValidateRequest>) -> Answer<v1::ValidateResponse> {
        Ok(Response::new(match self.provider.validate().await {
            Ok(()) => v1::ValidateResponse {
                ok: true,
                ..Default::default()
            },
            Err(error) => refused(error),
        }))
    }

    async fn create(&self, request: Request<v1::CreateRequest>) -> Answer<v1::CreateResponse> {
        let owner = metadata::owner(request.metadata()).map_err(to_status)?;
        let vm = CreateVm::try_from(request.into_inner()).map_err(to_status)?;
        answer(self.provider.create(CreateVm { owner, ..vm }).await)
    }

    async fn delete(&self, request: Request<v1::DeleteRequest>) -> Answer<v1::TaskResponse> {
        let (metadata, _, message) = request.into_parts();
        let vm = vm_ref(&metadata, message.id)?;
        task_answer(self.provider.delete(&vm).await)
    }

    async fn power(&self, request: Request<v1::PowerRequest>) -> Answer<v1::TaskResponse> {
        let (metadata, _, message) = request.into_parts();
        let power = PowerRequest {
            op: message.power_op().map_err(to_status)?,
            request: metadata::request(&metadata).map_err(to_status)?,
        };
        let vm = vm_ref(&metadata, message.id)?;
        task_answer(self.provider.power(&vm, power).await)
    }

    async fn reconfigure(
        &self,
        request: Request<v1::ReconfigureRequest>,
    ) -> Answer<v1::TaskResponse> {
        let (metadata, _, message) = request.into_parts();
        let (id, mut desired) = reconfigured(message).map_err(to_status)?;
        let vm = vm_ref(&metadata, id.to_string())?;
        desired.owner.clone_from(&vm.owner);
        task_answer(self.provider.reconfigure(&vm, desired).await)
    }

    async fn hardware_upgrade(
        &self,
        request: Request<v1::HardwareUpgradeRequest>,
    ) -> Answer<v1::TaskResponse> {
        let (metadata, _, message) = request.into_parts();
        let vm = vm_ref(&metadata, message.id)?;
        task_answer(
            self.provider
                .hardware_upgrade(&vm, message.target_version)
                .await,
        )
    }

    async fn describe(
        &self,
        request: Request<v1::DescribeRequest>,
    ) -> Answer<v1::DescribeResponse> {
        let vm = vm_id(request.into_inner().id)?;
        match self.provider.describe(&vm).await {
            Err(error) if error.kind == ErrorKind::NotFound => answer(Ok(None)),
            found => answer(found),
        }
    }

    async fn task_status(
        &self,
        request: Request<v1::TaskStatusRequest>,
    ) -> Answer<v1::TaskStatusResponse> {
        let (metadata, _, message) = request.into_parts();
        let named = message.task.and_then(|t| TaskId::non_empty(t.id));
        let task = named.ok_or_else(|| {
            to_status(ProviderError::invalid("task", "The request names no task"))
        })?;
        match self.provider.task_status(&task).await {
            // A provider that restarted knows none of its earlier tasks. A manager that knows `provider.v1` only polls on
            // `NotFound` indefinitely; after `done` it describes the VM, and creates it if it is not there.
            Err(error) if is_forgotten(&error, &task, &metadata) => {
                answer(Ok(TaskState::Succeeded))
            }
            state => answer(state),
        }
    }

    async fn snapshot_create(
        &self,
        request: Request<v1::SnapshotCreateRequest>,
    ) -> Answer<v1::SnapshotCreateResponse> {
        let (metadata, _, message) = request.into_parts();
        let vm = vm_ref(&metadata, message.vm_id.clone())?;
        answer(self.provider.snapshot_create(&vm, message.into()).await)
    }

    async fn snapshot_delete(
        &self,
        request: Request<v1::SnapshotDeleteRequest>,
    ) -> Answer<v1::TaskResponse> {
        let (metadata, _, message) = request.into_parts();
        let vm = vm_ref(&metadata, message.vm_id)?;
        let snapshot = SnapshotId::from(message.snapshot_id);
        task_answer(self.provider.snapshot_delete(&vm, &snapshot).await)
    }

    async fn snapshot_revert(
        &self,
        request: Request<v1::SnapshotRevertRequest>,
    ) -> Answer<v1::TaskResponse> {
        let (metadata, _, message) = request.into_parts();
        let vm = vm_ref(&metadata, message.vm_id)?;
        let snapshot = SnapshotId::from(message.snapshot_id);
        task_answer(self.provider.snapshot_revert(&vm, &snapshot).await)
    }

    async fn clone(&self, request: Request<v1::CloneRequest>) -> Answer<v1::CloneResponse> {
        let owner = metadata::owner(request.metadata()).map_err(to_status)?;
        let clone = CloneVm::try_from(request.into_inner()).map_err(to_status)?;
        answer(self.provider.clone_vm(CloneVm { owner, ..clone }).await)
    }

    async fn image_prepare(
        &self,
        request: Request<v1::ImagePrepareRequest>,
    ) -> Answer<v1::ImagePrepareResponse> {
        let image = PrepareImage::try_from(request.into_inner()).map_err(to_status)?;
        answer(self.provider.image_prepare(image).await)
    }

    async fn get_capabilities(
        &self,
        _: Request<v1::GetCapabilitiesRequest>,
    ) -> Answer<v1::GetCapabilitiesResponse> {
        answer(self.provider.capabilities().await)
    }

    async fn export_disk(
        &self,
        request: Request<v1::ExportDiskRequest>,
    ) -> Answer<v1::ExportDiskResponse> {
        answer(self.provider.export_disk(request.into_inner().into()).await)
    }

    async fn import_disk(
        &self,
        request: Request<v1::ImportDiskRequest>,
    ) -> Answer<v1::ImportDiskResponse> {
        answer(self.provider.import_disk(request.into_inner().into()).await)
    }

    async fn get_disk_info(
        &self,
        request: Request<v1::GetDiskInfoRequest>,
    ) -> Answer<v1::GetDiskInfoResponse> {
        let message = request.into_inner();
        let vm = vm_id(message.vm_id)?;
        let snapshot = SnapshotId::non_empty(message.snapshot_id);
        answer(
            self.provider
                .disk_info(&vm, &message.disk_id, snapshot.as_ref())
                .await,
        )
    }

    async fn list_v_ms(&self, _: Request<v1::ListVMsRequest>) -> Answer<v1::ListVMsResponse> {
        let vms = self.provider.list_vms().await.map_err(to_status)?;
        let vms = vms.into_iter().map(Into::into).collect();
        Ok(Response::new(v1::ListVMsResponse { vms }))
    }
}

fn refused(error: ProviderError) -> v1::ValidateResponse {
    v1::ValidateResponse {
        ok: false,
        message: error.message,
        error_kind: error.kind.reason().to_owned(),
        error_field: error.field.unwrap_or_default(),
    }
}

/// Whether the task may be one of an earlier life of this provider, and the caller cannot act on `NotFound`.
fn is_forgotten(error: &ProviderError, task: &TaskId, metadata: &MetadataMap) -> bool {
    error.kind == ErrorKind::NotFound
        && is_numbered(task)
        && !metadata::knows_forgotten_tasks(metadata)
}

/// All our providers end the id of a task with `-` and its number.
fn is_numbered(task: &TaskId) -> bool {
    let number = task.as_str().rsplit_once('-').map(|(_, number)| number);
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}
