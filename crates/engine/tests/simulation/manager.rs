//! One life of the manager: real caches, dispatcher, queue and passes; only their executor is the schedule.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use polyvirt_engine::context::{Clock, Context, Stores};
use polyvirt_engine::link::Links;
use polyvirt_engine::next::Next;
use polyvirt_engine::runtime::backoff::pause;
use polyvirt_engine::runtime::dispatch::Dispatcher;
use polyvirt_engine::runtime::key::{Key, Kind};
use polyvirt_engine::runtime::queue::{Queue, Ticket, Urgency};
use polyvirt_engine::{image, migration, shared, snapshot, virtual_machine};

use crate::cluster::SimCluster;
use crate::feed::Feeds;
use crate::session::Session;
use crate::world::{Sim, poll_once};

type PassFuture = Pin<Box<dyn Future<Output = Next> + Send>>;

/// A pass under way.
struct Pass {
    ticket: Ticket,
    future: PassFuture,
}

/// One life of the manager. Dropping it is a crash: nothing of it is left.
pub struct Manager {
    sim: Arc<Sim>,
    ctx: Arc<Context>,
    pub queue: Queue,
    pub feeds: Feeds,
    pub session: Session,
    passes: Vec<Pass>,
    failures: BTreeMap<Key, u32>,
    /// When each object is looked at again, as far as the last pass has said.
    pub due: BTreeMap<Key, Duration>,
}

impl Manager {
    /// Starts as a new process does: with whole lists, and nothing remembered.
    pub fn start(sim: &Arc<Sim>) -> Self {
        sim.connection_died();
        let stores: Arc<Stores> = Arc::default();
        let links: Arc<Links> = Arc::default();
        let queue = Queue::new(sim.setting.lanes);
        let dispatcher = Arc::new(Dispatcher::new(stores.clone(), queue.clone()));
        let clock: Clock = {
            let sim = sim.clone();
            Arc::new(move || sim.now())
        };
        let cluster = Arc::new(SimCluster { sim: sim.clone() });
        let ctx = Context::new(
            stores.clone(),
            cluster,
            links.clone(),
            clock,
            dispatcher.clone(),
        );
        let session = Session::new(sim, &links, dispatcher.clone());
        sim.note(|| "manager starts".to_owned());
        Self {
            sim: sim.clone(),
            ctx: Arc::new(ctx),
            queue,
            feeds: Feeds::new(sim, stores, dispatcher),
            session,
            passes: Vec::new(),
            failures: BTreeMap::new(),
            due: BTreeMap::new(),
        }
    }

    pub fn passes(&self) -> usize {
        self.passes.len()
    }

    /// Whether the queue may have a pass to begin.
    pub fn has_ready(&self) -> bool {
        let now = self.sim.mock.now();
        self.feeds.listed()
            && (self.queue.waiting() > 0 || self.due.values().any(|due| *due <= now))
    }

    /// Begins the next pass that the queue has. False if it has none.
    pub fn begin_pass(&mut self) -> bool {
        if !self.feeds.listed() {
            return false;
        }
        let Some(ticket) = poll_once(std::pin::pin!(self.queue.pop())) else {
            return false;
        };
        self.due.remove(&ticket.key);
        if ticket.key.kind != Kind::Provider {
            self.sim
                .note(|| format!("  pass over {:?} begins", ticket.key));
            let future = reconcile(self.ctx.clone(), ticket.key.clone());
            self.passes.push(Pass { ticket, future });
        }
        true
    }

    /// Lets a pass go on to its next stop.
    pub fn continue_pass(&mut self, place: usize) {
        let pass = &mut self.passes[place];
        let next = poll_once(pass.future.as_mut());
        if self.sim.world().crashed {
            return;
        }
        if let Some(next) = next {
            let Pass { ticket, .. } = self.passes.remove(place);
            self.sim
                .note(|| format!("  pass over {:?} ends: {next:?}", ticket.key));
            self.schedule(&ticket, next);
        }
    }

    /// What the real manager does with the end of a pass.
    fn schedule(&mut self, ticket: &Ticket, next: Next) {
        let wait = match next {
            Next::Idle => {
                self.failures.remove(&ticket.key);
                return;
            }
            Next::After(wait) => {
                self.failures.remove(&ticket.key);
                wait
            }
            Next::Backoff => {
                let count = self.failures.entry(ticket.key.clone()).or_default();
                *count += 1;
                pause(*count, 0)
            }
        };
        self.due
            .insert(ticket.key.clone(), self.sim.mock.now() + wait);
        self.queue.add_after(
            ticket.key.clone(),
            ticket.lane.clone(),
            Urgency::Event,
            wait,
        );
    }

    /// Looks at an object though nothing has happened to it.
    pub fn wake(&self, key: Key) {
        use polyvirt_engine::runtime::queue::Lane;
        self.queue.add(key, Lane::Control, Urgency::Background);
    }

    /// All objects that the manager knows.
    pub fn known(&self) -> Vec<Key> {
        let stores = &self.ctx.stores;
        let lists = [
            (Kind::VirtualMachine, stores.vms.keys()),
            (Kind::VMClass, stores.classes.keys()),
            (Kind::VMImage, stores.images.keys()),
            (Kind::VMNetworkAttachment, stores.networks.keys()),
        ];
        let mut all: Vec<_> = lists
            .into_iter()
            .flat_map(|(kind, keys)| keys.into_iter().map(move |key| Key::new(kind, key)))
            .collect();
        all.sort();
        all
    }
}

fn reconcile(ctx: Arc<Context>, key: Key) -> PassFuture {
    Box::pin(async move {
        match key.kind {
            Kind::VirtualMachine => virtual_machine::reconcile(&ctx, &key.object).await,
            Kind::VMClass => shared::class::reconcile(&ctx, &key.object).await,
            Kind::VMImage => image::reconcile(&ctx, &key.object).await,
            Kind::VMNetworkAttachment => shared::network::reconcile(&ctx, &key.object).await,
            Kind::VMSnapshot => snapshot::reconcile(&ctx, &key.object).await,
            Kind::VMMigration => migration::reconcile(&ctx, &key.object).await,
            Kind::VMPlacementPolicy => shared::policy::reconcile(&ctx, &key.object).await,
            Kind::Provider
            | Kind::Machine
            | Kind::KubevirtConfig
            | Kind::NovacronVirtualMachine
            | Kind::VMClone
            | Kind::VMSet => Next::Idle,
        }
    })
}
