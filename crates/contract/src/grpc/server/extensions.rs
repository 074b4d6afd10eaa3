//! `polyvirt.provider.v1`, call by call.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tonic::{Request, Response, Status, Streaming};

use crate::error::{ErrorKind, ProviderError};
use crate::ids::{RequestId, VmId};
use crate::model::{Landing, Luggage, PreparedImage, SettleMove, VmState};
use crate::provider;
use crate::watch::VmEvent;
use crate::wire::ext;
use crate::wire::ext::extensions_server::Extensions;
use crate::wire::ext::find_vm_request::By;
use crate::wire::handover;

use super::super::status::to_status;
use super::{Answer, Server, answer, console, vm_id, vm_ref};

/// Small enough for any limit of a message, large enough to be cheap.
const VMS_PER_PART: usize = 128;

type Parts<T> = BoxStream<'static, Result<T, Status>>;

#[tonic::async_trait]
impl Extensions for Server {
    type ListVmsStream = Parts<ext::ListVmsResponse>;
    type WatchStream = Parts<ext::VmEvent>;
    type ConsoleStream = Parts<ext::ConsoleResponse>;
    type SendVmStream = Parts<ext::SendVmResponse>;

    async fn get_features(
        &self,
        _: Request<ext::GetFeaturesRequest>,
    ) -> Answer<ext::GetFeaturesResponse> {
        answer(self.provider.features().await)
    }

    async fn find_vm(&self, request: Request<ext::FindVmRequest>) -> Answer<ext::FindVmResponse> {
        let found = match request.into_inner().by {
            Some(By::Id(id)) => self.provider.describe(&vm_id(id)?).await,
            Some(By::Identity(identity)) => self.provider.find(&identity.into()).await,
            None => Err(ProviderError::invalid(
                "by",
                "Name the VM by its id or its identity",
            )),
        };
        let vm = match found {
            Err(error) if error.kind == ErrorKind::NotFound => None,
            other => other.map_err(to_status)?,
        };
        Ok(Response::new(ext::FindVmResponse {
            vm: vm.map(Into::into),
        }))
    }

    async fn list_vms(&self, _: Request<ext::ListVmsRequest>) -> Answer<Self::ListVmsStream> {
        let vms = self.provider.list_vms().await.map_err(to_status)?;
        Ok(Response::new(in_parts(vms)))
    }

    async fn watch(&self, _: Request<ext::WatchRequest>) -> Answer<Self::WatchStream> {
        let events = self.provider.watch().await.map_err(to_status)?;
        let stream = with_heartbeat(events, self.heartbeat)
            .map(|event| event.map(ext::VmEvent::from).map_err(to_status))
            .take_until(self.stop.clone().cancelled_owned());
        Ok(Response::new(stream.boxed()))
    }

    async fn inventory(&self, _: Request<ext::InventoryRequest>) -> Answer<ext::InventoryResponse> {
        answer(self.provider.inventory().await)
    }

    async fn delete_image(
        &self,
        request: Request<ext::DeleteImageRequest>,
    ) -> Answer<ext::DeleteImageResponse> {
        let message = request.into_inner();
        let image = PreparedImage {
            id: message.id.into(),
            path: message.path,
            task: None,
        };
        let deleted = self.provider.image_delete(&image).await;
        answer(deleted.map(|()| ext::DeleteImageResponse {}))
    }

    async fn guest_exec(
        &self,
        request: Request<ext::GuestExecRequest>,
    ) -> Answer<ext::GuestExecResponse> {
        let (metadata, _, message) = request.into_parts();
        let vm = vm_ref(&metadata, message.vm_id.clone())?;
        answer(self.provider.guest_exec(&vm, message.into()).await)
    }

    async fn migrate(&self, request: Request<ext::MigrateRequest>) -> Answer<ext::MigrateResponse> {
        let (metadata, _, message) = request.into_parts();
        let vm = vm_ref(&metadata, message.vm_id.clone())?;
        answer(self.provider.migrate(&vm, message.into()).await)
    }

    async fn get_migration_progress(
        &self,
        request: Request<ext::GetMigrationProgressRequest>,
    ) -> Answer<ext::GetMigrationProgressResponse> {
        let task = request.into_inner().task_id;
        answer(self.provider.migration_progress(&task.into()).await)
    }

