//! A story told by hand, in the same world: for what a schedule once found, and for crashes at every place.

use std::sync::Arc;
use std::time::Duration;

use polyvirt_contract::model::VmState;
use polyvirt_engine::runtime::key::Key;
use polyvirt_provider_mock::{Offer, TaskMode};
use serde_json::Value;

use crate::api_server::Watched;
use crate::checks;
use crate::effect::{Effect, Fate};
use crate::rng::Rng;
use crate::schedule::Schedule;
use crate::setting::Setting;
use crate::user::User;
use crate::world::Sim;

/// A story told by hand. Nothing goes wrong in it but what is said.
pub struct Scenario {
    pub sim: Arc<Sim>,
    pub schedule: Schedule,
    _clock: crate::Paused,
}

impl Scenario {
    pub fn new(setting: Setting) -> Self {
        let clock = crate::enter();
        let sim = Sim::new(setting, 1, true);
        sim.world().calm = true;
        let user = User::with_lab(&sim);
        let schedule = Schedule::new(&sim, user, Rng::new(1));
        Self {
            sim,
            schedule,
            _clock: clock,
        }
    }

    /// A provider with identities and a stream.
    pub fn full(tasks: TaskMode) -> Self {
        Self::new(Setting::quiet(Offer::Full, tasks))
    }

    /// A provider that knows `provider.v1` only.
    pub fn basic(tasks: TaskMode) -> Self {
        Self::new(Setting::quiet(Offer::Basic, tasks))
    }

    pub fn create(&self, key: &Key, object: Value) {
        assert!(
            self.schedule.user.create(key, object),
            "{key:?} is there already"
        );
    }

    pub fn edit(&self, key: &Key, change: impl FnOnce(&mut Value)) {
        self.schedule.user.edit(key, change);
    }

    /// The watches tell everything; no pass begins yet.
    pub fn deliver(&mut self) {
        let feeds = &mut self.schedule.manager.feeds;
        for watched in Watched::ALL {
            while feeds.has_news(watched) {
                feeds.deliver(watched);
            }
        }
    }

    /// A user does something that the watches have not told when the time is over.
    pub fn unnoticed(&mut self, act: impl FnOnce(&Self), time: Duration) {
        self.schedule.lagging = true;
        act(self);
        self.run_for(time);
        self.schedule.lagging = false;
    }

    pub fn annotate(&self, key: &Key, name: &str, value: &str) {
        self.schedule.user.annotate(key, name, value);
    }

    /// The next such effect ends so.
    pub fn fate(&self, effect: Effect, fate: Fate) {
        self.sim.world().script.push((effect, fate));
    }

    /// Lets everything happen that can, and every wait end.
    pub fn settle(&mut self) {
        let result = self.schedule.come_to_rest();
        self.expect(result);
    }

    /// Lets everything happen that can within this time.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.sim.mock.now() + time;
        while self.sim.mock.now() < end {
            while self.schedule.busy().expect("no promise is broken") {}
            self.sim.advance(Duration::from_millis(250));
        }
    }

    /// Lets the system come to rest, and checks every promise.
    pub fn conclude(&mut self) {
        let result = self.schedule.conclude();
        self.expect(result);
    }

    fn expect(&self, result: Result<(), String>) {
        if let Err(what) = result {
            let trace = self.sim.world().trace.lines.take().unwrap_or_default();
            panic!("{what}\n\n{}", trace.join("\n"));
        }
    }

    pub fn object(&self, key: &Key) -> Option<Arc<Value>> {
        self.sim.world().api.get(key).cloned()
    }

    /// The reason of the condition Ready.
    pub fn reason(&self, key: &Key) -> String {
        checks::ready(&self.object(key).expect("the object")).1
    }

    /// The only VM on the hypervisor.
    pub fn only_vm(&self) -> VmState {
        let vms = self.sim.mock.vms();
        assert_eq!(vms.len(), 1, "{vms:?}");
        vms.into_iter().next().expect("one")
    }
}
