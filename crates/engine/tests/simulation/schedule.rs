//! One schedule: moves in an order that the seed decides, then calm, then the promises are checked.

use std::sync::Arc;
use std::time::Duration;

use polyvirt_provider_mock::{Often, Rule, Stutter};

use crate::api_server::Watched;
use crate::manager::Manager;
use crate::meddler::Meddler;
use crate::rng::Rng;
use crate::setting::Setting;
use crate::summary::Summary;
use crate::user::User;
use crate::world::Sim;

/// Why a schedule failed.
#[derive(Debug)]
pub struct Failure {
    pub what: String,
    pub trace: Vec<String>,
}

/// Something that can happen next.
#[derive(Clone, Copy, Debug)]
enum Move {
    BeginPass,
    ContinuePass(usize),
    Deliver(Watched),
    Repeat(Watched),
    Expire(Watched),
    Session,
    Sweep,
    Time,
    User,
    Meddle,
    CrashManager,
    ApiServer,
    Provider,
}

/// The world, everybody in it, and what comes next.
pub struct Schedule {
    pub sim: Arc<Sim>,
    pub manager: Manager,
    pub user: User,
    pub meddler: Meddler,
    rng: Rng,
    user_actions: u64,
    meddling: u64,
    /// How often nothing was left to do but to wait a moment.
    pub stillness: u32,
    /// Watches deliver nothing for now (in stories only).
    pub lagging: bool,
}

/// Runs the schedule of a seed to its end.
pub fn run(seed: u64, traced: bool) -> Result<Summary, Failure> {
    let mut rng = Rng::new(seed);
    let setting = Setting::draw(&mut rng);
    let sim = Sim::new(setting, seed, traced);
    let user = User::new(&sim, &mut rng);
    let mut schedule = Schedule::new(&sim, user, rng);
    let result = schedule.chaos().and_then(|()| schedule.conclude());
    let mut world = sim.world();
    match result {
        Ok(()) => {
            world.summary.schedules = 1;
            Ok(std::mem::take(&mut world.summary))
        }
        Err(what) => Err(Failure {
            what,
            trace: world.trace.lines.take().unwrap_or_default(),
        }),
    }
}

impl Schedule {
    pub fn new(sim: &Arc<Sim>, user: User, rng: Rng) -> Self {
        sim.note(|| format!("{:?}", sim.setting));
        Self {
            sim: sim.clone(),
            manager: Manager::start(sim),
            user,
            meddler: Meddler { sim: sim.clone() },
            user_actions: sim.setting.user_actions,
            meddling: sim.setting.meddling,
            stillness: 0,
            lagging: false,
            rng,
        }
    }

    fn chaos(&mut self) -> Result<(), String> {
        self.mock_faults();
        for _ in 0..self.sim.setting.moves {
            let moves = self.possible();
            let Some(next) = self.rng.weighted(moves) else {
                continue;
            };
            self.make(next);
            self.after_move()?;
        }
        Ok(())
    }

    fn mock_faults(&self) {
        let faults = self.sim.mock.faults();
        let parts = |mille: u64| Often::Chance(u32::try_from(mille * 1000).unwrap_or(0));
        let stutter = self.sim.setting.stutter;
        for kind in [
            Stutter::Duplicate,
            Stutter::Late(Duration::from_secs(3)),
            Stutter::Reorder,
        ] {
            faults.add(Rule::Watch {
                stutter: kind,
                often: parts(stutter),
            });
        }
        faults.add(Rule::Watch {
            stutter: Stutter::Break,
            often: parts(stutter / 5),
        });
        faults.add(Rule::ForgetTask(parts(self.sim.setting.forgets_tasks)));
        faults.add(Rule::HalfCreate(parts(self.sim.setting.half_creates)));
    }

    fn possible(&mut self) -> Vec<(u64, Move)> {
        let mut list = Vec::new();
        if self.manager.has_ready() {
            list.push((6, Move::BeginPass));
        }
        list.extend((0..self.manager.passes()).map(|place| (6, Move::ContinuePass(place))));
        for watched in Watched::ALL {
            let news = u64::from(self.manager.feeds.has_news(watched));
            list.push((5 * news, Move::Deliver(watched)));
        }
        if self.manager.session.has_work() {
            list.push((3, Move::Session));
        }
        let busy: u64 = list.iter().map(|(weight, _)| weight).sum();
        // People act at any time, and most often when the system seems to be done.
        let eagerness = if busy <= 3 { 3 } else { 1 };
        list.push((3, Move::Time));
        list.push((self.user_actions.min(eagerness), Move::User));
        list.push((self.meddling.min(1), Move::Meddle));
        list.extend(self.recoveries());
        if self.rng.percent(4) {
            list.extend(self.rare());
        }
        list
    }

