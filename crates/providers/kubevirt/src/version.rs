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

/// Whether KubeVirt is of that version or a later one. Not so if nobody may know.
pub(crate) async fn is_at_least(cluster: &Cluster, least: (u32, u32)) -> bool {
    let observed = observed(cluster).await;
    observed.as_deref().and_then(numbers) >= Some(least)
}

/// The first two numbers of a version such as `v1.7.0-rc.1`.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.strip_prefix('v')?.split('.');
    let mut next = || parts.next()?.parse().ok();
    Some((next()?, next()?))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (version, read) in [
            ("v1.7.0", Some((1, 7))),
            ("v1.10.2-rc.1", Some((1, 10))),
            ("v0.59.0", Some((0, 59))),
            ("1.7.0", None),
            ("vdevel", None),
        ] {
            assert_eq!(numbers(version), read, "{version}");
        }
        assert!(numbers("vdevel") < Some((1, 4)), "unknown is too old");
    }
}
