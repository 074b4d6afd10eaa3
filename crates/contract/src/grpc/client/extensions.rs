//! Calls that a peer may not have, and what to do then.

use tonic::Request;

use crate::capabilities::Features;
use crate::error::{ErrorKind, ProviderError};
use crate::ids::VmId;
use crate::model::{ImageIdentity, Inventory, PrepareImage, VmState};
use crate::provider::Result;
use crate::watch::MOST_VMS;
use crate::wire::ext::{self, find_vm_request::By};
use crate::wire::v1;

use super::super::deadline::Call;
use super::super::status::from_status;
use super::Client;
use super::calls::within;
use super::peer::Peer;

impl Client {
    /// Who is at the other end; asked once for each connection.
    pub(super) async fn peer(&self) -> Result<Peer> {
        if let Some(peer) = self.peer.on(self.connections.count()) {
            return Ok(peer);
        }
        let request = self.request(Call::GetFeatures, ext::GetFeaturesRequest {});
        let limit = self.deadlines.of(Call::GetFeatures);
        let mut client = self.ext.clone();
        let peer = match self.extended(limit, client.get_features(request)).await? {
            Some(features) => Peer::Extended(Features::from(features)),
            None => Peer::Basic,
        };
        self.peer.learn(self.connections.count(), peer.clone());
        Ok(peer)
    }

    /// `None` in the outer place: the peer has no such call.
    pub(super) async fn find_vm(&self, by: By) -> Result<Option<Option<VmState>>> {
        let request = self.request(Call::FindVm, ext::FindVmRequest { by: Some(by) });
        let limit = self.deadlines.of(Call::FindVm);
        let mut client = self.ext.clone();
        let found = absent_is_none(self.extended(limit, client.find_vm(request)).await)?;
        Ok(match found {
            Some(answer) => answer.map(|a| a.vm.map(VmState::from)),
            None => Some(None),
        })
    }

    pub(super) async fn describe_basic(&self, vm: &VmId) -> Result<Option<VmState>> {
        let message = v1::DescribeRequest {
            id: vm.to_string(),
            target_host_id: self.known.host_of(vm),
            owner: None,
        };
        let request = self.request(Call::Describe, message);
        let mut client = self.v1.clone();
        let answer = self.answer(Call::Describe, client.describe(request)).await;
        let state = absent_is_none(answer)?.and_then(|a| a.into_state(vm));
        Ok(state.map(|state| self.known.complete(state)))
    }

    /// `None`: the peer has no such call.
    pub(super) async fn list_extended(&self) -> Result<Option<Vec<VmState>>> {
        let limit = self.deadlines.of(Call::ListVms);
        let mut client = self.ext.clone();
        let collect = async {
            let sent = client.list_vms(Request::new(ext::ListVmsRequest {}));
            let Some(mut parts) = self.extended(limit, sent).await? else {
                return Ok(None);
            };
            let mut vms = Vec::new();
            while let Some(part) = parts.message().await.map_err(|s| from_status(&s))? {
                vms.extend(part.vms.into_iter().map(VmState::from));
                believable(vms.len())?;
            }
            Ok(Some(vms))
        };
        within(limit, collect).await?
    }

    pub(super) async fn list_basic(&self) -> Result<Vec<VmState>> {
        let request = self.request(Call::ListVms, v1::ListVMsRequest {});
        let mut client = self.v1.clone();
        let list = self
            .answer(Call::ListVms, client.list_v_ms(request))
            .await?;
        believable(list.vms.len())?;
        let vms = list.vms.into_iter().map(VmState::from);
        Ok(vms.map(|vm| self.known.complete(vm)).collect())
    }

    /// What a peer without our inventory tells of its hosts. It tells nothing of datastores and networks.
    pub(super) async fn hosts_basic(&self) -> Result<Inventory> {
        let request = self.request(Call::Inventory, v1::ListHostsRequest {});
        let mut client = self.v1.clone();
        let answer = self.answer(Call::Inventory, client.list_hosts(request));
        let answer = match answer.await {
            Err(error) if error.kind == ErrorKind::Unsupported => {
                return Err(ProviderError::unsupported("inventory"));
            }
            other => other?,
        };
        Ok(Inventory {
            hosts: answer.hosts.into_iter().map(Into::into).collect(),
            ..Inventory::default()
        })
    }

    /// What tells the image from all others, where the peer goes by it. Our own providers go by the name, so that what they have
    /// from before is not fetched again.
    pub(super) fn artifact_identity(&self, request: &PrepareImage) -> Option<ImageIdentity> {
        let identity = request.identity.clone();
        identity.filter(|_| self.known.finds_artifacts())
    }
}

/// No hypervisor has so many VMs: whoever says so wants us to keep them.
fn believable(vms: usize) -> Result<()> {
    if vms <= MOST_VMS {
        return Ok(());
    }
    let text = format!("The provider tells of more than {MOST_VMS} VMs, which is not believed");
    Err(ProviderError::new(ErrorKind::Internal, text))
}

/// Some providers say "not found" where others say "does not exist".
fn absent_is_none<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The answer of an extension that has no substitute.
pub(super) fn required<T>(answer: Option<T>, what: &str) -> Result<T> {
    answer.ok_or_else(|| ProviderError::unsupported(what))
}
