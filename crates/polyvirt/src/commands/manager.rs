//! `polyvirt manager`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use polyvirt_dialects::{novacron, vitistack};
use polyvirt_engine::leader::{Elector, Terms};
use polyvirt_engine::manager::{self, Manager};
use polyvirt_engine::metrics::Metrics;
use polyvirt_engine::runtime::background::Fallen;
use polyvirt_pki::{Keeper, MANAGER_NAME};
use polyvirt_runtimes::Settings;
use prometheus_client::registry::Registry as MetricsRegistry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{probes, stop_signal};
use crate::cli;
use crate::guests;
use crate::hypervisors;
use crate::leader_label;
use crate::registry::Registry;
use crate::webhooks;

/// Runs the controllers until the program is asked to stop.
pub async fn run(options: cli::Manager) -> anyhow::Result<()> {
    let client = client(options.kubeconfig.as_deref()).await?;
    let metrics = Arc::new(Metrics::of_build(env!("POLYVIRT_REVISION")));
    let config = manager::Config {
        namespaces: options.namespaces.clone(),
        concurrency: options.concurrency,
        may_call: options.hooks.policy(),
        sharing: options.sharing.into(),
    };
    let program = std::env::current_exe().context("The program's own file cannot be found")?;
    let keeper = keeper(&options, &client)?;
    let registry = Arc::new(Registry::new(
        client.clone(),
        settings(&options),
        keeper.clone(),
        program,
        options.pods.remote_providers,
    ));
    let mut manager = Manager::new(client.clone(), config, registry, metrics.clone());
    let machines = Arc::new(vitistack::Metrics::default());
    let nova = Arc::new(novacron::Metrics::default());
    let dialects = Dialects {
        vitistack: vitistack(&options, &client, &mut manager, &machines),
        novacron: novacron(&options, &client, &mut manager, &nova),
    };
    let home = cli::Home::here();
    let standby = watch::Sender::new(false);
    let reviews = polyvirt_admission::Metrics::default();
    let counted = Counted {
        metrics: &metrics,
        reviews: &reviews,
        machines: &machines,
        nova: &nova,
        figures: novacron::Figures::of(dialects.novacron.clone()),
    };
    serve_metrics(options.metrics_address(home), &manager, counted).await?;
    let readiness = Readiness {
        engine: manager.ready(),
        dialect: dialects.vitistack.clone(),
        standby: standby.subscribe(),
    };
    serve_probes(options.probes_address(home), readiness).await?;
    let stop = stop_token();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "manager starts");
    let namespace = own_namespace(&options);
    let webhooks = webhooks::serve(
        &options, &namespace, &keeper, &client, &manager, reviews, &stop,
    )
    .await?;
    let workers = Workers {
        manager,
        dialects,
        keeper,
    };
    let worked = work(&options, client, workers, &metrics, &standby, stop.clone()).await;
    stop.cancel();
    webhooks.ended().await;
    worked
}

/// The controllers of our own kinds, and those of other APIs.
struct Workers {
    manager: Manager,
    dialects: Dialects,
    keeper: Arc<Keeper>,
}

/// The controllers of other APIs.
struct Dialects {
    vitistack: Arc<vitistack::Controller>,
    novacron: Arc<novacron::Controller>,
}

impl Workers {
    async fn serve_guests(
        &self,
        options: &cli::Manager,
        client: Client,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let guests = self.manager.guests();
        guests::serve(options, client, &self.keeper, guests, stop.clone()).await
    }

    /// Until they are told to stop, or one of them falls.
    async fn run(self, stop: CancellationToken) -> Result<(), Fallen> {
        let (ours, machines, nova) = tokio::join!(
            self.manager.run(stop.clone()),
            self.dialects.vitistack.run(stop.clone()),
            self.dialects.novacron.run(stop),
        );
        ours.and(machines).and(nova)
    }
}

fn vitistack(
    options: &cli::Manager,
    client: &Client,
    manager: &mut Manager,
    metrics: &Arc<vitistack::Metrics>,
) -> Arc<vitistack::Controller> {
    let controller = vitistack::Controller::new(
        client.clone(),
        options.vitistack.settings(),
        options.namespaces.clone(),
        manager.shared(),
        metrics.clone(),
    );
    manager.follow(controller.clone());
    controller
}

fn novacron(
    options: &cli::Manager,
    client: &Client,
    manager: &mut Manager,
    metrics: &Arc<novacron::Metrics>,
) -> Arc<novacron::Controller> {
    let controller = novacron::Controller::new(
        client.clone(),
        options.novacron.settings(&own_namespace(options)),
        options.namespaces.clone(),
        manager.shared(),
        metrics.clone(),
    );
    manager.follow(controller.clone());
    controller
}

/// Until it is told to stop; an error if another manager may lead.
async fn work(
    options: &cli::Manager,
    client: Client,
    workers: Workers,
    metrics: &Metrics,
    standby: &watch::Sender<bool>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    if !options.elects(cli::Home::here()) {
        workers.serve_guests(options, client, &stop).await?;
        return Ok(Box::pin(workers.run(stop)).await?);
    }
    lead(options, client, workers, metrics, standby, stop).await
}

