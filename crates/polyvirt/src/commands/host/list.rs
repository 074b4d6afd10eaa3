//! `polyvirt host list`, and which VMs are where.

use std::collections::BTreeMap;
use std::fmt::Debug;

use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use polyvirt_api::infra::{HostState, Provider, ProviderHost, VirtualMachine};
use serde::de::DeserializeOwned;

use super::OfProvider;
use super::cordon::provider;
use crate::commands::table::{Cell, Colours, Paint, Table};
use crate::commands::vm::connect::unreachable;
use crate::commands::vm::{Cluster, print};

/// Objects of the whole cluster that one answer of the API server holds at most.
const PAGE: u32 = 500;

/// The VMs of a Provider, in all namespaces.
pub async fn vms_of(cluster: &Cluster, provider: &str) -> anyhow::Result<Vec<VirtualMachine>> {
    let ours = |vm: &VirtualMachine| is_on(vm, provider, &cluster.namespace);
    all(cluster, "VirtualMachines cannot be read", ours).await
}

/// Objects of all namespaces that are to be kept.
pub async fn all<K>(
    cluster: &Cluster,
    failure: &'static str,
    keep: impl Fn(&K) -> bool,
) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = Api::all(cluster.client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = api.list(&params).await;
        let page = page.map_err(|e| unreachable(cluster, e, failure))?;
        let next = page.metadata.continue_.clone().filter(|c| !c.is_empty());
        found.extend(page.items.into_iter().filter(&keep));
        match next {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}

fn is_on(vm: &VirtualMachine, provider: &str, namespace: &str) -> bool {
    let own = vm.namespace().unwrap_or_default();
    let named = &vm.spec.provider_ref;
    named.name == provider && named.namespace_or(&own) == namespace
}

/// The host of a VM, as its status tells.
pub fn host_of(vm: &VirtualMachine) -> Option<&str> {
    vm.status
        .as_ref()?
        .host
        .as_deref()
        .filter(|h| !h.is_empty())
}

/// Shows the hosts of the inventory, with those that have VMs or are cordoned.
pub async fn run(cluster: &Cluster, of: &OfProvider) -> anyhow::Result<()> {
    let provider = provider(cluster, &of.provider).await?;
    let vms = vms_of(cluster, &of.provider).await?;
    print(&table(&provider, &vms).render(Colours::of_stdout()));
    Ok(())
}

/// Whether the provider has reported the host.
pub fn is_listed(provider: &Provider, host: &str) -> bool {
    inventory(provider).any(|found| found.name == host)
}

fn inventory(provider: &Provider) -> impl Iterator<Item = &ProviderHost> {
    provider.status.iter().flat_map(|status| &status.hosts)
}

fn table(provider: &Provider, vms: &[VirtualMachine]) -> Table {
    let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
    let cordoned = provider.spec.cordoned_hosts.iter().map(String::as_str);
    let known = inventory(provider).map(|host| host.name.as_str());
    for host in cordoned.chain(known) {
        hosts.entry(host).or_default();
    }
    for host in vms.iter().filter_map(host_of) {
        *hosts.entry(host).or_default() += 1;
    }
    let mut table = Table::new(&["HOST", "VMS", "STATE"]);
    for (host, count) in hosts {
        let state = state(provider, host);
        table.row(vec![host.into(), count.to_string().into(), state]);
    }
    table
}

fn state(provider: &Provider, host: &str) -> Cell {
    let found = inventory(provider).find(|found| found.name == host);
    match found.map(|found| found.state) {
        Some(HostState::Down) => Cell::new("Down", Paint::Bad),
        _ if provider.spec.cordoned_hosts.iter().any(|name| name == host) => {
            Cell::new("Cordoned", Paint::Busy)
        }
        Some(HostState::Cordoned) => Cell::new("Cordoned", Paint::Busy),
        Some(HostState::Ready) | None => Cell::new("Open", Paint::Good),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_host_without_vms_is_listed() {
        let provider = json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1",
            "kind": "Provider",
            "metadata": {"name": "lab"},
            "spec": {"type": "mock", "endpoint": "mock://memory", "cordonedHosts": ["b"]},
            "status": {"hosts": [
                {"name": "a", "state": "Ready"},
                {"name": "b", "state": "Ready"},
                {"name": "c", "state": "Down"},
            ]},
        });
        let provider: Provider = serde_json::from_value(provider).expect("a Provider");
        let text = table(&provider, &[]).render(Colours::Off);
        let words: Vec<Vec<&str>> = text
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().collect())
            .collect();
        let wanted = [
            ["a", "0", "Open"],
            ["b", "0", "Cordoned"],
            ["c", "0", "Down"],
        ];
        assert_eq!(words, wanted);
        assert!(is_listed(&provider, "a") && !is_listed(&provider, "x"));
    }
}
