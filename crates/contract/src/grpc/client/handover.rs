//! Both sides of a move between hosts.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tonic::{Request, Streaming};

use crate::error::{ErrorKind, ProviderError};
use crate::ids::VmId;
use crate::model::{Handover, Landing, Luggage, MoveState, Sending, SettleMove};
use crate::provider::Result;
use crate::wire::ext;

use super::super::deadline::Call;
use super::super::status::from_status;
use super::Client;
use super::extensions::required;

const MOVES: &str = "moving VMs between hosts";

impl Client {
    pub(super) async fn pack(&self, handover: &Handover) -> Result<Luggage> {
        let message = ext::PackVmRequest {
            handover: Some(handover.into()),
        };
        let sent = self.request(Call::PackVm, message);
        let limit = self.deadlines.of(Call::PackVm);
        let mut client = self.ext.clone();
        let answer = self.extended(limit, client.pack_vm(sent)).await?;
        Ok(Luggage(required(answer, MOVES)?.description))
    }

    pub(super) async fn receive(
        &self,
        handover: &Handover,
        luggage: Luggage,
        address: &str,
    ) -> Result<Landing> {
        let message = ext::ReceiveVmRequest {
            handover: Some(handover.into()),
            description: luggage.0,
            address: address.to_owned(),
        };
        let sent = self.request(Call::ReceiveVm, message);
        let limit = self.deadlines.of(Call::ReceiveVm);
        let mut client = self.ext.clone();
        let answer = self.extended(limit, client.receive_vm(sent)).await?;
        required(answer, MOVES)?.try_into()
    }

    /// Without a deadline: a move takes as long as it takes, and is never silent.
    pub(super) async fn send(
        &self,
        handover: &Handover,
        landing: &Landing,
    ) -> Result<BoxStream<'static, Result<Sending>>> {
        let message = ext::SendVmRequest {
            handover: Some(handover.into()),
            landing: Some(landing.clone().into()),
        };
        let limit = self.deadlines.of(Call::SendStart);
        let mut client = self.ext.clone();
        let answer = self.extended(limit, client.send_vm(Request::new(message)));
        let parts = required(answer.await?, MOVES)?;
        Ok(told(parts, self.deadlines.of(Call::SendSilence)))
    }

    pub(super) async fn list_moves(&self, vm: Option<&VmId>) -> Result<Vec<MoveState>> {
        let message = ext::ListMovesRequest {
            vm_id: vm.map(ToString::to_string).unwrap_or_default(),
        };
        let sent = self.request(Call::ListMoves, message);
        let limit = self.deadlines.of(Call::ListMoves);
        let mut client = self.ext.clone();
        let answer = self.extended(limit, client.list_moves(sent)).await?;
        let moves = required(answer, MOVES)?.moves;
        Ok(moves.into_iter().map(MoveState::from).collect())
    }

    pub(super) async fn settle(&self, settle: &SettleMove) -> Result<()> {
        let sent = self.request(Call::SettleMove, settle.into());
        let limit = self.deadlines.of(Call::SettleMove);
        let mut client = self.ext.clone();
        let answer = self.extended(limit, client.settle_move(sent)).await?;
        required(answer, MOVES).map(drop)
    }
}

fn told(
    parts: Streaming<ext::SendVmResponse>,
    silence: Duration,
) -> BoxStream<'static, Result<Sending>> {
    let next = move |parts: Option<Streaming<ext::SendVmResponse>>| async move {
        let mut parts = parts?;
        match tokio::time::timeout(silence, parts.message()).await {
            Ok(Ok(part)) => part.map(|part| (Ok(Sending::from(part)), Some(parts))),
            Ok(Err(status)) => Some((Err(from_status(&status)), None)),
            Err(_) => Some((Err(silent_for(silence)), None)),
        }
    };
    stream::unfold(Some(parts), next).boxed()
}

fn silent_for(silence: Duration) -> ProviderError {
    let text = format!("The host that sends the VM has said nothing for {silence:?}");
    ProviderError::new(ErrorKind::Unavailable, text)
}
