//! All controllers, running.

mod count;

use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::calls::Policy;
use crate::catalogue::Catalogue;
use crate::census::Census;
use crate::context::{Clock, Context, Stores};
use crate::guests::Guests;
use crate::link::Links;
use crate::metrics::Metrics;
use crate::next::Next;
use crate::provider::{Runtime, Sessions};
use crate::runtime::background::{self, Background, Fallen};
use crate::runtime::backoff::Backoff;
use crate::runtime::dispatch::{Dispatcher, Follower};
use crate::runtime::events;
use crate::runtime::key::{Key, Kind, ObjectKey};
use crate::runtime::kube_cluster::KubeCluster;
use crate::runtime::queue::{Lane, Queue, Ticket, Urgency};
use crate::runtime::watch::{Scope, namespaces, objects, secrets};
use crate::trace;
use crate::usage::Meter;
use crate::{image, migration, provider, shared, snapshot, unimplemented, virtual_machine};

/// How the manager runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Namespaces to work in; empty for all.
    pub namespaces: Vec<String>,
    /// Passes in flight for one provider.
    pub concurrency: usize,
    /// Which servers hooks may call.
    pub may_call: Policy,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            namespaces: Vec::new(),
            concurrency: 32,
            may_call: Policy::default(),
        }
    }
}

/// All controllers.
pub struct Manager {
    client: Client,
    config: Config,
    runtime: Arc<dyn Runtime>,
    metrics: Arc<Metrics>,
    ready: watch::Sender<bool>,
    stores: Arc<Stores>,
    links: Arc<Links>,
    meter: Arc<Meter>,
    queue: Queue,
    followers: Vec<Arc<dyn Follower>>,
}

/// What a manager shares with those that follow it.
#[derive(Clone)]
pub struct Shared {
    /// Its caches.
    pub stores: Arc<Stores>,
    /// Its providers.
    pub links: Arc<Links>,
    /// What VMs use.
    pub meter: Arc<Meter>,
    /// Turns true when all caches are filled.
    pub ready: watch::Receiver<bool>,
}

struct Parts {
    ctx: Context,
    sessions: Sessions,
    queue: Queue,
    backoff: Backoff,
    metrics: Arc<Metrics>,
}

impl Manager {
    /// A manager for the cluster behind the client, with the ways to reach providers that the runtime knows.
    pub fn new(
        client: Client,
        config: Config,
        runtime: Arc<dyn Runtime>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let links = Arc::<Links>::default();
        Self {
            queue: Queue::new(config.concurrency),
            client,
            config,
            runtime,
            metrics,
            ready: watch::Sender::new(false),
            stores: Arc::default(),
            meter: Meter::new(links.clone()),
            links,
            followers: Vec::new(),
        }
    }

    /// What it shares with those that follow it.
    pub fn shared(&self) -> Shared {
        Shared {
            stores: self.stores.clone(),
            links: self.links.clone(),
            meter: self.meter.clone(),
            ready: self.ready(),
        }
    }

    /// Tells somebody of all changes, from the start of [`Self::run`] on.
    pub fn follow(&mut self, follower: Arc<dyn Follower>) {
        self.followers.push(follower);
    }

    /// The way to the VMs, as far as the manager knows them.
    pub fn guests(&self) -> Guests {
        Guests::new(self.stores.clone(), self.links.clone())
    }

    /// What the caches hold, once they are filled.
    pub fn catalogue(&self) -> Catalogue {
        let namespaces = self.config.namespaces.clone();
        Catalogue::new(self.stores.clone(), namespaces, self.ready())
    }

    /// Counts VMs and what waits, whenever somebody asks for the metrics.
    pub fn census(&self) -> Census {
        Census::new(self.stores.clone(), self.queue.clone())
    }