    /// Outages end sooner or later.
    fn recoveries(&self) -> Vec<(u64, Move)> {
        let world = self.sim.world();
        let weight = |down: bool| if down { 3 } else { 0 };
        vec![
            (weight(world.api_down), Move::ApiServer),
            (weight(world.provider_down), Move::Provider),
        ]
    }

    /// Moves that come seldom, whatever else there is to do.
    fn rare(&self) -> Vec<(u64, Move)> {
        let mut list = vec![
            (5, Move::ApiServer),
            (5, Move::Provider),
            (2, Move::Sweep),
            (
                if self.sim.setting.odds.crash > 0 {
                    5
                } else {
                    0
                },
                Move::CrashManager,
            ),
        ];
        for watched in Watched::ALL {
            list.push((1, Move::Repeat(watched)));
            list.push((1, Move::Expire(watched)));
        }
        list
    }

    fn make(&mut self, next: Move) {
        match next {
            Move::BeginPass => drop(self.manager.begin_pass()),
            Move::ContinuePass(place) => self.manager.continue_pass(place),
            Move::Deliver(watched) => self.manager.feeds.deliver(watched),
            Move::Repeat(watched) => self.manager.feeds.repeat(watched),
            Move::Expire(watched) => self.manager.feeds.expire(watched),
            Move::Session => drop(self.manager.session.advance()),
            Move::Sweep => self.manager.session.sweep_now(),
            Move::Time => self.let_time_pass(),
            Move::User => {
                self.user_actions -= 1;
                self.user.act(&mut self.rng);
            }
            Move::Meddle => {
                self.meddling -= 1;
                self.meddler.act(&mut self.rng, self.manager.passes());
            }
            Move::CrashManager => self.sim.world().crashed = true,
            Move::ApiServer => self.toggle_api_server(),
            Move::Provider => self.toggle_provider(),
        }
    }

    /// A little, or until something is due.
    fn let_time_pass(&mut self) {
        let now = self.sim.mock.now();
        let due = self
            .sim
            .mock
            .next_due()
            .into_iter()
            .chain(self.manager.due.values().copied())
            .min();
        let rest = due.map_or(0, |due| due.saturating_sub(now).as_millis());
        let millis = match self.rng.below(10) {
            0..5 => self.rng.below(1500),
            5..9 => u64::try_from(rest).unwrap_or(0).min(400_000),
            _ => self.rng.below(130_000),
        };
        self.sim.advance(Duration::from_millis(millis));
    }

    /// The API server restarts; while it is down nobody reads or writes, and some watches are too old afterwards.
    fn toggle_api_server(&mut self) {
        let down = {
            let mut world = self.sim.world();
            world.api_down = !world.api_down;
            world.summary.count("outages", "API server up or down");
            world.api_down
        };
        self.sim.note(|| format!("API server down: {down}"));
        if !down {
            for watched in Watched::ALL {
                if self.rng.percent(40) && self.manager.feeds.listed() {
                    self.manager.feeds.expire(watched);
                }
            }
        }
    }

    fn toggle_provider(&mut self) {
        let down = {
            let mut world = self.sim.world();
            world.provider_down = !world.provider_down;
            world.summary.count("outages", "provider up or down");
            world.provider_down
        };
        self.sim.note(|| format!("provider down: {down}"));
        if down {
            self.sim.mock.faults().break_watches();
            if self.rng.percent(60) {
                self.manager.session.lose();
            }
        }
    }

    /// What is due happens, the dead manager is replaced, and what must always hold is checked.
    pub fn after_move(&mut self) -> Result<(), String> {
        self.sim.run_late();
        let crashed = std::mem::take(&mut self.sim.world().crashed);
        if crashed {
            self.sim.note(|| "manager dies".to_owned());
            self.manager = Manager::start(&self.sim);
        }
        let mut world = self.sim.world();
        world.summary.moves += 1;
        drop(world);
        crate::checks::always(&self.sim)
    }
}
