//! A VM that is handed over between hosts.

use crate::error::ProviderError;
use crate::ids::MoveId;
use crate::model::{
    Handover, Landing, Luggage, MigrateVm, MigrationProgress, MoveDecision, MoveRole, MoveSecret,
    MoveSight, MoveState, Sending, SettleMove,
};
use crate::provider::Result;
use crate::wire::ext;

impl From<&Handover> for ext::Handover {
    fn from(handover: &Handover) -> Self {
        let wish = ext::MigrateRequest::new(&handover.vm, handover.wish.clone());
        Self {
            id: handover.id.to_string(),
            source_host: handover.source_host.clone(),
            wish: Some(wish),
            secret: handover.secret.0.clone(),
        }
    }
}

/// What a request says of a move; one that says nothing is refused.
pub(crate) fn handover(message: Option<ext::Handover>) -> Result<Handover> {
    let absent = || ProviderError::invalid("handover", "The request says nothing of its move");
    let message = message.ok_or_else(absent)?;
    let wish = message.wish.ok_or_else(absent)?;
    if message.id.is_empty() || wish.vm_id.is_empty() {
        return Err(absent());
    }
    Ok(Handover {
        id: message.id.into(),
        vm: wish.vm_id.clone().into(),
        source_host: message.source_host,
        wish: MigrateVm::from(wish),
        secret: MoveSecret(message.secret),
    })
}

impl From<Luggage> for ext::PackVmResponse {
    fn from(luggage: Luggage) -> Self {
        Self {
            description: luggage.0,
        }
    }
}

impl From<Landing> for ext::ReceiveVmResponse {
    fn from(landing: Landing) -> Self {
        Self {
            address: landing.address,
            memory_port: landing.memory_port.into(),
            disk_port: landing.disk_port.into(),
        }
    }
}

impl TryFrom<ext::ReceiveVmResponse> for Landing {
    type Error = ProviderError;

    fn try_from(message: ext::ReceiveVmResponse) -> Result<Self> {
        let port = |number: u32| {
            let port = u16::try_from(number).ok().filter(|port| *port != 0);
            port.ok_or_else(|| ProviderError::invalid("landing", format!("{number} is no port")))
        };
        Ok(Self {
            memory_port: port(message.memory_port)?,
            disk_port: port(message.disk_port)?,
            address: message.address,
        })
    }
}

impl From<Sending> for ext::SendVmResponse {
    fn from(sending: Sending) -> Self {
        let progress = ext::GetMigrationProgressResponse::from(sending.progress);
        Self {
            progress: progress.progress,
            released: sending.released,
        }
    }
}

impl From<ext::SendVmResponse> for Sending {
    fn from(message: ext::SendVmResponse) -> Self {
        let progress = message.progress;
        Self {
            progress: MigrationProgress::from(ext::GetMigrationProgressResponse { progress }),
            released: message.released,
        }
    }
}

impl From<MoveRole> for ext::MoveRole {
    fn from(role: MoveRole) -> Self {
        match role {
            MoveRole::None => Self::Unspecified,
            MoveRole::Leaves => Self::Leaves,
            MoveRole::Comes => Self::Comes,
        }
    }
}

fn role(number: i32) -> MoveRole {
    match ext::MoveRole::try_from(number) {
        Ok(ext::MoveRole::Leaves) => MoveRole::Leaves,
        Ok(ext::MoveRole::Comes) => MoveRole::Comes,
        Ok(ext::MoveRole::Unspecified) | Err(_) => MoveRole::None,
    }
}

impl From<MoveSight> for ext::MoveSight {
    fn from(sight: MoveSight) -> Self {
        match sight {
            MoveSight::Unknown => Self::Unspecified,
            MoveSight::Off => Self::Off,
            MoveSight::Ended => Self::Ended,
            MoveSight::Waits => Self::Waits,
            MoveSight::Sends => Self::Sends,
            MoveSight::Split => Self::Split,
            MoveSight::Sent => Self::Sent,
            MoveSight::Arrived => Self::Arrived,
            MoveSight::Paused => Self::Paused,
            MoveSight::Runs => Self::Runs,
        }
    }
}

fn sight(number: i32) -> MoveSight {
    match ext::MoveSight::try_from(number) {
        Ok(ext::MoveSight::Off) => MoveSight::Off,
        Ok(ext::MoveSight::Ended) => MoveSight::Ended,
        Ok(ext::MoveSight::Waits) => MoveSight::Waits,
        Ok(ext::MoveSight::Sends) => MoveSight::Sends,
        Ok(ext::MoveSight::Split) => MoveSight::Split,
        Ok(ext::MoveSight::Sent) => MoveSight::Sent,
        Ok(ext::MoveSight::Arrived) => MoveSight::Arrived,
        Ok(ext::MoveSight::Paused) => MoveSight::Paused,
        Ok(ext::MoveSight::Runs) => MoveSight::Runs,
        Ok(ext::MoveSight::Unspecified) | Err(_) => MoveSight::Unknown,
    }
}

impl From<MoveState> for ext::MoveState {
    fn from(state: MoveState) -> Self {
        Self {
            vm_id: state.vm.to_string(),
            move_id: state.id.to_string(),
            role: ext::MoveRole::from(state.role).into(),
            peer: state.peer,
            sight: ext::MoveSight::from(state.sight).into(),
        }
    }
}

impl From<ext::MoveState> for MoveState {
    fn from(message: ext::MoveState) -> Self {
        Self {
            vm: message.vm_id.into(),
            id: message.move_id.into(),
            role: role(message.role),
            peer: message.peer,
            sight: sight(message.sight),
        }
    }
}

impl From<Vec<MoveState>> for ext::ListMovesResponse {
    fn from(moves: Vec<MoveState>) -> Self {
        Self {
            moves: moves.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<&SettleMove> for ext::SettleMoveRequest {
    fn from(settle: &SettleMove) -> Self {
        let decision = match settle.decision {
            MoveDecision::Go => ext::MoveDecision::Go,
            MoveDecision::Keep => ext::MoveDecision::Keep,
            MoveDecision::Drop => ext::MoveDecision::Drop,
        };
        Self {
            vm_id: settle.vm.to_string(),
            move_id: settle.id.to_string(),
            decision: decision.into(),
        }
    }
}

impl TryFrom<ext::SettleMoveRequest> for SettleMove {
    type Error = ProviderError;

    fn try_from(message: ext::SettleMoveRequest) -> Result<Self> {
        let decision = match message.decision() {
            ext::MoveDecision::Go => MoveDecision::Go,
            ext::MoveDecision::Keep => MoveDecision::Keep,
            ext::MoveDecision::Drop => MoveDecision::Drop,
            ext::MoveDecision::Unspecified => {
                let text = "The request decides nothing that this provider knows";
                return Err(ProviderError::invalid("decision", text));
            }
        };
        let id = MoveId::from(message.move_id);
        Ok(Self {
            vm: message.vm_id.into(),
            id,
            decision,
        })
    }
}