    /// Turns true when all caches are filled and work has begun.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Runs until it is told to stop; passes under way are finished, for what they have sent must be written down. If it
    /// falls, it stops all that share the token with it.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Fallen> {
        let (events_in, events_out) = mpsc::channel(events::WAITING);
        let (stores, links) = (self.stores.clone(), self.links.clone());
        let queue = self.queue.clone();
        let dispatcher = Dispatcher::new(stores.clone(), queue.clone());
        let dispatcher = Arc::new(dispatcher.followed_by(self.followers.clone()));
        let clock: Clock = Arc::new(Timestamp::now);
        let cluster = Arc::new(KubeCluster::new(self.client.clone(), events_in));
        let ctx = Context::new(
            stores.clone(),
            cluster.clone(),
            links.clone(),
            clock.clone(),
            dispatcher.clone(),
        );
        let ctx = ctx.calling(self.config.may_call.clone());
        let sessions = Sessions::new(
            self.runtime.clone(),
            links,
            dispatcher.clone(),
            clock,
            self.metrics.clone(),
            stop.child_token(),
            self.config.concurrency,
        );
        let parts = Arc::new(Parts {
            ctx,
            sessions,
            queue,
            backoff: Backoff::default(),
            metrics: self.metrics.clone(),
        });
        let mut background = Background::default();
        let listed = self.watch(&mut background, &stores, &dispatcher);
        for scope in Scope::all(&self.config.namespaces) {
            for kind in unimplemented::KINDS {
                let client = self.client.clone();
                let (scope, cluster) = (scope.clone(), cluster.clone());
                background.spawn(unimplemented::run(client, scope, kind, cluster));
            }
        }
        background.spawn(news(self.runtime.news(), dispatcher.clone()));
        let events = tokio::spawn(events::run(self.client.clone(), events_out, stop.clone()));
        let ended = tokio::select! {
            () = work(&parts, listed, &self.ready) => Ok(()),
            () = stop.cancelled() => Ok(()),
            fallen = background.fallen() => Err(fallen),
        };
        stop.cancel();
        drain(&parts).await;
        background.shutdown().await;
        drop(parts);
        let _ = tokio::time::timeout(std::time::Duration::from_secs(5), events).await;
        ended
    }

    /// One watch a kind and scope. The receivers tell when each has its first list.
    fn watch(
        &self,
        tasks: &mut Background,
        stores: &Arc<Stores>,
        dispatcher: &Arc<Dispatcher>,
    ) -> Vec<watch::Receiver<bool>> {
        let mut listed = Vec::new();
        for scope in Scope::all(&self.config.namespaces) {
            for (ready, feed) in self.feeds(&scope, stores, dispatcher) {
                listed.push(ready);
                tasks.spawn(feed);
            }
            let told = dispatcher.clone();
            let tell = move |secret: &_| told.secret_changed(secret);
            tasks.spawn(secrets(self.client.clone(), scope, stores.clone(), tell));
        }
        if self.config.namespaces.is_empty() {
            let (sender, receiver) = watch::channel(false);
            let told = dispatcher.clone();
            let tell = move || told.namespaces_changed();
            tasks.spawn(namespaces(
                self.client.clone(),
                stores.clone(),
                tell,
                sender,
            ));
            listed.push(receiver);
        }
        listed
    }

    fn feeds(
        &self,
        scope: &Scope,
        stores: &Arc<Stores>,
        dispatcher: &Arc<Dispatcher>,
    ) -> Vec<(watch::Receiver<bool>, BoxFuture<'static, ()>)> {
        macro_rules! feed {
            ($field:ident, $changed:ident) => {{
                let (sender, receiver) = watch::channel(false);
                let (stores, dispatcher) = (stores.clone(), dispatcher.clone());
                let feed = objects(
                    self.client.clone(),
                    scope.clone(),
                    stores,
                    |stores| &stores.$field,
                    move |change, source| dispatcher.$changed(&change, source),
                    sender,
                );
                let boxed: BoxFuture<'static, ()> = Box::pin(feed);
                (receiver, boxed)
            }};
        }
        vec![
            feed!(vms, vm_changed),
            feed!(providers, provider_changed),
            feed!(classes, class_changed),
            feed!(images, image_changed),
            feed!(networks, network_changed),
            feed!(snapshots, snapshot_changed),
            feed!(policies, policy_changed),
            feed!(migrations, migration_changed),
        ]
    }
}

