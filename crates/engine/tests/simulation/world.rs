//! The world around the manager: its clock, its API server, its hypervisor, and the fate that befalls each effect.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use polyvirt_provider_mock::Mock;

use crate::api_server::ApiServer;
use crate::effect::{Effect, Fate, Side};
use crate::ledger::Ledger;
use crate::rng::Rng;
use crate::setting::Setting;
use crate::summary::Summary;

/// The simulated world begins here.
const BEGINNING: i64 = 1_767_225_600;
/// How long a call may go unanswered.
const DEADLINE: Duration = Duration::from_secs(30);
/// How often work that is late and takes its time is looked at.
const LATE_STEP: Duration = Duration::from_millis(500);
/// Longer than any create takes.
const LONGEST_LATE: Duration = Duration::from_secs(30);
/// The longest that a request is under way after its client has given up, in seconds.
const LATEST: u64 = 60;
/// The same for a client that died, where the provider hears of that.
const LATEST_OF_THE_DEAD: Duration = Duration::from_secs(4);

/// A request that happens though nobody waits for it.
pub struct Late {
    pub due: Duration,
    /// When it is given up.
    until: Option<Duration>,
    pub work: BoxFuture<'static, ()>,
}

/// What has happened, if somebody wants to read it.
#[derive(Default)]
pub struct Trace {
    pub lines: Option<Vec<String>>,
}

/// Everything that changes in the world.
pub struct World {
    pub rng: Rng,
    pub api: ApiServer,
    pub ledger: Ledger,
    pub summary: Summary,
    pub trace: Trace,
    /// Nothing goes wrong by chance any more.
    pub calm: bool,
    pub api_down: bool,
    pub provider_down: bool,
    /// The manager has died and nobody has noticed yet.
    pub crashed: bool,
    /// Fates that are set beforehand, each for the next such effect.
    pub script: Vec<(Effect, Fate)>,
    /// The manager dies at this effect, counted from the beginning.
    pub crash_at: Vec<(u64, Side)>,
    pub effects: u64,
    pub late: Vec<Late>,
    /// How many ended tasks may still be told as failed.
    pub lies_left: u64,
    /// VMs cannot be started, and each attempt is news.
    pub failing_starts: Option<Noise>,
    /// Attempts to start a VM that cannot be started.
    pub starts_tried: u64,
}

/// What a provider publishes of a VM with each attempt to start it that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// The same as before, as a new revision.
    Revision,
    /// That it runs, and that it is off.
    Power,
}

/// The world, shared by everybody in it.
pub struct Sim {
    pub mock: Arc<Mock>,
    pub setting: Setting,
    world: Mutex<World>,
}

/// Why an effect is not answered as it should be.
#[derive(Clone, Copy, Debug)]
pub enum Refusal {
    /// It did not happen; the number chooses the words.
    Refused(u64),
    /// It happened.
    AnswerLost(u64),
    TimedOut,
    /// The other side is down.
    Down,
}

