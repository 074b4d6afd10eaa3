//! Finds the cluster.

use std::path::Path;

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
    let server = config.cluster_url.to_string();
    let client = Client::try_from(config).context("The kubeconfig cannot be used")?;
    Ok(Cluster {
        client,
        namespace,
        server: server.trim_end_matches('/').to_owned(),
    })
}

async fn config(place: &Place) -> anyhow::Result<Config> {
    let options = KubeConfigOptions {
        context: place.context.clone(),
        ..KubeConfigOptions::default()
    };
    let mut config = match kubeconfig(place)? {
        Some(file) => Config::from_custom_kubeconfig(file, &options)
            .await
            .context("The kubeconfig cannot be used")?,
        None => Config::incluster().context(
            "No cluster: name a file with --kubeconfig, set KUBECONFIG, or start one with `polyvirt up`",
        )?,
    };
    // A person waits: whoever does not answer is told, not asked for minutes.
    config.default_retry = false;
    Ok(config)
}

/// A file that was named must be there: another cluster than the one that is meant would be worse than none.
fn kubeconfig(place: &Place) -> anyhow::Result<Option<Kubeconfig>> {
    if let Some(path) = &place.kubeconfig {
        return read(path).map(Some);
    }
    let named = std::env::var("KUBECONFIG").unwrap_or_default();
    match Kubeconfig::read() {
        Ok(file) => Ok(Some(file)),
        Err(error) if !named.is_empty() => Err(anyhow::anyhow!(
            "KUBECONFIG names {named}, which cannot be read: {}",
            root(&error)
        )),
        Err(_) => Ok(own_kubeconfig()),
    }
}

fn read(path: &Path) -> anyhow::Result<Kubeconfig> {
    let file = Kubeconfig::read_from(path);
    file.map_err(|error| anyhow::anyhow!("Cannot read {}: {}", path.display(), root(&error)))
}

/// The innermost cause: the outer ones say it again.
fn root(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// What `polyvirt up` has written, if it has.
fn own_kubeconfig() -> Option<Kubeconfig> {
    let folder = Folder::usual().path().ok()?;
    Kubeconfig::read_from(folder.join("kubeconfig")).ok()
}

/// An error of a call to the API server, in words that say what to do.
pub fn unreachable(cluster: &Cluster, error: kube::Error, what: &str) -> anyhow::Error {
    match &error {
        kube::Error::Api(status) => anyhow::anyhow!("{what}: {}", status.message),
        kube::Error::Service(_) | kube::Error::HyperError(_) => anyhow::anyhow!(
            "The API server at {} cannot be reached ({}): start it (`polyvirt up` starts one on this machine), or name another with --kubeconfig or --context",
            cluster.server,
            root(&error)
        ),
        _ => anyhow::Error::from(error).context(what.to_owned()),
    }
}
