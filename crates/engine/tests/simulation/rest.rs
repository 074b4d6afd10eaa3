//! The end of a schedule: faults stop, everything is delivered, and within bounds the system comes to rest.

use std::time::Duration;

use crate::api_server::Watched;
use crate::checks;
use crate::schedule::Schedule;

/// More moves than any calm system needs.
const MOST_MOVES: usize = 4000;
/// Time after which nothing may be left to wait for.
const LONGEST: Duration = Duration::from_secs(2 * 3600);
/// Wakes that come a little later (counts of users) come within this time.
const MOMENT: Duration = Duration::from_secs(4);

impl Schedule {
    /// Calms the world down, lets it come to rest and checks every promise.
    pub fn conclude(&mut self) -> Result<(), String> {
        self.calm_down();
        self.come_to_rest()?;
        checks::at_rest(self)?;
        self.check_stillness()
    }

    pub fn calm_down(&mut self) {
        self.sim.note(|| "--- calm".to_owned());
        self.user.complete_the_lab();
        self.sim.mock.faults().clear();
        let mut world = self.sim.world();
        world.calm = true;
        world.api_down = false;
        world.provider_down = false;
    }

    /// Everything is delivered and every wait ends, by wakes alone: nobody looks at anything without a reason.
    pub fn come_to_rest(&mut self) -> Result<(), String> {
        let begin = self.sim.mock.now();
        for _ in 0..MOST_MOVES {
            if self.busy()? {
                continue;
            }
            match self.next_due() {
                Some(wait) => self.sim.advance(wait),
                None => return Ok(()),
            }
            self.after_move()?;
            if self.sim.mock.now() - begin > LONGEST {
                return Err(format!(
                    "Does not come to rest: waits for {:?}",
                    self.manager.due
                ));
            }
        }
        Err(format!(
            "Does not come to rest in {MOST_MOVES} moves; due: {:?}",
            self.manager.due
        ))
    }

    /// Does whatever can be done without waiting. False if there is nothing.
    pub fn busy(&mut self) -> Result<bool, String> {
        let mut busy = false;
        for watched in Watched::ALL {
            while !self.lagging && self.manager.feeds.has_news(watched) {
                self.manager.feeds.deliver(watched);
                busy = true;
            }
        }
        while self.manager.session.has_work() && self.manager.session.advance() {
            busy = true;
            self.after_move()?;
        }
        while self.manager.begin_pass() {
            busy = true;
        }
        busy |= self.continue_passes()?;
        Ok(busy)
    }

    /// Every pass goes on as far as it can. False if all of them wait for time to pass.
    fn continue_passes(&mut self) -> Result<bool, String> {
        let before = self.manager.passes();
        for place in (0..before).rev() {
            self.manager.continue_pass(place);
            self.after_move()?;
            if self.manager.passes() == 0 {
                break;
            }
        }
        Ok(self.manager.passes() < before)
    }

    /// How long until something happens by itself. `None` if nothing will but what may go on for ever.
    fn next_due(&mut self) -> Option<Duration> {
        let now = self.sim.mock.now();
        let late = self.sim.world().late.iter().map(|late| late.due).min();
        let conflicts = checks::conflicting(&self.sim);
        // What was due before waits for a place in its lane.
        let due = self
            .manager
            .due
            .iter()
            .filter(|(key, at)| !conflicts.contains(*key) && **at > now);
        let due = due.map(|(_, at)| *at).min();
        let passes = (self.manager.passes() > 0).then(|| now + Duration::from_secs(1));
        let asking = self.manager.session.is_asking();
        let list = asking.then(|| now + Duration::from_secs(1));
        let next = [self.sim.mock.next_due(), late, due, passes, list]
            .into_iter()
            .flatten()
            .min();
        match next {
            Some(at) => Some(at.saturating_sub(now).max(Duration::from_millis(1))),
            None => self.a_moment_more(now),
        }
    }

    /// Late wakes and the sweep of a provider that cannot stream are waited for once, before all is called still.
    fn a_moment_more(&mut self, now: Duration) -> Option<Duration> {
        if self.stillness < 2 {
            self.stillness += 1;
            let sweep = self
                .manager
                .session
                .next_due()
                .map(|at| at.saturating_sub(now));
            return Some(sweep.unwrap_or_default().max(MOMENT));
        }
        self.stillness = 0;
        None
    }

    /// At rest, looking at everything once more changes nothing anywhere.
    fn check_stillness(&mut self) -> Result<(), String> {
        let before = self.changes();
        for key in self.manager.known() {
            self.manager.wake(key);
        }
        self.come_to_rest()?;
        let after = self.changes();
        if before == after {
            Ok(())
        } else {
            Err(format!("Not still at rest: {before:?} became {after:?}"))
        }
    }

    /// Writes of objects, and changes on the hypervisor.
    fn changes(&self) -> (u64, u64) {
        (
            self.sim.world().api.writes,
            self.sim.mock.counts().mutations(),
        )
    }
}
