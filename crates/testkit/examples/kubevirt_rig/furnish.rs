//! What a cluster has before anybody asks for a machine: nodes, storage, and KubeVirt's own object.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use kube::core::DynamicObject;
use kube::runtime::controller::Action;
use serde_json::{Value, json};

use crate::world::{
    KUBEVIRT, NAMESPACE, NODE, POD, PROFILE, SNAPSHOT_CLASS, STORAGE_CLASS, World, now, text,
};

pub const PROVISIONER: &str = "rig.polyvirt.io";
const STORAGE: &str = "rig";
/// The same as in the simulator, so that tests find them.
const NODES: [&str; 2] = ["sim-node-1", "sim-node-2"];
/// virt-controller gives up a node whose virt-handler has been silent for five minutes.
const HEARTBEAT: Duration = Duration::from_mins(1);
/// Machine types that QEMU of this KubeVirt knows, as far as anybody asks for them.
const BOARDS: [&str; 5] = [
    "q35",
    "pc-q35-rhel9.6.0",
    "pc-q35-rhel9.4.0",
    "pc-q35-9.2",
    "pc-q35-10.0",
];

pub async fn furnish(world: &World, version: &str) -> kube::Result<()> {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubevirt"}});
    world.put(NAMESPACE, namespace).await?;
    for name in NODES {
        world.put(NODE, node(name)).await?;
    }
    world.put(STORAGE_CLASS, storage_class()).await?;
    world.put(SNAPSHOT_CLASS, snapshot_class()).await?;
    world.put(PROFILE, profile()).await?;
    world.put(KUBEVIRT, kubevirt(version)).await
}

fn node(name: &str) -> Value {
    let room = json!({
        "cpu": "256", "memory": "1Ti", "pods": "2000", "ephemeral-storage": "1Ti",
        "devices.kubevirt.io/kvm": "1000", "devices.kubevirt.io/tun": "1000",
        "devices.kubevirt.io/vhost-net": "1000",
    });
    let mut labels = json!({
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubevirt.io/schedulable": "true",
        "cpu-model.node.kubevirt.io/qemu64": "true",
        "host-model-cpu.node.kubevirt.io/Skylake-Client": "true",
        "cpu-model-migration.node.kubevirt.io/Skylake-Client": "true",
    });
    for board in BOARDS {
        labels[format!("machine-type.node.kubevirt.io/{board}")] = json!("true");
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kubevirt.io/heartbeat": now()}},
        "status": {
            "allocatable": room,
            "capacity": room,
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "Played"}],
            "nodeInfo": {
                "architecture": "amd64", "operatingSystem": "linux", "machineID": name, "systemUUID": name,
                "bootID": name, "kernelVersion": "6.1.0", "osImage": "played", "kubeProxyVersion": "",
                "containerRuntimeVersion": "played://1", "kubeletVersion": "v1.34.4",
            },
        },
    })
}

fn storage_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE, "annotations": {
            "storageclass.kubernetes.io/is-default-class": "true",
        }},
        "provisioner": PROVISIONER,
        "allowVolumeExpansion": true,
        "volumeBindingMode": "Immediate",
    })
}

fn snapshot_class() -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotClass",
        "metadata": {"name": STORAGE, "annotations": {
            "snapshot.storage.kubernetes.io/is-default-class": "true",
        }},
        "driver": PROVISIONER,
        "deletionPolicy": "Delete",
    })
}

fn profile() -> Value {
    json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "StorageProfile",
        "metadata": {"name": STORAGE},
        "spec": {},
        "status": {"storageClass": STORAGE, "provisioner": PROVISIONER, "claimPropertySets": [
            {"accessModes": ["ReadWriteMany"], "volumeMode": "Block"},
            {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"},
        ]},
    })
}

/// No node here has /dev/kvm, and moves are begun by KubeVirt itself where a change needs one.
fn kubevirt(version: &str) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": {"name": "kubevirt", "namespace": "kubevirt"},
        "spec": {
            "workloadUpdateStrategy": {"workloadUpdateMethods": ["LiveMigrate"]},
            "configuration": {
                "vmRolloutStrategy": "LiveUpdate",
                "developerConfiguration": {
                    "useEmulation": true,
                    "featureGates": ["Snapshot", "HotplugVolumes", "ExpandDisks", "HostDevices", "GPU"],
                },
            },
        },
        "status": {
            "phase": "Deployed",
            "defaultArchitecture": "amd64",
            "observedKubeVirtVersion": version,
            "targetKubeVirtVersion": version,
            "operatorVersion": version,
        },
    })
}

/// Where virt-api looks for the virt-handler of a node: all of them are one program here.
pub async fn handlers(world: &World) -> kube::Result<()> {
    for name in NODES {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": format!("virt-handler-{name}"),
                "namespace": "kubevirt",
                "labels": {"kubevirt.io": "virt-handler"},
            },
            "spec": {
                "nodeName": name,
                "containers": [{"name": "virt-handler", "image": "played"}],
                "tolerations": [{"operator": "Exists"}],
            },
        });
        world.make(POD, pod).await?;
    }
    Ok(())
}

/// Says for each virt-handler that it is alive. Every node begins as one that is not ready, and nobody else says that it is.
pub async fn heartbeat(world: Arc<World>, node: Arc<DynamicObject>) -> kube::Result<Action> {
    let told = node.annotations().get("kubevirt.io/heartbeat");
    let is_tainted = node.data.pointer("/spec/taints").is_some();
    if is_tainted || told.is_none_or(|told| is_old(told)) {
        let change = json!({
            "metadata": {"annotations": {"kubevirt.io/heartbeat": now()}},
            "spec": {"taints": null},
        });
        world.change(NODE, &node, change).await?;
    }
    Ok(Action::requeue(HEARTBEAT))
}

fn is_old(told: &str) -> bool {
    let now = k8s_openapi::jiff::Timestamp::now().as_second();
    let then = told.parse::<k8s_openapi::jiff::Timestamp>();
    then.map_or(true, |then| now - then.as_second() > 45)
}

/// Whether the node of that pod is one of ours.
pub fn is_ours(pod: &DynamicObject) -> bool {
    NODES.contains(&text(pod, "/spec/nodeName"))
}
