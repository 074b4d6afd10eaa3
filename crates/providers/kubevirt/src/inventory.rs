//! Nodes, storage classes and networks of the cluster.

use std::collections::{BTreeMap, BTreeSet};

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
        hosts: nodes
            .iter()
            .map(|node| host(node, &vms, &core.tolerated))
            .collect(),
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

fn host(node: &DynamicObject, vms: &[VmState], tolerated: &BTreeSet<String>) -> Host {
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
        health: health(node, tolerated),
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

/// A node that KubeVirt does not call fit for VMs, or that keeps off whoever does not tolerate it, takes none.
fn health(node: &DynamicObject, tolerated: &BTreeSet<String>) -> HostHealth {
    let conditions = items(&node.data, "/status/conditions");
    let ready = conditions.iter().find(|c| text(c, "/type") == "Ready");
    if ready.is_none_or(|c| text(c, "/status") != "True") {
        return HostHealth::Down;
    }
    let cordoned = node.data.pointer("/spec/unschedulable");
    let cordoned = cordoned.and_then(Value::as_bool) == Some(true);
    let fit = label(node, SCHEDULABLE) == Some("true");
    if cordoned || !fit || keeps_off(node, tolerated) {
        return HostHealth::Cordoned;
    }
    HostHealth::Ready
}

fn keeps_off(node: &DynamicObject, tolerated: &BTreeSet<String>) -> bool {
    let taints = items(&node.data, "/spec/taints").iter();
    let mut hard = taints.filter(|taint| text(taint, "/effect") != "PreferNoSchedule");
    hard.any(|taint| !tolerated.contains(text(taint, "/key")))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(labels: &Value, spec: &Value, ready: &str) -> DynamicObject {
        let node = json!({
            "metadata": {"name": "a", "labels": labels},
            "spec": spec,
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        });
        serde_json::from_value(node).expect("an object")
    }

    #[test]
    fn only_nodes_that_vms_can_run_on_are_ready() {
        let fit = || json!({SCHEDULABLE: "true"});
        let taint = |key: &str, effect: &str| json!({"taints": [{"key": key, "effect": effect}]});
        let tolerated = BTreeSet::from(["gpu".to_owned()]);
        for (labels, spec, ready, health) in [
            (fit(), json!({}), "True", HostHealth::Ready),
            (fit(), json!({}), "Unknown", HostHealth::Down),
            (
                fit(),
                json!({"unschedulable": true}),
                "True",
                HostHealth::Cordoned,
            ),
            (
                json!({SCHEDULABLE: "false"}),
                json!({}),
                "True",
                HostHealth::Cordoned,
            ),
            // Nobody of KubeVirt runs there: a control plane, a virtual node, another architecture.
            (json!({}), json!({}), "True", HostHealth::Cordoned),
            (
                fit(),
                taint("x", "NoSchedule"),
                "True",
                HostHealth::Cordoned,
            ),
            (fit(), taint("x", "NoExecute"), "True", HostHealth::Cordoned),
            (
                fit(),
                taint("x", "PreferNoSchedule"),
                "True",
                HostHealth::Ready,
            ),
            (fit(), taint("gpu", "NoSchedule"), "True", HostHealth::Ready),
        ] {
            let node = node(&labels, &spec, ready);
            assert_eq!(super::health(&node, &tolerated), health, "{labels} {spec}");
        }
    }
}
