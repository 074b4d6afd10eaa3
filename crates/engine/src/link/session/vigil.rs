//! What a session asks its provider beside the stream of events: health, and what the hypervisor has.
//!
//! Questions run beside the stream, one at a time. A provider that is slow to answer them delays no event.

use std::time::Duration;

use polyvirt_contract::ProviderError;
use polyvirt_contract::model::Inventory;
use tokio::time::Instant;

/// The inventory is read this part of the interval between health checks after VMs have changed, so that many changes are one
/// question; but not more often than once in this time.
const NEWS_PART: u32 = 12;
const LEAST_PAUSE: Duration = Duration::from_secs(1);

/// Storage fills without any news of VMs: each such health check reads the inventory instead, which proves health as well.
const EACH: u32 = 15;

/// A question of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Whether the provider answers.
    Health,
    /// The same, by a look at what the hypervisor has.
    HealthByInventory,
    /// Whether it answers, because calls fail in a row.
    Suspicion,
    /// What the hypervisor has, because VMs have changed.
    Inventory,
}

impl Question {
    /// Whether it is one of the health checks at regular intervals.
    pub(super) const fn is_regular(self) -> bool {
        matches!(self, Self::Health | Self::HealthByInventory)
    }
}

/// The answer to a question.
pub(super) struct Answer {
    pub question: Question,
    pub took: Duration,
    pub result: Result<Option<Inventory>, ProviderError>,
}

/// When to ask what.
#[derive(Debug)]
pub(super) struct Vigil {
    has_inventory: bool,
    ticks: u32,
    /// Failed health checks in a row.
    failed: u32,
    /// When the inventory is to be read again.
    stale: Option<Instant>,
    pause: Duration,
}

impl Vigil {
    pub(super) fn new(has_inventory: bool, interval: Duration) -> Self {
        Self {
            has_inventory,
            ticks: 0,
            failed: 0,
            stale: None,
            pause: (interval / NEWS_PART).max(LEAST_PAUSE),
        }
    }

    /// VMs have changed: what they use may have, too.
    pub(super) fn news(&mut self, now: Instant) {
        if self.has_inventory {
            self.stale.get_or_insert(now + self.pause);
        }
    }

    /// When the inventory is to be read; `None` if nothing has changed.
    pub(super) const fn stale(&self) -> Option<Instant> {
        self.stale
    }

    /// The inventory is being read.
    pub(super) const fn refreshing(&mut self) -> Question {
        self.stale = None;
        Question::Inventory
    }

    /// The question of the next health check.
    pub(super) const fn tick(&mut self) -> Question {
        self.ticks = self.ticks.wrapping_add(1);
        if self.has_inventory && self.ticks.is_multiple_of(EACH) {
            self.stale = None;
            Question::HealthByInventory
        } else {
            Question::Health
        }
    }

    /// Counts failed health checks. `Err` if the provider turned out to be dead.
    pub(super) fn judge(
        &mut self,
        answer: &Answer,
        failures: u32,
    ) -> std::result::Result<(), ProviderError> {
        let Err(error) = &answer.result else {
            self.failed = 0;
            return Ok(());
        };
        match answer.question {
            // Calls have failed already: one failed health check is enough.
            Question::Suspicion => return Err(error.clone()),
            // It says nothing of health; the next change asks again.
            Question::Inventory => return Ok(()),
            Question::Health | Question::HealthByInventory => self.failed += 1,
        }
        if self.failed >= failures {
            return Err(error.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use polyvirt_contract::ErrorKind;

    use super::*;

    fn failed(question: Question) -> Answer {
        Answer {
            question,
            took: Duration::ZERO,
            result: Err(ProviderError::new(ErrorKind::Timeout, "late")),
        }
    }

    #[test]
    fn many_changes_are_one_question() {
        let now = Instant::now();
        let mut vigil = Vigil::new(true, Duration::from_secs(60));
        vigil.news(now);
        vigil.news(now + Duration::from_secs(3));
        assert_eq!(vigil.stale(), Some(now + Duration::from_secs(5)));
        assert_eq!(vigil.refreshing(), Question::Inventory);
        assert_eq!(vigil.stale(), None);
        let mut without = Vigil::new(false, Duration::from_secs(60));
        without.news(now);
        assert_eq!(without.stale(), None);
    }

    #[test]
    fn several_failed_checks_break_the_link_and_a_suspicion_needs_one() {
        let mut vigil = Vigil::new(true, Duration::from_secs(60));
        assert!(vigil.judge(&failed(Question::Health), 2).is_ok());
        assert!(vigil.judge(&failed(Question::Inventory), 2).is_ok());
        assert!(vigil.judge(&failed(Question::Health), 2).is_err());
        let mut vigil = Vigil::new(true, Duration::from_secs(60));
        assert!(vigil.judge(&failed(Question::Suspicion), 2).is_err());
    }

    #[test]
    fn each_fifteenth_check_reads_the_inventory() {
        let mut vigil = Vigil::new(true, Duration::from_secs(60));
        let asked: Vec<_> = (0..30).map(|_| vigil.tick()).collect();
        let reads = asked.iter().filter(|q| **q == Question::HealthByInventory);
        assert_eq!(reads.count(), 2);
    }
}
