//! Finds the cluster.

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::Cluster;
use super::options::Place;
use crate::commands::up::options::Folder;

/// The cluster that is meant: the file that was named, the usual places, that of `polyvirt up`, the pod's own account.
pub async fn connect(place: &Place) -> anyhow::Result<Cluster> {
    let config = config(place).await?;
    let namespace = place.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).context("The kubeconfig cannot be used")?;
    Ok(Cluster { client, namespace })
}

async fn config(place: &Place) -> anyhow::Result<Config> {
    let options = KubeConfigOptions {
        context: place.context.clone(),
        ..KubeConfigOptions::default()
    };
    let file = match &place.kubeconfig {
        Some(path) => Some(
            Kubeconfig::read_from(path)
                .with_context(|| format!("Cannot read {}", path.display()))?,
        ),
        None => Kubeconfig::read().ok().or_else(own_kubeconfig),
    };
    match file {
        Some(file) => Config::from_custom_kubeconfig(file, &options)
            .await
            .context("The kubeconfig cannot be used"),
        None => Config::incluster().context(
            "No cluster: name a file with --kubeconfig, set KUBECONFIG, or start one with `polyvirt up`",
        ),
    }
}

/// What `polyvirt up` has written, if it has.
fn own_kubeconfig() -> Option<Kubeconfig> {
    let folder = Folder { state_dir: None }.path().ok()?;
    Kubeconfig::read_from(folder.join("kubeconfig")).ok()
}