impl Sim {
    pub fn new(setting: Setting, seed: u64, traced: bool) -> Arc<Self> {
        let mut rng = Rng::new(seed ^ 0x5EED);
        let world = World {
            api: ApiServer::default(),
            ledger: Ledger::default(),
            summary: Summary::default(),
            trace: Trace {
                lines: traced.then(Vec::new),
            },
            calm: false,
            api_down: false,
            provider_down: false,
            crashed: false,
            script: Vec::new(),
            crash_at: Vec::new(),
            effects: 0,
            late: Vec::new(),
            lies_left: rng.below(3),
            failing_starts: None,
            starts_tried: 0,
            rng,
        };
        let mock = Mock::new(setting.mock(seed));
        Arc::new(Self {
            mock,
            setting,
            world: Mutex::new(world),
        })
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.mock.now()).expect("a short time");
        Timestamp::from_second(BEGINNING).expect("in range") + passed
    }

    /// Time passes, for everybody alike; what is late happens at its time, whatever else stands still.
    pub fn advance(&self, time: Duration) {
        let end = self.mock.now() + time;
        while let Some(due) = self.next_late().filter(|due| *due < end) {
            let step = due.saturating_sub(self.mock.now()).max(LATE_STEP);
            self.pass(step.min(end.saturating_sub(self.mock.now())));
            self.run_late();
            if self.mock.now() >= end {
                return;
            }
        }
        self.pass(end.saturating_sub(self.mock.now()));
        self.run_late();
    }

    fn pass(&self, time: Duration) {
        self.mock.advance(time);
        poll_once(std::pin::pin!(tokio::time::advance(time)));
    }

    fn next_late(&self) -> Option<Duration> {
        self.world().late.iter().map(|late| late.due).min()
    }

    /// Writes into the trace, if there is one.
    pub fn note(&self, text: impl FnOnce() -> String) {
        let mut world = self.world();
        if world.trace.lines.is_some() {
            let line = format!("{:>9.3} {}", self.mock.now().as_secs_f64(), text());
            world.trace.lines.get_or_insert_default().push(line);
        }
    }

    /// Lets the world decide what becomes of an effect, and carries it out accordingly.
    pub async fn perform<T: Debug + Send>(
        &self,
        effect: Effect,
        detail: impl FnOnce() -> String + Send,
        work: impl Future<Output = T> + Send,
        refuse: impl Fn(Refusal) -> T + Send,
    ) -> T {
        let fate = self.decide(effect);
        self.note(|| format!("    {effect:?} {} [{fate:?}]", detail()));
        self.carry_out(fate, work, refuse).await
    }

    /// What becomes of an effect.
    pub fn decide(&self, effect: Effect) -> Fate {
        let mut world = self.world();
        let fate = world.draw_fate(effect, &self.setting);
        world.summary.fate(effect, fate);
        fate
    }

    pub async fn carry_out<T: Debug + Send>(
        &self,
        fate: Fate,
        work: impl Future<Output = T> + Send,
        refuse: impl Fn(Refusal) -> T + Send,
    ) -> T {
        let chance = self.world().rng.next();
        if self.is_down(fate) {
            return refuse(Refusal::Down);
        }
        self.pause().await;
        let answer = match fate {
            Fate::Refused => return refuse(Refusal::Refused(chance)),
            Fate::Crash(Side::Before) | Fate::CrashInFlight => self.die().await,
            Fate::TimesOut(Side::Before) => {
                self.wait(DEADLINE).await;
                return refuse(Refusal::TimedOut);
            }
            _ => work.await,
        };
        match fate {
            Fate::Crash(Side::After) => self.die().await,
            Fate::AnswerLost => return refuse(Refusal::AnswerLost(chance)),
            Fate::TimesOut(Side::After) | Fate::HappensLater => {
                self.wait(DEADLINE).await;
                return refuse(Refusal::TimedOut);
            }
            _ => {}
        }
        self.pause().await;
        self.note(|| format!("      -> {}", shortened(&answer)));
        answer
    }

    /// A side that is down refuses at once; the fate of such an effect is told as refused.
    fn is_down(&self, fate: Fate) -> bool {
        let world = self.world();
        fate == Fate::Refused && (world.api_down || world.provider_down)
    }

    /// The manager ends here.
    async fn die<T>(&self) -> T {
        self.world().crashed = true;
        std::future::pending().await
    }

    /// Others come between, or not.
    async fn pause(&self) {
        let stops = {
            let mut world = self.world();
            let odds = self.setting.odds.pause;
            !world.calm && world.rng.percent(odds)
        };
        if stops {
            Yield(false).await;
        }
    }

    async fn wait(&self, time: Duration) {
        let until = self.mock.now() + time;
        while self.mock.now() < until {
            Yield(false).await;
        }
    }

    /// The request is under way, and happens whatever becomes of its client.
    pub fn put_off(&self, work: BoxFuture<'static, ()>) {
        let mut world = self.world();
        let delay = Duration::from_secs(world.rng.between(1, LATEST));
        let due = self.mock.now() + delay;
        let gives_up = DEADLINE + LATEST_OF_THE_DEAD;
        let until = (!self.setting.is_basic()).then(|| self.mock.now() + gives_up);
        world.late.push(Late { due, until, work });
    }

    /// The client has died. A provider of ours lets no request of a dead connection wait for long; a foreign one may.
    pub fn connection_died(&self) {
        if self.setting.is_basic() {
            return;
        }
        let latest = self.mock.now() + LATEST_OF_THE_DEAD;
        for late in &mut self.world().late {
            late.until = Some(late.until.unwrap_or(latest).min(latest));
        }
    }

    /// Lets requests that are late happen when their time has come.
    pub fn run_late(&self) {
        let now = self.mock.now();
        let due: Vec<_> = {
            let mut world = self.world();
            let (due, rest) = std::mem::take(&mut world.late)
                .into_iter()
                .partition(|late| late.due <= now);
            world.late = rest;
            due
        };
        for mut late in due {
            // A provider that went away takes the request with it.
            let until = *late.until.get_or_insert(now + LONGEST_LATE);
            if now > until || poll_once(late.work.as_mut()).is_some() {
                continue;
            }
            late.due = now + LATE_STEP;
            self.world().late.push(late);
        }
    }
}

impl World {
    fn draw_fate(&mut self, effect: Effect, setting: &Setting) -> Fate {
        self.effects += 1;
        let number = self.effects;
        if let Some(place) = self.crash_at.iter().position(|(at, _)| *at == number) {
            return Fate::Crash(self.crash_at.remove(place).1);
        }
        if let Some(place) = self.script.iter().position(|(of, _)| *of == effect) {
            return self.script.remove(place).1;
        }
        if if effect.is_api() {
            self.api_down
        } else {
            self.provider_down
        } {
            return Fate::Refused;
        }
        if self.calm {
            Fate::Happens
        } else {
            self.draw(effect, setting)
        }
    }

    fn draw(&mut self, effect: Effect, setting: &Setting) -> Fate {
        let (odds, rng) = (&setting.odds, &mut self.rng);
        let side = if rng.percent(50) {
            Side::Before
        } else {
            Side::After
        };
        if effect == Effect::Create && rng.per_mille(odds.later) {
            return if rng.percent(50) {
                Fate::HappensLater
            } else {
                Fate::CrashInFlight
            };
        }
        if rng.per_mille(odds.crash) {
            return Fate::Crash(side);
        }
        if rng.per_mille(odds.refused) {
            return Fate::Refused;
        }
        if rng.per_mille(odds.answer_lost) {
            return Fate::AnswerLost;
        }
        if !effect.is_api() && rng.per_mille(odds.times_out) {
            return Fate::TimesOut(side);
        }
        Fate::Happens
    }
}

/// Pending once.
struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// Polls a future once; nobody is ever woken, the schedule decides who runs.
pub fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

fn shortened(value: &impl Debug) -> String {
    let mut text = format!("{value:?}");
    if text.len() > 240 {
        let end = (0..=240)
            .rev()
            .find(|i| text.is_char_boundary(*i))
            .unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}