/// What the runtime has to tell of the places where providers run.
async fn news(mut news: BoxStream<'static, ObjectKey>, dispatcher: Arc<Dispatcher>) {
    while let Some(provider) = news.next().await {
        dispatcher.place_changed(&provider);
    }
}

/// Work begins when every cache is complete: a class that is merely not listed yet must not look missing.
async fn work(parts: &Arc<Parts>, listed: Vec<watch::Receiver<bool>>, ready: &watch::Sender<bool>) {
    for mut receiver in listed {
        let _ = receiver.wait_for(|done| *done).await;
    }
    ready.send_replace(true);
    tracing::info!(vms = parts.ctx.stores.vms.len(), "caches are complete");
    loop {
        let ticket = parts.queue.pop().await;
        let parts = parts.clone();
        tokio::spawn(async move { parts.pass(ticket).await });
    }
}

async fn drain(parts: &Arc<Parts>) {
    let patience = std::time::Duration::from_secs(10);
    let idle = async {
        while parts.queue.in_flight() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        hear_hooks(&parts.ctx).await;
    };
    if tokio::time::timeout(patience, idle).await.is_err() {
        tracing::warn!(
            "passes were still under way at the end; they are taken up again at the next start"
        );
    }
}

/// Hooks that end now have their end written down, and what follows from it done.
async fn hear_hooks(ctx: &Context) {
    while !ctx.errands.is_empty() {
        for vm in ctx.errands.over() {
            virtual_machine::reconcile(ctx, &vm).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

impl Parts {
    async fn pass(&self, ticket: Ticket) {
        let begin = Instant::now();
        self.metrics.waited(ticket.urgency, ticket.waited);
        let before = self.phase(&ticket.key);
        let moving = migration::count::before(&self.ctx, &ticket.key);
        let span = tracing::info_span!(
            target: trace::TARGET,
            "reconcile",
            kind = ticket.key.kind.name(),
            object = %ticket.key.object,
            waited_ms = u64::try_from(ticket.waited.as_millis()).unwrap_or(u64::MAX),
        );
        let pass = Box::pin(self.reconcile(&ticket.key).instrument(span));
        let next = background::pass(&ticket.key, pass).await;
        migration::count::after(&self.ctx, &self.metrics, &ticket.key, moving);
        let outcome = match next {
            Next::Idle => "success",
            Next::After(_) => "wait",
            Next::Backoff => "error",
        };
        self.metrics
            .pass(ticket.key.kind.name(), outcome, begin.elapsed());
        self.count_after(&ticket, before);
        self.schedule(&ticket.key, &ticket.lane, next);
    }

    async fn reconcile(&self, key: &Key) -> Next {
        match key.kind {
            Kind::VirtualMachine => virtual_machine::reconcile(&self.ctx, &key.object).await,
            Kind::Provider => provider::reconcile(&self.ctx, &self.sessions, &key.object).await,
            Kind::VMClass => shared::class::reconcile(&self.ctx, &key.object).await,
            Kind::VMImage => image::reconcile(&self.ctx, &key.object).await,
            Kind::VMNetworkAttachment => shared::network::reconcile(&self.ctx, &key.object).await,
            Kind::VMSnapshot => snapshot::reconcile(&self.ctx, &key.object).await,
            Kind::VMMigration => migration::reconcile(&self.ctx, &key.object).await,
            Kind::VMPlacementPolicy => shared::policy::reconcile(&self.ctx, &key.object).await,
            Kind::Machine
            | Kind::KubevirtConfig
            | Kind::NovacronVirtualMachine
            | Kind::VMClone
            | Kind::VMSet => Next::Idle,
        }
    }

    fn schedule(&self, key: &Key, lane: &Lane, next: Next) {
        let pause = match next {
            Next::Idle => {
                self.backoff.succeeded(key);
                return;
            }
            Next::After(pause) => {
                self.backoff.succeeded(key);
                pause
            }
            Next::Backoff => self.backoff.failed(key),
        };
        self.queue
            .add_after(key.clone(), lane.clone(), Urgency::Event, pause);
    }
}
