//! Who has the VM: the one question after a move, however it ended and whoever asks it.
//!
//! The source's domain says that the VM leaves until this is answered, the target's that it comes. The marks go in this order:
//!
//! ```text
//!   source: leaves ─► (the guest moves) ─► target: comes no more ─► the source's domain and volumes go      it has moved
//!                               └────────► the target's domain and volumes go ─► source: leaves no more     it stays
//! ```
//!
//! So whoever dies between any two lines is followed by somebody who sees the same and goes on. A host that is away is waited
//! for: what cannot be seen is not decided.

use std::sync::Arc;
use std::time::Duration;

use polyvirt_contract::model::PowerState;
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_provider_kit::uuid::Uuid;

use super::Route;
use super::luggage::unpack;
use crate::core::{Core, Vm};
use crate::create::set_marks;
use crate::domain::{Copied, Machine, Marks, Moving};
use crate::remove;
use crate::rpc::{Cookie, Domain, Ending, RpcError, Session, flags, open_apart};

/// Pause before both hosts are looked at again.
const AGAIN: Duration = Duration::from_secs(1);

/// A domain on one of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    Absent,
    /// Its guest has ended it, or it was ended by others.
    Off {
        by_guest: bool,
    },
    /// It waits for a guest that is still sent.
    Waits,
    /// Its guest is split between both hosts.
    Split,
    Paused,
    Runs,
}

impl Sight {
    /// From libvirt's state and reason.
    pub(super) const fn of(state: (i32, i32)) -> Self {
        match state {
            (1, 10 | 11) | (3, 12 | 13) => Self::Split,
            (1 | 2, _) => Self::Runs,
            (3, 2 | 11) => Self::Waits,
            (3 | 7, _) => Self::Paused,
            (5, 1 | 3) => Self::Off { by_guest: true },
            _ => Self::Off { by_guest: false },
        }
    }
}

/// Where the VM is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Source,
    Target,
    /// It is not decided yet.
    Wait,
    /// The guest runs on both hosts. Nobody may do that, and nothing is touched.
    Both,
}

/// Whether the target's domain still says that it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Comes,
    None,
}

/// Decides. Pure.
pub(super) const fn verdict(source: Sight, target: Sight, mark: Mark) -> Verdict {
    match (source, target) {
        (_, Sight::Absent) => Verdict::Source,
        (Sight::Runs, Sight::Runs) => Verdict::Both,
        // It was cleared away, or should have been.
        (Sight::Runs, _) if matches!(mark, Mark::None) => Verdict::Both,
        // It had arrived before, so the source is only to be cleared away.
        _ if matches!(mark, Mark::None) => Verdict::Target,
        (Sight::Split, _) | (_, Sight::Split | Sight::Waits) => Verdict::Wait,
        (Sight::Runs, _) => Verdict::Source,
        (_, Sight::Runs | Sight::Paused | Sight::Off { by_guest: true })
        | (Sight::Absent | Sight::Off { .. }, Sight::Off { .. }) => Verdict::Target,
        (_, Sight::Off { by_guest: false }) => Verdict::Source,
    }
}

/// A domain as it is seen now.
struct Seen {
    sight: Sight,
    marks: Option<Marks>,
}

async fn see(session: &Session, uuid: Uuid) -> Result<Seen> {
    let absent = Seen {
        sight: Sight::Absent,
        marks: None,
    };
    let Some(domain) = session.by_uuid(uuid).await? else {
        return Ok(absent);
    };
    let stored = session.xml(&domain, flags::INACTIVE).await;
    let seen = async {
        let (state, xml) = (session.state(&domain).await?, stored?);
        Ok::<_, RpcError>((state, xml))
    };
    match seen.await {
        Ok((state, xml)) => Ok(Seen {
            sight: Sight::of(state),
            marks: Machine::read(&xml)?.marks,
        }),
        Err(error) if error.is_absence() => Ok(absent),
        Err(error) => Err(error.into()),
    }
}

/// What the source remembers of the move.
struct Leaving {
    was: PowerState,
    copied: Vec<Copied>,
}

