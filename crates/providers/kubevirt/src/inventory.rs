//! Nodes, storage classes and networks of the cluster.

use std::collections::BTreeMap;

use kube::api::ListParams;
use kube::core::DynamicObject;
use polyvirt_contract::model::{
    Datastore, Host, HostHealth, Inventory, NetworkEntry, PowerState, VmState,
};
use polyvirt_contract::{ErrorKind, Result};
use serde_json::Value;

use crate::kinds::{Kind, items, label, text};
use crate::quantity;
use crate::vm::{self, Core};

/// What KubeVirt puts on nodes that take VMs.
const SCHEDULABLE: &str = "kubevirt.io/schedulable";
const ZONE: &str = "topology.kubernetes.io/zone";

/// All that VMs can be placed on.
pub(crate) async fn inventory(core: &Core) -> Result<Inventory> {
    let (nodes, classes, networks, vms) = futures::try_join!(
        visible(core, Kind::Node),
        visible(core, Kind::StorageClass),
        visible(core, Kind::Nad),
        vm::list(core)
    )?;
    let pods = NetworkEntry {
        name: "pod".to_owned(),
        kind: "pod".to_owned(),
    };
    Ok(Inventory {
        hosts: nodes.iter().map(|node| host(node, &vms)).collect(),
        datastores: classes.iter().map(datastore).collect(),
        networks: std::iter::once(pods)
            .chain(networks.iter().map(network))
            .collect(),
    })
}

/// What there is of a kind that the cluster need not have, or need not let us see.
async fn visible(core: &Core, kind: Kind) -> Result<Vec<DynamicObject>> {
    let api = match kind {
        Kind::Nad => core.cluster.everywhere(kind),
        _ => core.cluster.global(kind),
    };
    match core
        .cluster
        .list_served(kind, api, &ListParams::default())
        .await
    {
        Ok(listed) => Ok(listed.unwrap_or_default().objects),
        Err(error) if error.kind == ErrorKind::PermissionDenied => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn name(object: &DynamicObject) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

fn host(node: &DynamicObject, vms: &[VmState]) -> Host {
    let has = |what: &str| {
        let found = text(&node.data, &format!("/status/allocatable/{what}"));
        quantity::parse(found).unwrap_or(0)
    };
    let name = name(node);
    let on = |vm: &&VmState| vm.host == name && vm.power != PowerState::Off;
    let (cpus, mib) = vms
        .iter()
        .filter(on)
        .fold((0, 0), |(c, m), vm| (c + vm.cpu, m + vm.memory_mib));
    let memory_mib = has("memory") >> 20;
    Host {
        zone: label(node, ZONE).unwrap_or_default().to_owned(),
        labels: node.metadata.labels.clone().unwrap_or_default(),
        cpus: u32::try_from(has("cpu")).unwrap_or(u32::MAX),
        cpus_used: cpus,
        memory_mib,
        memory_used_mib: mib.min(memory_mib),
        devices: devices(node),
        health: health(node),
        name,
    }
}

/// Resources of device plugins have a domain in their names.
fn devices(node: &DynamicObject) -> BTreeMap<String, u32> {
    let all = node.data.pointer("/status/allocatable");
    let all = all.and_then(Value::as_object).into_iter().flatten();
    let count = |value: &Value| quantity::parse(value.as_str()?)?.try_into().ok();
    all.filter(|(key, _)| key.contains('/') && !key.starts_with("devices.kubevirt.io/"))
        .filter_map(|(key, value)| Some((key.clone(), count(value)?)))
        .collect()
}

fn health(node: &DynamicObject) -> HostHealth {
    let conditions = items(&node.data, "/status/conditions");
    let ready = conditions.iter().find(|c| text(c, "/type") == "Ready");
    let cordoned = node.data.pointer("/spec/unschedulable");
    let refuses = label(node, SCHEDULABLE) == Some("false");
    if ready.is_none_or(|c| text(c, "/status") != "True") {
        return HostHealth::Down;
    }
    if cordoned.and_then(Value::as_bool) == Some(true) || refuses {
        return HostHealth::Cordoned;
    }
    HostHealth::Ready
}

/// A cluster does not tell how much room a storage class has.
fn datastore(class: &DynamicObject) -> Datastore {
    Datastore {
        name: name(class),
        kind: text(&class.data, "/provisioner").to_owned(),
        ..Datastore::default()
    }
}

fn network(nad: &DynamicObject) -> NetworkEntry {
    let namespace = nad.metadata.namespace.as_deref().unwrap_or_default();
    NetworkEntry {
        name: format!("{namespace}/{}", name(nad)),
        kind: "multus".to_owned(),
    }
}
