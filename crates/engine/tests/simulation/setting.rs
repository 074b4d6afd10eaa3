//! What one schedule is like: everything that is decided before it begins, from its seed alone.

use std::time::Duration;

use polyvirt_provider_mock::{Clock, MockConfig, Offer, Resize, TaskMode, Times};

use crate::rng::Rng;

/// What a provider without identities does when a name is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenName {
    /// Refuses.
    Refuse,
    /// Makes a second VM of the same name.
    MakeAnother,
}

/// How likely each fault is, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Odds {
    pub refused: u64,
    pub answer_lost: u64,
    pub times_out: u64,
    pub later: u64,
    pub crash: u64,
    /// A pass stops at an effect so that others come between, in hundredths.
    pub pause: u64,
}

/// What one schedule is like.
#[derive(Clone, Debug)]
pub struct Setting {
    pub offer: Offer,
    pub taken_name: TakenName,
    pub tasks: TaskMode,
    pub resize: Resize,
    pub times: Times,
    pub odds: Odds,
    /// Passes in flight for one provider.
    pub lanes: usize,
    /// Moves before the faults end.
    pub moves: u64,
    pub user_actions: u64,
    pub meddling: u64,
    /// The mock's own lies about its stream and its tasks, in thousandths.
    pub stutter: u64,
    pub forgets_tasks: u64,
    /// Creates that leave their VM half created, in thousandths.
    pub half_creates: u64,
}

impl Setting {
    /// A world in which nothing goes wrong by itself.
    pub fn quiet(offer: Offer, tasks: TaskMode) -> Self {
        Self {
            offer,
            taken_name: TakenName::Refuse,
            tasks,
            resize: Resize::AtRestart,
            times: seconds([2, 2, 1, 1, 3, 2, 4]),
            odds: Odds::default(),
            lanes: 4,
            moves: 0,
            user_actions: 0,
            meddling: 0,
            stutter: 0,
            forgets_tasks: 0,
            half_creates: 0,
        }
    }

    /// A world drawn from the seed.
    pub fn draw(rng: &mut Rng) -> Self {
        let offer = if rng.percent(60) {
            Offer::Full
        } else {
            Offer::Basic
        };
        let user_actions = rng.between(2, 12);
        Self {
            offer,
            taken_name: *rng.pick(&[TakenName::Refuse, TakenName::MakeAnother]),
            tasks: *rng.pick(&[TaskMode::Immediate, TaskMode::Async]),
            resize: *rng.pick(&[Resize::AtRestart, Resize::Online]),
            times: times(rng),
            odds: odds(rng),
            lanes: *rng.pick(&[1, 2, 8]),
            moves: 60 + user_actions * rng.between(15, 60),
            user_actions,
            meddling: if rng.percent(55) {
                rng.between(1, 4)
            } else {
                0
            },
            stutter: *rng.pick(&[0, 0, 50, 250]),
            forgets_tasks: *rng.pick(&[0, 0, 100]),
            // Without identities no create completes what another one began.
            half_creates: match offer {
                Offer::Full => *rng.pick(&[0, 0, 200, 600]),
                Offer::Basic => 0,
            },
        }
    }

    pub fn mock(&self, seed: u64) -> MockConfig {
        MockConfig {
            clock: Clock::Manual,
            offer: self.offer,
            tasks: self.tasks,
            resize: self.resize,
            times: self.times,
            seed,
            ..MockConfig::default()
        }
    }

    pub fn is_basic(&self) -> bool {
        self.offer == Offer::Basic
    }
}

fn odds(rng: &mut Rng) -> Odds {
    if rng.percent(15) {
        // Only crashes: what they leave behind is not hidden by other faults.
        return Odds {
            crash: *rng.pick(&[20, 60, 150]),
            ..Odds::default()
        };
    }
    Odds {
        refused: *rng.pick(&[0, 20, 60, 150]),
        answer_lost: *rng.pick(&[0, 20, 60, 150]),
        times_out: *rng.pick(&[0, 0, 20, 60]),
        later: *rng.pick(&[0, 100, 300]),
        crash: *rng.pick(&[0, 10, 30, 80]),
        pause: *rng.pick(&[0, 20, 60]),
    }
}

fn times(rng: &mut Rng) -> Times {
    let mut draw = || *rng.pick(&[0, 0, 1, 3, 12]);
    seconds([draw(), draw(), draw(), draw(), draw(), draw(), draw()])
}

fn seconds([create, delete, power, reconfigure, image, boot, shutdown]: [u64; 7]) -> Times {
    Times {
        create: Duration::from_secs(create),
        delete: Duration::from_secs(delete),
        power: Duration::from_secs(power),
        reconfigure: Duration::from_secs(reconfigure),
        image: Duration::from_secs(image),
        boot: Duration::from_secs(boot),
        shutdown: Duration::from_secs(shutdown),
        ..Times::default()
    }
}