/// Looks at both hosts until it is certain who has the VM, and clears away what the other has. The caller holds [`Vm::change`]
/// on both.
pub(super) async fn settle(route: &Route) -> Verdict {
    loop {
        match route.settle_once().await {
            Ok(verdict @ (Verdict::Source | Verdict::Target)) => return verdict,
            Ok(Verdict::Both) => {
                tracing::error!(vm = %route.uuid, "The VM runs on two hosts; end it on one of them by hand");
                tokio::time::sleep(AGAIN * 30).await;
            }
            Ok(Verdict::Wait) => tokio::time::sleep(AGAIN).await,
            Err(error) => {
                tracing::warn!(vm = %route.uuid, %error, "It is not settled yet which host has the VM");
                tokio::time::sleep(AGAIN).await;
                tokio::join!(route.source.link.opened(), route.target.link.opened());
            }
        }
    }
}

impl Route {
    async fn settle_once(&self) -> Result<Verdict> {
        let (here, there) = tokio::try_join!(self.source.session(), self.target.session())?;
        let (source, target) = tokio::try_join!(see(&here, self.uuid), see(&there, self.uuid))?;
        let comes = target.marks.as_ref().is_some_and(Marks::is_coming);
        let mark = if comes { Mark::Comes } else { Mark::None };
        let verdict = verdict(source.sight, target.sight, mark);
        tracing::debug!(vm = %self.uuid, ?verdict, source = ?source.sight, target = ?target.sight, "A move is settled");
        let leaving = leaving(source.marks.as_ref());
        match verdict {
            Verdict::Source => self.stays(&here, &there, &source, leaving).await?,
            Verdict::Target => self.has_moved(&here, &there, &target, leaving).await?,
            Verdict::Wait | Verdict::Both => {}
        }
        Ok(verdict)
    }

    /// The target's domain and volumes go, the guest goes on, and then it leaves no more.
    async fn stays(
        &self,
        here: &Session,
        there: &Session,
        source: &Seen,
        leaving: Option<Leaving>,
    ) -> Result<()> {
        let domain = Domain::of(self.uuid);
        let Some(leaving) = leaving else {
            return Ok(());
        };
        if let Seen {
            marks: Some(marks), ..
        } = see(there, self.uuid).await?
            && marks.is_coming()
        {
            remove::stop(there, &domain).await?;
            undefine(there, &domain).await?;
        }
        let pools = leaving.copied.iter().map(|pool| pool.to.as_str());
        unpack(&self.target, there, self.uuid, pools).await?;
        self.source.keeps(here, self.uuid, source).await
    }

    /// The target's domain comes no more: it is there. Then what is left at the source goes.
    async fn has_moved(
        &self,
        here: &Session,
        there: &Session,
        target: &Seen,
        leaving: Option<Leaving>,
    ) -> Result<()> {
        let domain = Domain::of(self.uuid);
        let was_off = leaving.as_ref().is_some_and(|l| l.was == PowerState::Off);
        if was_off && target.sight == Sight::Paused {
            remove::stop(there, &domain).await?;
        }
        if let Some(marks) = target.marks.clone().filter(Marks::is_coming) {
            self.arrives(there, marks).await?;
        }
        let (vm, arrived) = (self.source.entry(self.uuid), self.target.entry(self.uuid));
        arrived.asking().bring(self.told.clone());
        self.target.look(&arrived).await?;
        self.clear(here, leaving).await?;
        self.source.look(&vm).await.map(drop)
    }

    async fn arrives(&self, there: &Session, marks: Marks) -> Result<()> {
        let there_now = Marks {
            moving: None,
            ..marks
        };
        let runs = see(there, self.uuid).await?.sight;
        let flags = match runs {
            Sight::Runs | Sight::Paused => flags::LIVE | flags::CONFIG,
            _ => flags::CONFIG,
        };
        set_marks(&self.target, self.uuid, &there_now, flags).await
    }

    async fn clear(&self, here: &Session, leaving: Option<Leaving>) -> Result<()> {
        let domain = Domain::of(self.uuid);
        let Some(leaving) = leaving else {
            return Ok(());
        };
        let marks = see(here, self.uuid).await?.marks;
        remove::stop(here, &domain).await?;
        let pools = leaving.copied.iter().map(|pool| pool.from.as_str());
        unpack(&self.source, here, self.uuid, pools).await?;
        undefine(here, &domain).await?;
        match marks {
            Some(marks) if !leaving.copied.is_empty() => {
                remove::remove_orphans(&self.source, here, &marks).await
            }
            _ => Ok(()),
        }
    }
}

