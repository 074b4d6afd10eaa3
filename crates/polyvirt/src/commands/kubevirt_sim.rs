//! `polyvirt kubevirt-sim`: behaves like KubeVirt in a cluster that has no nodes, so that the walk over many clusters can be
//! tried on a laptop. Machines only look as if they ran.

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use polyvirt_testkit::kubevirt_sim::{Settings, start};

use super::stop_signal;
use crate::cli::KubevirtSim;

/// Simulates until the program is asked to stop.
pub async fn run(options: KubevirtSim) -> anyhow::Result<()> {
    let kubeconfig = Kubeconfig::read_from(&options.kubeconfig)
        .with_context(|| format!("Cannot read {}", options.kubeconfig.display()))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    let simulator = start(Client::try_from(config)?, Settings::default()).await?;
    tracing::info!("KubeVirt is simulated");
    stop_signal().await;
    drop(simulator);
    Ok(())
}
