//! `polyvirt kubevirt-sim`: behaves like KubeVirt in a cluster that has no nodes, so that the walk over many clusters can be
//! tried on a laptop. Machines only look as if they ran. The cluster has no kube-controller-manager either, so the simulator
//! also deletes namespaces and dependents.

use kube::Client;
use polyvirt_testkit::controllers;
use polyvirt_testkit::kubevirt_sim::{Settings, start};

use super::{cluster_controllers, stop_signal};
use crate::cli::OneCluster;

/// Simulates until the program is asked to stop.
pub async fn run(options: OneCluster) -> anyhow::Result<()> {
    let config = cluster_controllers::config(&options.kubeconfig).await?;
    let simulator = start(Client::try_from(config.clone())?, Settings::default()).await?;
    tracing::info!("KubeVirt is simulated");
    tokio::select! {
        ended = controllers::run(config) => ended?,
        () = stop_signal() => {}
    }
    drop(simulator);
    Ok(())
}
