//! Moving a VM from one host of the fleet to another.
//!
//! ```text
//!   asked ─► look, refuse ─► pack ─► receive ─► send ···· released ─► go ─► settle ─► at the target
//!                           source   target    source               target    │
//!                             └────────┴──────────┴────────────────────┴──────┴────► at the source
//! ```
//!
//! The hosts do the work; here is asked for each step. Who has the VM in the end is decided in one place, [`settle`], by looking
//! at both hosts, whether the way was gone to its end or not:
//!
//! * A step fails, or somebody stops the move: the stream of the sender is dropped, which calls the guest back. Then `settle`.
//! * The source's provider dies: QEMU goes on to the moment before the guest stands still, and stops there. Its next life calls
//!   the guest back, and is seen.
//! * The target's provider dies: the guest is called back. If it dies between the last byte and `go`, the guest stands still
//!   until it is back, and goes on there.
//! * The link is cut: the source notices that nothing moves, and calls the guest back by itself.
//! * This process dies: the source notices that nobody listens. The next life finds the marks, and settles.
//!
//! While it moves, the source tells of the VM as it was and the target says nothing. So whoever watches sees one VM, and in the
//! end another host.

mod settle;
mod verdict;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use polyvirt_contract::model::{
    Handover, Luggage, MigrateVm, MigrationPhase, MigrationProgress, MoveDecision, MoveSecret,
    Sending, SettleMove, VmRef,
};
use polyvirt_contract::{ErrorKind, MoveId, ProviderError, Result, TaskId, VmId};
use polyvirt_provider_kit::fleet::running::Running;
use polyvirt_provider_kit::fleet::{choice, moves};
use polyvirt_provider_kit::tasks::Progress;
use polyvirt_provider_kit::uuid::Uuid;

use super::Fleet;
use super::config::Link;
use super::member::Member;
use super::told::Told;
use crate::errors;
use settle::{Outcome, came_to_nothing};

/// How often the target is asked whether it is there, and how often it may fail to answer.
const ASKS: Duration = Duration::from_secs(1);
const MISSES: u32 = 3;
/// Random numbers that make a secret.
const SECRET_PARTS: usize = 2;

/// From where to where.
struct Route {
    source: Arc<Member>,
    target: Arc<Member>,
    told: Arc<Told>,
    vm: VmId,
    id: MoveId,
}

impl Fleet {
    /// Moves the VM. One that is there already is moved.
    pub(super) async fn move_vm(&self, vm: &VmRef, request: MigrateVm) -> Result<Option<TaskId>> {
        let from = self.place_of(&vm.id).await?;
        let absent = || ProviderError::not_found(format!("The VM {}", vm.id));
        let state = self.look(&vm.id).await?.ok_or_else(absent)?;
        Self::must_own(vm, &state)?;
        if request.request.is_some() && state.last_request == request.request {
            return Ok(None);
        }
        let uuid = Uuid::parse(vm.id.as_str()).ok_or_else(absent)?;
        let asked = request.request.as_ref();
        if let Some(begun) = self.moves.under_way(&self.tasks, uuid, asked)? {
            return moves::told(begun).await;
        }
        let candidates = self.candidates().await;
        let to = choice::choose_other(&candidates, from, &request.target_host)?;
        let Some(to) = to else { return Ok(None) };
        let route = Route {
            source: self.members[from].clone(),
            target: self.members[to].clone(),
            told: self.told.clone(),
            vm: vm.id.clone(),
            id: MoveId::from(random()?.to_string()),
        };
        route.check_links(&request)?;
        self.begin_move(route, uuid, request).await
    }

    async fn begin_move(
        &self,
        route: Route,
        uuid: Uuid,
        request: MigrateVm,
    ) -> Result<Option<TaskId>> {
        let hosts = (route.source.name(), route.target.name());
        let running = Running::new(uuid, request.request.clone(), hosts);
        let office = (&self.tasks, self.stop.clone());
        let carry = |running: Arc<Running>, progress: Progress| async move {
            route.carry(&request, &running, &progress).await
        };
        self.moves.begin(office, running, carry).await
    }
}

fn random() -> Result<Uuid> {
    Uuid::random().map_err(|error| errors::internal(format!("No random number: {error}")))
}

/// What both sides of one move know.
fn secret() -> Result<MoveSecret> {
    let parts: Result<Vec<String>> = (0..SECRET_PARTS)
        .map(|_| random().map(|part| part.to_string()))
        .collect();
    Ok(MoveSecret(Bytes::from(parts?.join("-"))))
}

impl Route {
    /// A key that others can read on its way hides nothing.
    fn check_links(&self, request: &MigrateVm) -> Result<()> {
        let plain = [&self.source, &self.target]
            .into_iter()
            .find(|member| member.link == Link::Plain);
        match plain {
            Some(member) if request.encrypted => Err(ProviderError::new(
                ErrorKind::Unsupported,
                format!(
                    "The host {} is reached by qemu+tcp, on which everybody could read the key; reach it by qemu+tls",
                    member.address
                ),
            )
            .at("encrypted")),
            _ => Ok(()),
        }
    }

