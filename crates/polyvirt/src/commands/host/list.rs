//! `polyvirt host list`, and which VMs are where.

use std::collections::BTreeMap;
use std::fmt::Debug;

use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use polyvirt_api::infra::VirtualMachine;
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

/// Shows hosts that have VMs or are closed. Others are known to the manager alone.
pub async fn run(cluster: &Cluster, of: &OfProvider) -> anyhow::Result<()> {
    let provider = provider(cluster, &of.provider).await?;
    let mut hosts: BTreeMap<String, usize> = BTreeMap::new();
    for closed in &provider.spec.cordoned_hosts {
        hosts.entry(closed.clone()).or_default();
    }
    for vm in vms_of(cluster, &of.provider).await? {
        if let Some(host) = host_of(&vm) {
            *hosts.entry(host.to_owned()).or_default() += 1;
        }
    }
    let mut table = Table::new(&["HOST", "VMS", "STATE"]);
    for (host, count) in hosts {
        let closed = provider.spec.cordoned_hosts.contains(&host);
        let state = if closed {
            Cell::new("Cordoned", Paint::Busy)
        } else {
            Cell::new("Open", Paint::Good)
        };
        table.row(vec![host.into(), count.to_string().into(), state]);
    }
    print(&table.render(Colours::of_stdout()));
    Ok(())
}
