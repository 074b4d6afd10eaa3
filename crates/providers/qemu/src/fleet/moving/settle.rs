//! Ends a move, however it went: looks at both hosts until it is certain who has the VM, and has the other clear away.
//!
//! ```text
//!   it has moved:  target keeps ─► (it is told of) ─► source drops
//!   it stays:      target drops ─► source keeps
//! ```
//!
//! Each step can be done again, and the source's mark goes last of all, so whoever dies between any two is followed by somebody
//! who sees the same and goes on. A host that is away is waited for: what cannot be seen is not decided.

use std::sync::Arc;
use std::time::Duration;

use polyvirt_contract::model::{MoveDecision, MoveRole, MoveSight, MoveState, SettleMove};
use polyvirt_contract::{ErrorKind, ProviderError, Result, VmId};

use super::Route;
use super::verdict::{Side, Verdict, verdict};
use crate::fleet::Fleet;
use crate::fleet::member::Member;
use polyvirt_provider_kit::fleet::moves::{key, unless_stopped};

/// Pauses before both hosts are looked at again: the first, and the longest.
const SOON: Duration = Duration::from_millis(100);
const AGAIN: Duration = Duration::from_secs(1);

/// Where the VM is in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Source,
    Target,
}

impl Route {
    pub(super) async fn settle(&self) -> Outcome {
        let mut pause = SOON;
        loop {
            match self.settle_once().await {
                Ok(Verdict::Source) => return Outcome::Source,
                Ok(Verdict::Target) => return Outcome::Target,
                Ok(Verdict::Wait) => {}
                Ok(Verdict::Both) => {
                    tracing::error!(vm = %self.vm, "The VM runs on two hosts; end it on one of them by hand");
                    pause = AGAIN * 30;
                }
                Err(error) => {
                    tracing::warn!(vm = %self.vm, %error, "It is not settled yet which host has the VM");
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AGAIN.max(pause));
        }
    }

    async fn settle_once(&self) -> Result<Verdict> {
        let (source, target) = tokio::try_join!(self.side(&self.source), self.side(&self.target))?;
        let verdict = verdict(source, target);
        tracing::debug!(vm = %self.vm, ?verdict, ?source, ?target, "A move is looked at");
        match verdict {
            Verdict::Source => self.stays(source, target).await?,
            Verdict::Target => self.has_moved(source).await?,
            Verdict::Wait | Verdict::Both => {}
        }
        Ok(verdict)
    }

    async fn side(&self, member: &Member) -> Result<Side> {
        let told = member.provider.moves(Some(&self.vm)).await?;
        Ok(Side::of(told.first(), &self.id))
    }

    async fn stays(&self, source: Side, target: Side) -> Result<()> {
        if matches!(target, Side::Marked(_)) {
            let gone = self.decision(MoveDecision::Drop);
            self.target.provider.settle_move(&gone).await?;
        }
        if matches!(source, Side::Marked(_)) {
            let kept = self.decision(MoveDecision::Keep);
            self.source.provider.settle_move(&kept).await?;
        }
        Ok(())
    }

    /// The VM is told of at its new host before it is gone from the old one.
    async fn has_moved(&self, source: Side) -> Result<()> {
        let kept = self.decision(MoveDecision::Keep);
        self.target.provider.settle_move(&kept).await?;
        if let Some(state) = self.target.provider.describe(&self.vm).await? {
            self.told.state(self.target.place, state);
        }
        if matches!(source, Side::Marked(_)) {
            let gone = self.decision(MoveDecision::Drop);
            self.source.provider.settle_move(&gone).await?;
        }
        Ok(())
    }
}

impl Fleet {
    /// Settles what an earlier life has left on its way, whenever a host is there again.
    pub(in crate::fleet) fn settle_leftovers(self: &Arc<Self>, place: usize) {
        let (fleet, stop) = (self.clone(), self.stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = fleet.settle_all_of(place) => {}
            }
        });
    }

    async fn settle_all_of(self: &Arc<Self>, place: usize) {
        let member = &self.members[place];
        match member.provider.moves(None).await {
            Ok(moves) => {
                for left in moves {
                    self.settle_later(place, left);
                }
            }
            Err(error) => {
                tracing::warn!(host = member.address, %error, "Nobody knows what was on its way there");
            }
        }
    }

    /// A move of this life that is under way settles itself: it has the same key.
    fn settle_later(self: &Arc<Self>, place: usize, left: MoveState) {
        let (fleet, stop) = (self.clone(), self.stop.clone());
        self.tasks.begin(&key(&left.vm), |_| async move {
            unless_stopped(stop, fleet.settle_alone(place, left)).await
        });
    }

    async fn settle_alone(self: Arc<Self>, place: usize, left: MoveState) -> Result<()> {
        tracing::info!(vm = %left.vm, host = left.peer, "A move was cut short; looking who has the VM");
        let Some(peer) = self.called(&left.peer).await else {
            return self.settle_without_peer(place, &left).await;
        };
        let here = self.members[place].clone();
        let (source, target) = match left.role {
            MoveRole::Comes => (peer, here),
            MoveRole::Leaves | MoveRole::None => (here, peer),
        };
        let route = Route {
            source,
            target,
            told: self.told.clone(),
            vm: left.vm,
            id: left.id,
        };
        match route.settle().await {
            Outcome::Target => Ok(()),
            Outcome::Source => Err(came_to_nothing(&route.vm)),
        }
    }

    /// The host of that name, as soon as it has told it; `None` if all have told theirs, and it is another.
    async fn called(&self, name: &str) -> Option<Arc<Member>> {
        loop {
            let mut members = self.members.iter();
            if let Some(found) = members.find(|member| member.name() == name) {
                return Some(found.clone());
            }
            if self.members.iter().all(|member| !member.name().is_empty()) {
                return None;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Somebody has taken the other host out of the endpoint. A guest that runs at its source was never given away: it stays.
    /// Of all else nothing is known without the other host.
    async fn settle_without_peer(&self, place: usize, left: &MoveState) -> Result<()> {
        let provider = &self.members[place].provider;
        let told = provider.moves(Some(&left.vm)).await?;
        let stays = |state: &MoveState| {
            let runs = matches!(state.sight, MoveSight::Runs | MoveSight::Paused);
            runs && state.role == MoveRole::Leaves && state.id == left.id
        };
        if told.iter().any(stays) {
            let kept = SettleMove {
                vm: left.vm.clone(),
                id: left.id.clone(),
                decision: MoveDecision::Keep,
            };
            provider.settle_move(&kept).await?;
        } else {
            tracing::error!(vm = %left.vm, host = left.peer, "The VM is on its way to or from a host that is not in the endpoint; put that back, or decide by hand who has the VM");
        }
        Err(came_to_nothing(&left.vm))
    }
}

/// What is told of a move that was cut short and has come to nothing.
pub(super) fn came_to_nothing(vm: &VmId) -> ProviderError {
    let message = format!("The move of the VM {vm} was cut short, and it goes on where it was");
    ProviderError::new(ErrorKind::Cancelled, message)
}
