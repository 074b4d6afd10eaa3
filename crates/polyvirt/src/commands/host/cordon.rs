//! `polyvirt host cordon` and `uncordon`.

use anyhow::bail;
use kube::Api;
use kube::api::{Patch, PatchParams};
use polyvirt_api::infra::Provider;
use serde_json::json;

use super::OneHost;
use crate::commands::vm::connect::unreachable;
use crate::commands::vm::{Cluster, print};
use crate::exit::Failure;

/// Whether VMs may be put on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// They may.
    Open,
    /// They may not.
    Closed,
}

/// So often somebody else's change of the Provider is met with another try.
const TRIES: usize = 5;

/// Changes the list of the Provider, if it does not say so already.
pub async fn run(cluster: &Cluster, host: &OneHost, wish: Wish) -> anyhow::Result<()> {
    let word = match wish {
        Wish::Open => "takes VMs",
        Wish::Closed => "takes no more VMs",
    };
    set(cluster, host, wish).await?;
    print(&format!("host/{}: {word}\n", host.host));
    Ok(())
}

/// The list, with what is wanted of one host.
pub async fn set(cluster: &Cluster, host: &OneHost, wish: Wish) -> anyhow::Result<()> {
    let api: Api<Provider> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    for _ in 0..TRIES {
        let provider = provider(cluster, &host.provider).await?;
        let Some(list) = changed(&provider.spec.cordoned_hosts, &host.host, wish) else {
            return Ok(());
        };
        let body = json!({
            "metadata": {"resourceVersion": provider.metadata.resource_version},
            "spec": {"cordonedHosts": list},
        });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&body));
        match api.patch(&host.provider, &params, &patch).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            Err(error) => {
                return Err(unreachable(
                    cluster,
                    error,
                    "The Provider cannot be changed",
                ));
            }
        }
    }
    bail!(
        "Provider {} is changed all the time: try again",
        host.provider
    )
}

/// The Provider of that name.
pub async fn provider(cluster: &Cluster, name: &str) -> anyhow::Result<Provider> {
    let api: Api<Provider> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let found = api.get_opt(name).await;
    let found = found.map_err(|e| unreachable(cluster, e, "Providers cannot be read"))?;
    found.ok_or_else(|| {
        let text = format!(
            "There is no Provider {name} in the namespace {}",
            cluster.namespace
        );
        Failure::NotFound(text).into()
    })
}

/// The new list; `None` if it is the old one.
fn changed(list: &[String], host: &str, wish: Wish) -> Option<Vec<String>> {
    let listed = list.iter().any(|name| name == host);
    match wish {
        Wish::Closed if !listed => Some(list.iter().cloned().chain([host.to_owned()]).collect()),
        Wish::Open if listed => Some(list.iter().filter(|n| *n != host).cloned().collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_listed_once() {
        let list = ["a".to_owned()];
        assert_eq!(
            changed(&list, "b", Wish::Closed),
            Some(vec!["a".into(), "b".into()])
        );
        assert_eq!(changed(&list, "a", Wish::Closed), None);
        assert_eq!(changed(&list, "a", Wish::Open), Some(Vec::new()));
        assert_eq!(changed(&list, "b", Wish::Open), None);
    }
}
