//! `polyvirt manager`.

use std::sync::Arc;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use polyvirt_engine::manager::{self, Manager};
use polyvirt_engine::metrics::Metrics;
use prometheus_client::registry::Registry as MetricsRegistry;
use tokio_util::sync::CancellationToken;

use super::{probes, stop_signal};
use crate::cli;
use crate::guests;
use crate::registry::Registry;

/// Runs the controllers until the program is asked to stop.
pub async fn run(options: cli::Manager) -> anyhow::Result<()> {
    let client = client(&options).await?;
    let metrics = Arc::new(Metrics::default());
    let config = manager::Config {
        namespaces: options.namespaces.clone(),
        concurrency: options.concurrency,
    };
    let registry = Arc::new(Registry::new(client.clone()));
    let manager = Manager::new(client.clone(), config, registry, metrics.clone());
    serve(&options, &manager, &metrics).await?;
    let stop = CancellationToken::new();
    guests::serve(&options, client, manager.guests(), stop.clone()).await?;
    let stopping = stop.clone();
    tokio::spawn(async move {
        stop_signal().await;
        tracing::info!("stopping");
        stopping.cancel();
    });
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "manager starts");
    manager.run(stop).await;
    Ok(())
}

async fn serve(options: &cli::Manager, manager: &Manager, metrics: &Metrics) -> anyhow::Result<()> {
    if let Some(address) = options.metrics_bind_address.0 {
        let mut registry = MetricsRegistry::default();
        metrics.register(&mut registry);
        probes::serve("metrics", address, probes::metrics(registry)).await?;
    }
    if let Some(address) = options.health_probe_bind_address.0 {
        probes::serve("health", address, probes::health(manager.ready())).await?;
    }
    Ok(())
}

/// The cluster: the file that was named, the usual places, the pod's own account.
async fn client(options: &cli::Manager) -> anyhow::Result<Client> {
    let mut config = match &options.kubeconfig {
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
    let agent = format!("polyvirt-manager/{}", env!("CARGO_PKG_VERSION"));
    config.headers.push((
        axum::http::header::USER_AGENT,
        agent.parse().context("Not a header")?,
    ));
    Client::try_from(config).context("The kubeconfig cannot be used")
}
