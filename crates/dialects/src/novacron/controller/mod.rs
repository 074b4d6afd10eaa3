//! The controller of VMs of NovaCron.
//!
//! It stands on the runtime of the engine (stores, queue, events) and reads the engine's own caches, whose changes it follows.
//! It never speaks to a hypervisor.
//!
//! ```text
//!   VM ─► place ─► lower ─► finalizer ─► VMNetworkAttachments ─► VirtualMachine ─► VMSnapshot ─► raise ─► status
//! ```
//!
//! Every write can be sent again: each names the object by version or UID, or is a server-side apply. A crash between any two
//! of them leaves a VM that the next pass takes up where it stands.

mod deletion;
mod loss;
mod market;
mod migration;
mod pass;
mod place;
mod vm;
mod wake;

use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use kube::Client;
use polyvirt_api::infra;
use polyvirt_api::novacron::VirtualMachine;
use polyvirt_engine::manager::Shared;
use polyvirt_engine::next::Next;
use polyvirt_engine::placement::Chooser;
use polyvirt_engine::runtime::background::{self, Background, Fallen};
use polyvirt_engine::runtime::events;
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_engine::runtime::queue::Ticket;
use polyvirt_engine::runtime::store::Store;
use polyvirt_engine::runtime::watch::{Scope, objects};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::metrics::{Metrics, Outcome};
use super::settings::Settings;
use crate::shared::desk::Desk;
use crate::shared::line::{Line, all_listed};
use crate::shared::owner::is_owned;
use market::Market;

/// The name under which this dialect owns fields.
const FIELD_MANAGER: &str = "polyvirt-novacron";

/// The cache of this dialect.
#[derive(Default)]
struct Stores {
    vms: Store<VirtualMachine>,
}

/// The controller of VMs of NovaCron.
pub struct Controller {
    client: Client,
    settings: Settings,
    namespaces: Vec<String>,
    engine: Shared,
    metrics: Arc<Metrics>,
    stores: Arc<Stores>,
    market: Market,
    chooser: Chooser,
    line: Line,
    desk: Desk,
    told: std::sync::Mutex<Option<mpsc::Receiver<events::Told>>>,
}

impl Controller {
    /// A controller for VMs in these namespaces (all, if none is named), beside a manager that it has to follow.
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
            market: Market::default(),
            chooser: Chooser::default(),
            told: std::sync::Mutex::new(Some(receiver)),
        })
    }

    /// The VirtualMachines that it has made. One of the same name that is somebody else's is not among them.
    pub(super) fn own_vms(&self) -> Vec<(ObjectKey, Arc<infra::VirtualMachine>)> {
        let all = self.stores.vms.list().into_iter();
        let made = all.filter_map(|vm| {
            let key = ObjectKey::of(&*vm);
            let made = self.engine.stores.vms.get(&key)?;
            is_owned(&*made, &*vm).then_some((key, made))
        });
        made.collect()
    }

    /// The engine that it follows.
    pub(super) const fn engine(&self) -> &Shared {
        &self.engine
    }

    /// Runs until it is told to stop; passes under way are finished. If it falls, it stops all that share the token with it.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) -> Result<(), Fallen> {
        let mut background = Background::default();
        let told = self.told.lock().ok().and_then(|mut told| told.take());
        if let Some(told) = told {
            background.spawn(events::run(self.client.clone(), told, stop.clone()));
        }
        let mut listed = vec![self.engine.ready.clone()];
        for scope in Scope::all(&self.namespaces) {
            let (ready, feed) = self.feed(&scope);
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

    fn feed(self: &Arc<Self>, scope: &Scope) -> Feed {
        let (sender, receiver) = watch::channel(false);
        let controller = self.clone();
        let feed = objects(
            self.client.clone(),
            scope.clone(),
            self.stores.clone(),
            |stores: &Stores| &stores.vms,
            move |change, source| controller.edited(&change, source),
            sender,
        );
        (receiver, Box::pin(feed))
    }

    /// Work begins when every cache is complete, the engine's included: what is not listed yet must not look missing.
    async fn work(self: &Arc<Self>, listed: Vec<watch::Receiver<bool>>) {
        all_listed(listed).await;
        let vms = self.stores.vms.len();
        tracing::info!(controller = "novacron.io", vms, "✅ caches are complete");
        let pass = |ticket| {
            let controller = self.clone();
            async move { controller.pass(ticket).await }
        };
        self.line.serve(pass).await;
    }

    async fn pass(self: &Arc<Self>, ticket: Ticket) {
        let begin = Instant::now();
        let pass = Box::pin(self.reconcile(&ticket.key.object));
        let next = background::pass(&ticket.key, pass).await;
        let outcome = match next {
            Next::Backoff | Next::Retry(_) => Outcome::Error,
            Next::Idle | Next::After(_) => Outcome::Success,
        };
        self.metrics.pass(outcome, begin.elapsed());
        self.line.schedule(&ticket, next);
    }
}

type Feed = (watch::Receiver<bool>, BoxFuture<'static, ()>);
