//! The controller of Machines and KubevirtConfigs.
//!
//! It stands on the runtime of the engine (stores, queue, events) and reads the engine's own caches of VirtualMachines and
//! Providers, whose changes it follows. It never speaks to a hypervisor but to ask whether a VM is there.
//!
//! ```text
//!   Machine ─► place ─► lower ─► finalizer and annotation ─► NetworkConfiguration ─► VirtualMachine ─► raise ─► status
//! ```
//!
//! Every write can be sent again: each names the object by version or UID, or is a server-side apply. A crash between any two
//! of them leaves a Machine that the next pass takes up where it stands.

mod checks;
mod config;
mod deletion;
mod loss;
mod machine;
mod media;
mod pass;
mod search;
mod stores;
mod wake;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use kube::Client;
use polyvirt_api::vitistack::KubevirtConfigStatus;
use polyvirt_engine::cluster::ClusterError;
use polyvirt_engine::manager::Shared;
use polyvirt_engine::next::Next;
use polyvirt_engine::runtime::background::{self, Background, Fallen};
use polyvirt_engine::runtime::events;
use polyvirt_engine::runtime::key::{Key, Kind, ObjectKey};
use polyvirt_engine::runtime::queue::Ticket;
use polyvirt_engine::runtime::watch::{Scope, objects};
use tokio::sync::{OnceCell, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use super::settings::Settings;
use crate::shared::desk::Desk;
use crate::shared::line::{Line, all_listed};
use media::Media;
use stores::Stores;

/// The name under which this dialect owns fields.
const FIELD_MANAGER: &str = "polyvirt-vitistack";

/// The controller of Machines and KubevirtConfigs.
pub struct Controller {
    client: Client,
    settings: Settings,
    namespaces: Vec<String>,
    engine: Shared,
    metrics: Arc<Metrics>,
    stores: Arc<Stores>,
    line: Line,
    desk: Desk,
    told: std::sync::Mutex<Option<mpsc::Receiver<events::Told>>>,
    cluster: OnceCell<Option<String>>,
    media: Media,
    differs: std::sync::Mutex<Option<String>>,
    ready: watch::Sender<bool>,
}

impl Controller {
    /// A controller for Machines in these namespaces (all, if none is named), beside a manager that it has to follow.
    pub fn new(
        client: Client,
        settings: Settings,
        namespaces: Vec<String>,
        engine: Shared,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let (sender, receiver) = mpsc::channel(events::WAITING);
        Arc::new(Self {
            desk: Desk::new(client.clone(), FIELD_MANAGER, sender),
            line: Line::new(settings.concurrency),
            client,
            settings,
            namespaces,
            engine,
            metrics,
            stores: Arc::default(),
            told: std::sync::Mutex::new(Some(receiver)),
            cluster: OnceCell::new(),
            media: Media::default(),
            differs: std::sync::Mutex::default(),
            ready: watch::Sender::new(false),
        })
    }

    /// Whether work has begun: true once all caches are complete.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// How each cluster stands, by the name of its KubevirtConfig.
    pub fn clusters(&self) -> Vec<(String, String)> {
        let phase = |status: KubevirtConfigStatus| status.phase.unwrap_or_default();
        let statuses = self.statuses().into_iter();
        let mut found: Vec<_> = statuses.map(|(name, s)| (name, phase(s))).collect();
        found.sort();
        found
    }

    /// All KubevirtConfigs that count, in order.
    fn configs(&self) -> Vec<ObjectKey> {
        let mut keys = self.stores.configs.keys();
        keys.retain(|key| self.settings.configs_namespace.covers(key.namespace()));
        keys.sort();
        keys
    }

    fn statuses(&self) -> Vec<(String, KubevirtConfigStatus)> {
        let configs = self.stores.configs.keys().into_iter();
        let ours = configs.filter(|key| self.settings.configs_namespace.covers(key.namespace()));
        let found = ours.filter_map(|key| {
            let status = self.stores.configs.get(&key)?.status.clone();
            Some((key.name().to_owned(), status.unwrap_or_default()))
        });
        found.collect()
    }

    /// Runs until it is told to stop; passes under way are finished. If it falls, it stops all that share the token with it.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) -> Result<(), Fallen> {
        let mut background = Background::default();
        let told = self.told.lock().ok().and_then(|mut told| told.take());
        if let Some(told) = told {
            background.spawn(events::run(self.client.clone(), told, stop.clone()));
        }
        background.spawn(self.clone().ask_servers());
        background.spawn(self.clone().check_definitions());
        let mut listed = Vec::new();
        for (ready, feed) in self.feeds() {
            listed.push(ready);
            background.spawn(feed);
        }
        let ended = tokio::select! {
            () = self.work(listed) => Ok(()),
            () = stop.cancelled() => Ok(()),
            fallen = background.fallen() => Err(fallen),
        };
        stop.cancel();
        self.line.drain().await;
        background.shutdown().await;
        ended
    }

    fn feeds(self: &Arc<Self>) -> Vec<Feed> {
        let mut feeds = vec![self.class_feed()];
        for scope in Scope::all(&self.namespaces) {
            feeds.extend(self.feeds_in(&scope));
        }
        feeds
    }

    fn feeds_in(self: &Arc<Self>, scope: &Scope) -> Vec<Feed> {
        macro_rules! feed {
            ($field:ident, $changed:ident) => {{
                let (sender, receiver) = watch::channel(false);
                let controller = self.clone();
                let feed = objects(
                    self.client.clone(),
                    scope.clone(),
                    self.stores.clone(),
                    |stores: &Stores| &stores.$field,
                    move |change, source| controller.$changed(&change, source),
                    sender,
                );
                let boxed: BoxFuture<'static, ()> = Box::pin(feed);
                (receiver, boxed)
            }};
        }
        vec![
            feed!(machines, machine_changed),
            feed!(configs, config_changed),
            feed!(networks, network_changed),
            feed!(spaces, space_changed),
        ]
    }

    /// Classes belong to the cluster.
    fn class_feed(self: &Arc<Self>) -> Feed {
        let (sender, receiver) = watch::channel(false);
        let controller = self.clone();
        let feed = objects(
            self.client.clone(),
            Scope::Cluster,
            self.stores.clone(),
            |stores: &Stores| &stores.classes,
            move |change, source| controller.class_changed(&change, source),
            sender,
        );
        (receiver, Box::pin(feed))
    }

    /// Work begins when every cache is complete, the engine's included: what is not listed yet must not look missing.
    async fn work(self: &Arc<Self>, listed: Vec<watch::Receiver<bool>>) {
        let engine = self.engine.ready.clone();
        all_listed(listed.into_iter().chain([engine])).await;
        self.learn_cluster().await;
        self.say_what_is_there();
        self.ready.send_replace(true);
        let pass = |ticket| {
            let controller = self.clone();
            async move { controller.pass(ticket).await }
        };
        self.line.serve(pass).await;
    }

    fn say_what_is_there(&self) {
        let (machines, configs) = (self.stores.machines.len(), self.stores.configs.len());
        tracing::info!(
            controller = "Machine",
            machines,
            configs,
            "✅ caches are complete"
        );
        if machines > 0 && configs == 0 {
            tracing::warn!(
                controller = "Machine",
                "⚠️ there are Machines and no KubevirtConfig"
            );
        }
    }

    /// What tells this cluster from all others never changes, and what is made of it must not either.
    async fn learn_cluster(&self) {
        loop {
            match self.desk.cluster_uid().await {
                Ok(uid) => return drop(self.cluster.set(uid)),
                Err(ClusterError::Forbidden(why)) => {
                    tracing::warn!(
                        why,
                        "kube-system cannot be read: VMs in this cluster get no owner reference"
                    );
                    return drop(self.cluster.set(None));
                }
                Err(error) => {
                    tracing::warn!(%error, "kube-system cannot be read yet");
                    tokio::time::sleep(Duration::from_secs(2)).await;
                }
            }
        }
    }

    async fn reconcile(self: &Arc<Self>, key: &Key) -> Next {
        match key.kind {
            Kind::Machine => self.reconcile_machine(&key.object).await,
            Kind::KubevirtConfig => self.reconcile_config(&key.object).await,
            _ => Next::Idle,
        }
    }

    async fn pass(self: &Arc<Self>, ticket: Ticket) {
        let begin = Instant::now();
        let lane = self.lane(&ticket.key);
        if lane != ticket.lane {
            return self.line.wake_in(lane, ticket.key.clone(), ticket.urgency);
        }
        let pass = Box::pin(self.reconcile(&ticket.key));
        let next = background::pass(&ticket.key, pass).await;
        let kind = ticket.key.kind.name();
        self.metrics.pass(kind, begin.elapsed());
        if next == Next::Backoff {
            self.metrics.error(kind, "KubernetesApiError");
        }
        self.line.schedule(&ticket, next);
    }
}

type Feed = (watch::Receiver<bool>, BoxFuture<'static, ()>);