    async fn carry(
        &self,
        request: &MigrateVm,
        running: &Running,
        progress: &Progress,
    ) -> Result<()> {
        let handover = Handover {
            id: self.id.clone(),
            vm: self.vm.clone(),
            source_host: self.source.name(),
            wish: MigrateVm {
                target_host: self.target.name(),
                ..request.clone()
            },
            secret: secret()?,
        };
        // Nothing is there yet that would have to be settled.
        let luggage = match self.source.provider.pack_vm(&handover).await {
            Err(error) if is_refusal(&error) => return Err(error),
            packed => packed,
        };
        let gone = tokio::select! {
            biased;
            () = running.stop.cancelled() => Err(stopped()),
            gone = self.go(&handover, luggage, running, progress) => gone,
        };
        match (self.settle().await, gone) {
            (Outcome::Target, _) => Ok(()),
            (Outcome::Source, Err(error)) => Err(error),
            (Outcome::Source, Ok(())) => Err(came_to_nothing(&self.vm)),
        }
    }

    async fn go(
        &self,
        handover: &Handover,
        luggage: Result<Luggage>,
        running: &Running,
        progress: &Progress,
    ) -> Result<()> {
        let target = &self.target.provider;
        let address = &self.target.address;
        let landing = target.receive_vm(handover, luggage?, address).await?;
        let sending = self.source.provider.send_vm(handover, &landing).await?;
        let mut follow = Follow {
            route: self,
            running,
            progress,
            went: false,
        };
        let mut sending = sending;
        let mut lost = Box::pin(self.target_is_lost());
        loop {
            tokio::select! {
                biased;
                part = sending.next() => match part {
                    Some(part) => follow.take(part?).await?,
                    None => return follow.end(),
                },
                () = &mut lost, if !follow.went => return Err(target_lost(&self.target)),
            }
        }
    }

    /// Ends when the target does not answer any more.
    async fn target_is_lost(&self) {
        let mut misses = 0;
        while misses < MISSES {
            tokio::time::sleep(ASKS).await;
            let asked = self.target.provider.moves(Some(&self.vm));
            let answer = tokio::time::timeout(ASKS * 5, asked).await;
            misses = if matches!(answer, Ok(Ok(_))) {
                0
            } else {
                misses + 1
            };
        }
    }

    fn decision(&self, decision: MoveDecision) -> SettleMove {
        SettleMove {
            vm: self.vm.clone(),
            id: self.id.clone(),
            decision,
        }
    }
}

/// Follows one move.
struct Follow<'a> {
    route: &'a Route,
    running: &'a Running,
    progress: &'a Progress,
    went: bool,
}

impl Follow<'_> {
    async fn take(&mut self, part: Sending) -> Result<()> {
        self.tell(&part.progress);
        if part.released && !self.went {
            self.went = true;
            return self.go_on().await;
        }
        Ok(())
    }

    /// The guest goes on at the target. It stood still until that is answered.
    async fn go_on(&self) -> Result<()> {
        self.running.close();
        let begun = Instant::now();
        let go = self.route.decision(MoveDecision::Go);
        self.route.target.provider.settle_move(&go).await?;
        let waited = begun.elapsed();
        self.running.tell(|told| {
            told.downtime = told.downtime.map(|stood| stood + waited);
        });
        Ok(())
    }

    fn tell(&self, part: &MigrationProgress) {
        self.running.tell(|told| {
            let measured = self.went.then_some(told.downtime).flatten();
            *told = MigrationProgress {
                source_host: told.source_host.clone(),
                target_host: told.target_host.clone(),
                downtime: measured.or(part.downtime),
                ..part.clone()
            };
        });
        if let Some(percent) = percent(part) {
            self.progress.at(percent);
        }
    }

    fn end(&self) -> Result<()> {
        if self.went {
            self.running
                .tell(|told| told.phase = MigrationPhase::Finishing);
            return Ok(());
        }
        let message = "The source has ended the move without a word";
        Err(ProviderError::new(ErrorKind::Unavailable, message))
    }
}

/// How much of it is there. The last percent is for what comes after.
fn percent(told: &MigrationProgress) -> Option<u8> {
    let (total, left) = (told.total_bytes?, told.remaining_bytes?);
    let there = total.saturating_sub(left);
    u8::try_from((there * 99).checked_div(total)?).ok()
}

/// Whether the host has said no, and so has done nothing.
const fn is_refusal(error: &ProviderError) -> bool {
    !matches!(
        error.kind,
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Cancelled | ErrorKind::Internal
    )
}

fn stopped() -> ProviderError {
    let message = "The move was stopped, and the VM goes on where it was";
    ProviderError::new(ErrorKind::Cancelled, message)
}

fn target_lost(target: &Member) -> ProviderError {
    let message = format!(
        "The host {} does not answer any more, so the VM goes on where it was",
        target.name()
    );
    ProviderError::new(ErrorKind::Unavailable, message)
}
