//! `polyvirt cluster-controllers`: what kube-controller-manager does for namespaces and owner references, for the control plane
//! of `polyvirt up`, which has none. A real cluster must not run it.

use std::path::Path;

use anyhow::Context as _;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use polyvirt_testkit::controllers;

use super::stop_signal;
use crate::cli::OneCluster;

/// Runs the controllers until the program is asked to stop.
pub async fn run(options: OneCluster) -> anyhow::Result<()> {
    let config = config(&options.kubeconfig).await?;
    tracing::info!("namespace deletion and garbage collection started");
    tokio::select! {
        ended = controllers::run(config) => Ok(ended?),
        () = stop_signal() => Ok(()),
    }
}

/// The administrator of a local cluster.
pub async fn config(kubeconfig: &Path) -> anyhow::Result<Config> {
    let file = Kubeconfig::read_from(kubeconfig)
        .with_context(|| format!("Cannot read {}", kubeconfig.display()))?;
    let options = KubeConfigOptions::default();
    Ok(Config::from_custom_kubeconfig(file, &options).await?)
}
