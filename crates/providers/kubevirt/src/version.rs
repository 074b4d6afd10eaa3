//! Which KubeVirt the cluster has. Whoever may not look knows less; nothing depends on it.

use kube::api::ListParams;
use kube::core::DynamicObject;
use polyvirt_api::kubevirt::KubevirtVersion;

use crate::cluster::Cluster;
use crate::kinds::{Kind, text};

/// KubeVirt's version, or ours where it cannot be known.
pub(crate) async fn version(cluster: &Cluster) -> String {
    let own = || env!("CARGO_PKG_VERSION").to_owned();
    let Some(version) = observed(cluster).await else {
        return own();
    };
    let known = KubevirtVersion {
        version,
        api_versions: served(cluster).await,
    };
    known.to_string()
}

/// What KubeVirt's operator says it has brought about.
async fn observed(cluster: &Cluster) -> Option<String> {
    let all = cluster.global(Kind::KubeVirt);
    let every = ListParams::default();
    let listed = cluster.list_served(Kind::KubeVirt, all, &every).await;
    let objects = listed.ok()??.objects;
    objects.iter().for_each(warn);
    let versions = objects
        .iter()
        .map(|object| text(&object.data, "/status/observedKubeVirtVersion"));
    let mut versions = versions.filter(|version| version.starts_with('v'));
    versions.next().map(str::to_owned)
}

/// Says so if KubeVirt is there and does not work.
fn warn(kubevirt: &DynamicObject) {
    let phase = text(&kubevirt.data, "/status/phase");
    if phase != "Deployed" {
        tracing::warn!(
            phase,
            "⚠️ KubeVirt of the cluster is not Deployed: look at its pods"
        );
    }
}

/// The versions of its group, the preferred one first.
async fn served(cluster: &Cluster) -> Vec<String> {
    let client = cluster.client();
    let groups = cluster
        .ask("Looking for KubeVirt", client.list_api_groups())
        .await;
    let groups = groups.map(|list| list.groups).unwrap_or_default();
    let group = groups.into_iter().find(|group| group.name == "kubevirt.io");
    let versions = group.into_iter().flat_map(|group| group.versions);
    versions.map(|version| version.version).collect()
}