/// Stands by until it leads, then works. An error if it has to end because another manager may lead.
async fn lead(
    options: &cli::Manager,
    client: Client,
    workers: Workers,
    metrics: &Metrics,
    standby: &watch::Sender<bool>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let lease = &options.leader_election_id;
    let namespace = own_namespace(options);
    let identity = identity();
    let terms = Terms::default();
    let elector = Elector::new(client.clone(), &namespace, lease, &identity, terms);
    metrics.stands_by(lease);
    standby.send_replace(true);
    tracing::info!(%namespace, lease, identity, "standing by");
    leader_label::take_off(client.clone(), lease).await;
    let term = tokio::select! {
        term = elector.acquire() => term,
        () = stop.cancelled() => return Ok(()),
    };
    tracing::info!(%namespace, lease, identity, "leading");
    metrics.leads(lease);
    standby.send_replace(false);
    leader_label::put_on(client.clone(), lease, stop.clone());
    workers.serve_guests(options, client, &stop).await?;
    Ok(term.lead(Box::pin(workers.run(stop))).await??)
}

/// Cancelled when the program is asked to stop.
fn stop_token() -> CancellationToken {
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    tokio::spawn(async move {
        stop_signal().await;
        tracing::info!("stopping");
        stopping.cancel();
    });
    stop
}

/// What the pods of providers are made of.
fn settings(options: &cli::Manager) -> Settings {
    let pairs = options.pods.provider_clients.iter();
    let labels = pairs.filter_map(|pair| pair.split_once('='));
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Settings {
        serves: hypervisors::served(),
        fetches: hypervisors::fetching(),
        image: options
            .pods
            .provider_image
            .clone()
            .filter(|i| !i.is_empty()),
        images: images_of_types(),
        types: options.pods.provider_types.clone(),
        manager_namespace: own_namespace(options),
        manager_labels: labels.collect(),
        cluster_domain: options.pods.cluster_domain.clone(),
        namespaces: options.namespaces.clone(),
    }
}

/// Who signs the certificates of this manager, of its servers and of its providers.
fn keeper(options: &cli::Manager, client: &Client) -> anyhow::Result<Arc<Keeper>> {
    let lifetimes = options.pods.lifetimes()?;
    let namespace = own_namespace(options);
    Ok(Arc::new(Keeper::new(client.clone(), &namespace, lifetimes)))
}

/// `POLYVIRT_PROVIDER_IMAGE_LIBVIRT` and the like.
fn images_of_types() -> BTreeMap<String, String> {
    let named = |(name, image): (String, String)| {
        let kind = name.strip_prefix("POLYVIRT_PROVIDER_IMAGE_")?;
        Some((kind.to_lowercase(), image))
    };
    let images = std::env::vars().filter_map(named);
    images.filter(|(_, image)| !image.is_empty()).collect()
}

/// The file in which a pod finds its namespace.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

fn own_namespace(options: &cli::Manager) -> String {
    let told = options.leader_election_namespace.clone();
    let told = told.or_else(|| options.vitistack.operator_namespace.clone());
    told.or_else(|| std::fs::read_to_string(POD_NAMESPACE).ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| super::up::catalogue::NAMESPACE.to_owned())
}

/// Of this process alone: a pod that is started again under its name is another one.
fn identity() -> String {
    let host = std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME"));
    let host = host.unwrap_or_else(|_| "manager".to_owned());
    let born = jiff::Timestamp::now().as_nanosecond();
    format!("{host}_{}_{born:x}", std::process::id())
}

/// All that is counted.
struct Counted<'a> {
    metrics: &'a Metrics,
    reviews: &'a polyvirt_admission::Metrics,
    machines: &'a vitistack::Metrics,
    nova: &'a novacron::Metrics,
    figures: novacron::Figures,
}

async fn serve_metrics(
    address: Option<SocketAddr>,
    manager: &Manager,
    counted: Counted<'_>,
) -> anyhow::Result<()> {
    let Some(address) = address else {
        return Ok(());
    };
    let mut registry = MetricsRegistry::default();
    counted.metrics.register(&mut registry);
    counted.reviews.register(&mut registry);
    counted.machines.register(&mut registry);
    counted.nova.register(&mut registry);
    registry.register_collector(Box::new(manager.census()));
    registry.register_collector(Box::new(counted.figures));
    probes::serve("metrics", address, probes::metrics(registry)).await
}

async fn serve_probes(address: Option<SocketAddr>, readiness: Readiness) -> anyhow::Result<()> {
    let Some(address) = address else {
        return Ok(());
    };
    let ready = move || readiness.look();
    probes::serve("health", address, probes::health(ready)).await
}

/// What a manager that can be relied on has done.
#[derive(Clone)]
struct Readiness {
    engine: watch::Receiver<bool>,
    dialect: Arc<vitistack::Controller>,
    standby: watch::Receiver<bool>,
}

impl Readiness {
    /// How the clusters stand, once it works; one that stands by is as ready as it can be.
    fn look(&self) -> probes::Readiness {
        if *self.standby.borrow() {
            return Ok("standing by".to_owned());
        }
        for (what, filled) in [
            ("our kinds", &self.engine),
            ("Machines", &self.dialect.ready()),
        ] {
            if !*filled.borrow() {
                return Err(format!("the caches of {what} are not filled yet"));
            }
        }
        let clusters = self.dialect.clusters().into_iter();
        let lines = clusters.map(|(name, phase)| format!("KubevirtConfig {name}: {phase}"));
        Ok(lines.collect::<Vec<_>>().join("\n"))
    }
}

/// The cluster: the file that was named, the usual places, the pod's own account.
pub(super) async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let mut config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("Cannot read {}", path.display()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .context("The kubeconfig cannot be used")?
        }
        None => Config::infer()
            .await
            .context("No cluster: name a file with --kubeconfig or set KUBECONFIG")?,
    };
    let agent = format!("{MANAGER_NAME}/{}", env!("CARGO_PKG_VERSION"));
    config.headers.push((
        axum::http::header::USER_AGENT,
        agent.parse().context("Not a header")?,
    ));
    Client::try_from(config).context("The kubeconfig cannot be used")
}