    async fn cancel_migration(
        &self,
        request: Request<ext::CancelMigrationRequest>,
    ) -> Answer<ext::CancelMigrationResponse> {
        let (metadata, _, message) = request.into_parts();
        let vm = vm_ref(&metadata, message.vm_id)?;
        let request = RequestId::from(message.request_id);
        let stopped = self.provider.cancel_migration(&vm, &request).await;
        answer(stopped.map(|()| ext::CancelMigrationResponse {}))
    }

    async fn get_usage(&self, _: Request<ext::GetUsageRequest>) -> Answer<ext::GetUsageResponse> {
        answer(self.provider.usage().await)
    }

    async fn pack_vm(&self, request: Request<ext::PackVmRequest>) -> Answer<ext::PackVmResponse> {
        let handover = handover(request.into_inner().handover).map_err(to_status)?;
        answer(self.provider.pack_vm(&handover).await)
    }

    async fn receive_vm(
        &self,
        request: Request<ext::ReceiveVmRequest>,
    ) -> Answer<ext::ReceiveVmResponse> {
        let message = request.into_inner();
        let handover = handover(message.handover).map_err(to_status)?;
        let luggage = Luggage(message.description);
        let received = self
            .provider
            .receive_vm(&handover, luggage, &message.address);
        answer(received.await)
    }

    async fn send_vm(&self, request: Request<ext::SendVmRequest>) -> Answer<Self::SendVmStream> {
        let message = request.into_inner();
        let handover = handover(message.handover).map_err(to_status)?;
        let landing = message.landing.unwrap_or_default();
        let landing = Landing::try_from(landing).map_err(to_status)?;
        let sending = self.provider.send_vm(&handover, &landing).await;
        let told = sending
            .map_err(to_status)?
            .map(|part| part.map(Into::into).map_err(to_status))
            .take_until(self.stop.clone().cancelled_owned());
        Ok(Response::new(told.boxed()))
    }

    async fn list_moves(
        &self,
        request: Request<ext::ListMovesRequest>,
    ) -> Answer<ext::ListMovesResponse> {
        let vm = VmId::non_empty(request.into_inner().vm_id);
        answer(self.provider.moves(vm.as_ref()).await)
    }

    async fn settle_move(
        &self,
        request: Request<ext::SettleMoveRequest>,
    ) -> Answer<ext::SettleMoveResponse> {
        let settle = SettleMove::try_from(request.into_inner()).map_err(to_status)?;
        let settled = self.provider.settle_move(&settle).await;
        answer(settled.map(|()| ext::SettleMoveResponse {}))
    }

    async fn console(
        &self,
        request: Request<Streaming<ext::ConsoleRequest>>,
    ) -> Answer<Self::ConsoleStream> {
        let (metadata, _, mut messages) = request.into_parts();
        let open = console::first(&mut messages).await?;
        let kind = open.console_kind().map_err(to_status)?;
        let vm = vm_ref(&metadata, open.vm_id)?;
        let session = self.provider.console(&vm, kind).await.map_err(to_status)?;
        let output =
            console::run(session, messages).take_until(self.stop.clone().cancelled_owned());
        Ok(Response::new(output.boxed()))
    }
}

fn in_parts(vms: Vec<VmState>) -> Parts<ext::ListVmsResponse> {
    stream::iter(vms)
        .chunks(VMS_PER_PART)
        .map(|part| {
            let vms = part.into_iter().map(Into::into).collect();
            Ok(ext::ListVmsResponse { vms })
        })
        .boxed()
}

type Events = BoxStream<'static, provider::Result<VmEvent>>;

/// Pulled by the connection as the peer reads, so a slow peer slows the provider's stream and fills no memory. When the
/// peer goes, the connection drops the stream.
fn with_heartbeat(events: Events, pause: Duration) -> Events {
    stream::unfold(events, move |mut events| async move {
        let event = match tokio::time::timeout(pause, events.next()).await {
            Ok(event) => event?,
            Err(_) => Ok(VmEvent::Heartbeat),
        };
        Some((event, events))
    })
    .boxed()
}
