//! Looks after a guest on its way: how far it is, whether it still moves, whether it is to be stopped.
//!
//! The one thing that is asked again and again, twice a second for each guest that moves: libvirt tells of steps, not of bytes.

use std::time::{Duration, Instant};

use polyvirt_contract::model::{MigrationPhase, MigrationProgress};
use polyvirt_contract::{ErrorKind, ProviderError};
use polyvirt_provider_kit::fleet::pace::{Look, Pace, Terms};
use polyvirt_provider_kit::fleet::running::Running;
use polyvirt_provider_kit::tasks::Progress;

use super::stopwatch::Stopwatch;
use crate::rpc::{Domain, DomainJob, Session};

const EVERY: Duration = Duration::from_millis(500);
/// A guest that is stopped for the last part of its memory goes on before that.
const SOON_OVER: Duration = Duration::from_secs(1);
/// Passes over the memory after which a guest that may fetch the rest does so.
const PASSES: u64 = 2;

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
    pub(super) stopwatch: &'a Stopwatch,
    /// Of a guest that runs meanwhile.
    pub(super) pace: Option<Pace>,
}

impl Follow<'_> {
    /// Goes on until there is a reason to call the guest back.
    pub(super) async fn watch(&mut self) -> CallBack {
        let pace = self.pace.take();
        let lost = self.target.over();
        tokio::select! {
            () = self.running.stop.cancelled() => CallBack::Stopped,
            () = lost.cancelled() => CallBack::TargetLost,
            stalled = self.look_on(pace) => stalled,
        }
    }

    /// To be asked for before the guest is sent. What an earlier move of it was held to no longer counts.
    pub(super) async fn begin(&self) {
        let Some(pace) = &self.pace else { return };
        let terms = pace.begin();
        self.aim(terms.downtime).await;
        // Disks would keep to a speed that is told now, so memory is held back when it is begun with.
        self.hold(None).await;
    }

    async fn aim(&self, most: Duration) {
        if let Err(error) = self.session.set_downtime(self.domain, most).await {
            tracing::debug!(%error, "QEMU keeps to its own aim");
        }
    }

    async fn hold(&self, speed: Option<u64>) {
        if let Err(error) = self.session.set_speed(self.domain, speed).await {
            tracing::debug!(%error, "QEMU keeps to its own speed");
        }
    }

    async fn look_on(&self, mut pace: Option<Pace>) -> CallBack {
        let mut moved = (0, Instant::now());
        let mut fetches = !self.post_copy;
        let mut kept = None;
        loop {
            self.next().await;
            let job = self.look().await;
            let bytes = job.as_ref().map_or(moved.0, sent);
            if bytes != moved.0 {
                moved = (bytes, Instant::now());
            } else if moved.1.elapsed() > self.stall {
                return CallBack::Stalled(self.stall);
            }
            let Some(job) = job else { continue };
            self.tell(&job);
            if let Some(terms) = paced(pace.as_mut(), &job) {
                self.keep_to(terms, &mut kept).await;
            }
            if !fetches && passes(&job) > PASSES {
                fetches = self.fetch().await;
            }
        }
    }

    /// How far it is. A guest that was just stopped would wait for the answer too; a source that gives none ends the move itself.
    async fn look(&self) -> Option<DomainJob> {
        let stopped = self.stopwatch.stands_still();
        if stopped.is_some_and(|time| time < SOON_OVER) {
            return None;
        }
        let answer = self.session.job(self.domain, 0).await;
        answer.ok().map(|(_, job)| job)
    }

    /// Waits for the time of the next look, or until memory begins to move.
    async fn next(&self) {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = self.stopwatch.memory_begins() => {}
        }
    }

    /// Tells QEMU what is new.
    async fn keep_to(&self, terms: Terms, kept: &mut Option<Terms>) {
        let before = kept.replace(terms);
        if before.is_none_or(|before| before.speed != terms.speed) {
            self.hold(terms.speed).await;
        }
        if before.is_some_and(|before| before.downtime != terms.downtime) {
            self.aim(terms.downtime).await;
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

fn sent(job: &DomainJob) -> u64 {
    job.number("data_processed").unwrap_or(0)
}

fn passes(job: &DomainJob) -> u64 {
    job.number("memory_iteration").unwrap_or(0)
}

/// What memory is to keep to from here on, if it moves.
fn paced(pace: Option<&mut Pace>, job: &DomainJob) -> Option<Terms> {
    let look = Look {
        at: Instant::now(),
        pass: passes(job),
        left: job.number("memory_remaining")?,
        sent: job.number("memory_processed")?,
    };
    let pace = pace.filter(|_| look.pass > 0)?;
    Some(pace.after(look))
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
    fn memory_is_held_back_from_its_first_pass_on_and_disks_are_not() {
        let mut pace = Pace::new(None);
        let figures = |pass| {
            let left = ("memory_remaining", 100 << 20);
            DomainJob::of(&[("memory_iteration", pass), left, ("memory_processed", 7)])
        };
        assert_eq!(paced(Some(&mut pace), &figures(0)), None, "disks move");
        assert_eq!(paced(None, &figures(1)), None, "the guest stands still");
        let terms = paced(Some(&mut pace), &figures(1)).expect("memory moves");
        assert_eq!(terms.speed, Some(128 << 20));
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