impl Core {
    /// The guest goes on where it was, and then it leaves no more.
    async fn keeps(self: &Arc<Self>, here: &Session, uuid: Uuid, seen: &Seen) -> Result<()> {
        if let (Some(leaving), Some(marks)) = (leaving(seen.marks.as_ref()), seen.marks.clone()) {
            self.lets_go_on(here, uuid, (seen.sight, leaving.was))
                .await?;
            let stays = Marks {
                moving: None,
                ..marks
            };
            set_marks(self, uuid, &stays, flags::CONFIG).await?;
        }
        self.look(&self.entry(uuid)).await.map(drop)
    }

    /// The guest as it was before: running, or off.
    async fn lets_go_on(
        &self,
        here: &Session,
        uuid: Uuid,
        as_it: (Sight, PowerState),
    ) -> Result<()> {
        let domain = Domain::of(uuid);
        match as_it {
            (Sight::Paused | Sight::Waits, PowerState::Off) => remove::stop(here, &domain).await,
            (Sight::Paused | Sight::Waits, PowerState::On) => {
                if here.resume(&domain).await.is_ok() {
                    return Ok(());
                }
                // libvirt still holds it for a move that nobody carries on.
                self.release(&domain).await;
                Ok(here.resume(&domain).await?)
            }
            _ => Ok(()),
        }
    }

    async fn release(&self, domain: &Domain) {
        let Ok(source) = open_apart(&self.config).await else {
            return;
        };
        let ending = Ending::Cancelled;
        let cookie = Cookie::default();
        let asked = source.migrate_confirm(domain, &[], &cookie, 0, ending);
        if let Err(error) = asked.await {
            tracing::debug!(%error, "libvirt holds nothing for a move");
        }
    }

    /// The same as [`settle`] where the other end cannot be looked at: the VM stays if its guest runs here, for then it runs
    /// nowhere else, or if somebody has said that the other host is lost. Whether it does.
    pub(super) async fn settle_without_target(
        self: &Arc<Self>,
        uuid: Uuid,
        other: OtherEnd,
    ) -> Result<bool> {
        let here = self.session().await?;
        let seen = see(&here, uuid).await?;
        let stays = seen.sight == Sight::Runs || other == OtherEnd::Lost;
        if stays {
            self.keeps(&here, uuid, &seen).await?;
        }
        Ok(stays)
    }
}

/// A host that a VM was on its way to and that this provider does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtherEnd {
    /// It may be there, with the guest on it.
    Unseen,
    /// An administrator says that it will never come back.
    Lost,
}

fn leaving(marks: Option<&Marks>) -> Option<Leaving> {
    match &marks?.moving {
        Some(Moving::To { was, copied, .. }) => Some(Leaving {
            was: *was,
            copied: copied.clone(),
        }),
        _ => None,
    }
}

async fn undefine(session: &Session, domain: &Domain) -> Result<()> {
    match session.undefine(domain).await {
        Err(error) if error.is_absence() => Ok(()),
        other => Ok(other?),
    }
}

/// The domains of a host that an earlier life left on their way, with the host at the other end.
pub(super) fn unsettled(core: &Core) -> Vec<(Arc<Vm>, String)> {
    let to = |vm: &Arc<Vm>| match vm.config().ok()?.marks?.moving? {
        Moving::To { host, .. } => Some(host),
        Moving::From { .. } => None,
    };
    let all = core.all().into_iter();
    all.filter_map(|vm| Some((vm.clone(), to(&vm)?))).collect()
}

/// What is told of a move that an earlier life began and that has come to nothing.
pub(super) fn came_to_nothing(uuid: Uuid) -> ProviderError {
    let message = format!(
        "The move of the VM {uuid} was cut short when the provider was restarted, and it goes on where it was"
    );
    ProviderError::new(ErrorKind::Cancelled, message)
}

#[cfg(test)]
mod tests;
