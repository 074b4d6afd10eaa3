//! Any provider, offered as both services.

mod basic;
mod console;
mod extensions;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataMap;
use tonic::{Response, Status};

use crate::error::ProviderError;
use crate::ids::{TaskId, VmId};
use crate::model::{Owner, VmRef};
use crate::provider::Provider;
use crate::wire::ext::extensions_server::ExtensionsServer;
use crate::wire::v1::provider_server::ProviderServer;
use crate::wire::{task_ref, v1};

use super::status::to_status;
use super::{MAX_MESSAGE_BYTES, metadata};

/// A third of what the client takes for silence.
const HEARTBEAT: Duration = Duration::from_secs(20);

type Answer<T> = Result<Response<T>, Status>;

/// Offers a provider as `provider.v1.Provider` and `polyvirt.provider.v1.Extensions`.
///
/// A caller that sends no metadata has no identities: calls then reach the provider without an owner.
pub struct Server {
    provider: Arc<dyn Provider>,
    stop: CancellationToken,
    heartbeat: Duration,
}

impl Server {
    /// For services of your own making; [`serve`](super::serve) does it all.
    pub fn new(provider: Arc<dyn Provider>) -> Self {
        Self {
            provider,
            stop: CancellationToken::new(),
            heartbeat: HEARTBEAT,
        }
    }

    /// Ends the streams when the token is cancelled: else a watch would keep a server from ever stopping.
    #[must_use]
    pub fn with_stop(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self
    }

    /// With another longest silence of a watch.
    #[must_use]
    pub const fn with_heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = heartbeat;
        self
    }

    /// The two services, for a tonic router.
    pub fn into_services(self) -> (ProviderServer<Self>, ExtensionsServer<Self>) {
        let server = Arc::new(self);
        let basic = ProviderServer::from_arc(server.clone());
        let extensions = ExtensionsServer::from_arc(server);
        (
            basic.max_decoding_message_size(MAX_MESSAGE_BYTES),
            extensions.max_decoding_message_size(MAX_MESSAGE_BYTES),
        )
    }
}

/// For whom a call is made: as its metadata says, else as its message does.
fn owner(
    metadata: &MetadataMap,
    named: Option<v1::ObjectIdentity>,
) -> Result<Option<Owner>, Status> {
    let told = metadata::owner(metadata).map_err(to_status)?;
    Ok(told.or_else(|| named.and_then(v1::ObjectIdentity::owner)))
}

impl Server {
    /// Refuses a VM that is on another host than the caller takes it to be on: such a caller has stale knowledge, and must not
    /// change a VM by it. A provider that does not say where its VMs are is believed.
    async fn on_host(&self, vm: &VmId, host: &str) -> Result<(), Status> {
        if host.is_empty() {
            return Ok(());
        }
        let found = self.provider.describe(vm).await.map_err(to_status)?;
        match found {
            Some(vm) if vm.host.is_empty() || vm.host == host => Ok(()),
            _ => Err(to_status(ProviderError::not_found(format!(
                "VM {vm} on host {host}"
            )))),
        }
    }
}

/// The VM that a request names, and for whom.
fn vm_ref(metadata: &MetadataMap, id: String) -> Result<VmRef, Status> {
    Ok(VmRef {
        id: vm_id(id)?,
        owner: metadata::owner(metadata).map_err(to_status)?,
    })
}

fn vm_id(id: String) -> Result<VmId, Status> {
    VmId::non_empty(id)
        .ok_or_else(|| to_status(ProviderError::invalid("id", "The request names no VM")))
}

fn answer<T, M: From<T>>(result: Result<T, ProviderError>) -> Answer<M> {
    result
        .map(|value| Response::new(value.into()))
        .map_err(to_status)
}

fn task_answer(result: Result<Option<TaskId>, ProviderError>) -> Answer<v1::TaskResponse> {
    result
        .map(|task| {
            Response::new(v1::TaskResponse {
                task: task_ref(task),
                ..v1::TaskResponse::default()
            })
        })
        .map_err(to_status)
}
