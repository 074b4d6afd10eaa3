//! Looks after a guest on its way: how far it is, whether it still moves, whether it is to be stopped.
//!
//! The one thing that is asked again and again, twice a second for each guest that moves: libvirt tells of steps, not of bytes.

use std::time::{Duration, Instant};

use polyvirt_contract::model::{MigrationPhase, MigrationProgress};
use polyvirt_contract::{ErrorKind, ProviderError};
use polyvirt_provider_kit::fleet::running::Running;
use polyvirt_provider_kit::tasks::Progress;

use crate::rpc::{Domain, DomainJob, Session};

const EVERY: Duration = Duration::from_millis(500);
/// Passes over the memory after which a guest that may fetch the rest does so.
const PASSES: u64 = 2;

/// For how long memory may still be sent when the guest is stopped, by the passes over it that were not enough for less. QEMU
/// allows 300 ms by itself, and a guest on a fast link is then stopped with half of its memory still to come.
const AIMS: [(u64, Duration); 3] = [
    (0, Duration::from_millis(20)),
    (3, Duration::from_millis(100)),
    (6, Duration::from_millis(300)),
];

/// What to aim at after so many passes.
fn aim_after(passes: u64) -> Duration {
    let due = AIMS.iter().rev().find(|(after, _)| passes > *after);
    due.map_or(AIMS[0].1, |(_, aim)| *aim)
}

/// Why a guest is called back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallBack {
    /// Somebody asked for that.
    Stopped,
    /// Nothing has moved for so long.
    Stalled(Duration),
    /// The target does not answer any more.
    TargetLost,
}

impl CallBack {
    /// What is told of the move.
    pub(super) fn error(&self, why: &str) -> ProviderError {
        let stays = "the VM goes on where it was";
        match self {
            Self::Stopped => {
                let message = format!("The move was stopped, and {stays}");
                ProviderError::new(ErrorKind::Cancelled, message)
            }
            Self::Stalled(time) => {
                let message = format!(
                    "Nothing has moved for {} s, so the move was given up, and {stays}: see whether the source reaches the target ({why})",
                    time.as_secs()
                );
                ProviderError::new(ErrorKind::Timeout, message)
            }
            Self::TargetLost => {
                let message = format!("The target does not answer any more, and {stays}: {why}");
                ProviderError::new(ErrorKind::Unavailable, message)
            }
        }
    }
}

/// What is looked after.
pub(super) struct Follow<'a> {
    pub(super) session: &'a Session,
    pub(super) target: &'a Session,
    pub(super) domain: &'a Domain,
    pub(super) running: &'a Running,
    pub(super) progress: &'a Progress,
    pub(super) stall: Duration,
    pub(super) post_copy: bool,
}

impl Follow<'_> {
    /// Goes on until there is a reason to call the guest back.
    pub(super) async fn watch(&self) -> CallBack {
        let lost = self.target.over();
        tokio::select! {
            () = self.running.stop.cancelled() => CallBack::Stopped,
            () = lost.cancelled() => CallBack::TargetLost,
            stalled = self.look_on() => stalled,
        }
    }

    /// To be asked for before the guest is sent.
    pub(super) async fn aim_low(&self) {
        self.aim(AIMS[0].1).await;
    }

    async fn aim(&self, most: Duration) {
        if let Err(error) = self.session.set_downtime(self.domain, most).await {
            tracing::debug!(%error, "QEMU keeps to its own aim");
        }
    }

    async fn look_on(&self) -> CallBack {
        let mut moved = (0, Instant::now());
        let mut fetches = !self.post_copy;
        let mut aim = aim_after(0);
        loop {
            tokio::time::sleep(EVERY).await;
            let Ok((_, job)) = self.session.job(self.domain, 0).await else {
                // A source that does not answer ends the move itself.
                continue;
            };
            self.tell(&job);
            let bytes = job.number("data_processed").unwrap_or(0);
            if bytes != moved.0 {
                moved = (bytes, Instant::now());
            } else if moved.1.elapsed() > self.stall {
                return CallBack::Stalled(self.stall);
            }
            let passes = job.number("memory_iteration").unwrap_or(0);
            let due = aim_after(passes);
            if due > aim {
                aim = due;
                self.aim(aim).await;
            }
            if !fetches && passes > PASSES {
                fetches = self.fetch().await;
            }
        }
    }

    /// Lets the guest go on at the target; what is missing follows.
    async fn fetch(&self) -> bool {
        let begun = self.session.start_post_copy(self.domain).await;
        if let Err(error) = &begun {
            tracing::debug!(%error, "The guest cannot go on at the target yet");
            return false;
        }
        self.running.close();
        self.running
            .tell(|told| told.phase = MigrationPhase::Fetching);
        true
    }

    fn tell(&self, job: &DomainJob) {
        self.running.tell(|told| take_in(told, job));
        let told = self.running.progress();
        if let Some(percent) = percent(&told) {
            self.progress.at(percent);
        }
    }
}

/// Puts the figures of a job into what is told.
pub(super) fn take_in(told: &mut MigrationProgress, job: &DomainJob) {
    let total = job.number("data_total");
    if total.is_none_or(|bytes| bytes == 0) {
        return;
    }
    if told.phase == MigrationPhase::Preparing {
        told.phase = MigrationPhase::Copying;
    }
    told.total_bytes = total;
    told.remaining_bytes = job.number("data_remaining");
    let speed = ["memory_bps", "disk_bps"].map(|key| job.number(key));
    told.bytes_per_second = speed.into_iter().flatten().find(|bytes| *bytes > 0);
    if let Some(downtime) = job.number("downtime") {
        told.downtime = Some(Duration::from_millis(downtime));
    }
}

/// How much of it is there. The last percent is for what comes after.
fn percent(told: &MigrationProgress) -> Option<u8> {
    let (total, left) = (told.total_bytes?, told.remaining_bytes?);
    let there = total.saturating_sub(left);
    u8::try_from((there * 99).checked_div(total)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_told_as_they_come() {
        let mut told = MigrationProgress::default();
        take_in(&mut told, &DomainJob::of(&[]));
        assert_eq!(told, MigrationProgress::default(), "nothing is known yet");
        let figures = [
            ("data_total", 1000),
            ("data_remaining", 250),
            ("memory_bps", 7),
            ("downtime", 300),
        ];
        take_in(&mut told, &DomainJob::of(&figures));
        assert_eq!(told.phase, MigrationPhase::Copying);
        assert_eq!(told.remaining_bytes, Some(250));
        assert_eq!(told.downtime, Some(Duration::from_millis(300)));
        assert_eq!(percent(&told), Some(74));
        told.remaining_bytes = Some(0);
        assert_eq!(percent(&told), Some(99));
    }

    #[test]
    fn a_guest_that_writes_much_may_stand_still_longer() {
        let aims: Vec<_> = [0, 1, 3, 4, 6, 7, 90]
            .map(|passes| aim_after(passes).as_millis())
            .into();
        assert_eq!(aims, [20, 20, 20, 100, 100, 300, 300]);
    }

    #[test]
    fn a_reason_is_told_with_what_to_do() {
        for (why, kind) in [
            (CallBack::Stopped, ErrorKind::Cancelled),
            (
                CallBack::Stalled(Duration::from_secs(9)),
                ErrorKind::Timeout,
            ),
            (CallBack::TargetLost, ErrorKind::Unavailable),
        ] {
            assert_eq!(why.error("x").kind, kind);
        }
    }
}
