//! Moves between nodes, as virt-handler of both carries them out. virt-controller makes the pod on the other node, hands over,
//! and says how it went.

use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::guests::{sizes, without};
use crate::world::{now, text};

const STATE: &str = "/status/migrationState";
/// The label of an instance that the virt-handler of the other node looks for.
const TARGET: &str = "kubevirt.io/migrationTargetNodeName";
/// What came with the move.
const BY_MOVE: [&str; 4] = [
    "HotVCPUChange",
    "HotMemoryChange",
    "VolumesChange",
    "MigrationRequired",
];
const PASSING_LABELS: [&str; 3] = [
    "kubevirt.io/vmi-pod-cpu-resource-limits",
    "kubevirt.io/vmi-pod-memory-resource-requests",
    "kubevirt.io/memory-hotplug-overhead-ratio",
];

fn is_under_way(guest: &DynamicObject) -> bool {
    guest.labels().contains_key(TARGET)
}

/// Whether the last move of the guest is over, and went well.
pub fn has_left(guest: &DynamicObject) -> bool {
    is(guest, "completed") && !is(guest, "failed")
}

/// Whether the last move of the guest was from that pod.
pub fn is_source(guest: &DynamicObject, pod: &DynamicObject) -> bool {
    text(guest, &format!("{STATE}/sourcePod")) == pod.name_any()
}

fn is(guest: &DynamicObject, field: &str) -> bool {
    guest.data.pointer(&format!("{STATE}/{field}")) == Some(&json!(true))
}

fn has(guest: &DynamicObject, field: &str) -> bool {
    let found = guest.data.pointer(&format!("{STATE}/{field}"));
    found.is_some_and(|value| !value.is_null() && value != "")
}

/// The next step of a move; `None` if there is nothing to do.
pub fn settle(guest: &DynamicObject) -> Option<Value> {
    if !is_under_way(guest) || guest.data.pointer(STATE).is_none() {
        return None;
    }
    Some(if is(guest, "completed") || is(guest, "failed") {
        json!({"metadata": {"labels": {TARGET: null}}})
    } else if is(guest, "abortRequested") {
        aborted()
    } else if !has(guest, "targetNodeAddress") {
        let ports = json!({"49152": 49152});
        state(&json!({"targetNodeAddress": "127.0.0.1", "targetDirectMigrationNodePorts": ports}))
    } else if !has(guest, "startTimestamp") {
        state(&json!({"startTimestamp": now(), "mode": "PreCopy"}))
    } else if !has(guest, "endTimestamp") {
        arrived(guest)
    } else {
        settled(guest)
    })
}

fn state(change: &Value) -> Value {
    json!({"status": {"migrationState": change}})
}

fn aborted() -> Value {
    state(&json!({
        "abortStatus": "Succeeded", "failed": true, "completed": true, "endTimestamp": now(),
        "failureReason": "Live migration aborted",
    }))
}

/// The guest runs on the other node.
fn arrived(guest: &DynamicObject) -> Value {
    let node = text(guest, &format!("{STATE}/targetNode"));
    json!({
        "metadata": {"labels": {"kubevirt.io/nodeName": node, "kubevirt.io/outdatedLauncherImage": null}},
        "status": {
            "nodeName": node,
            "launcherContainerImageVersion": null,
            "evacuationNodeName": null,
            "migrationTransport": "Unix",
            "conditions": without(guest, &["MigrationRequired"]),
            "migrationState": {
                "targetNodeDomainDetected": true,
                "targetNodeDomainReadyTimestamp": now(),
                "endTimestamp": now(),
            },
        },
    })
}

/// It has there what it moved for.
fn settled(guest: &DynamicObject) -> Value {
    let labels: serde_json::Map<_, _> = PASSING_LABELS
        .iter()
        .map(|label| ((*label).to_owned(), Value::Null))
        .collect();
    let mut status = sizes(guest);
    status["conditions"] = json!(without(guest, &BY_MOVE));
    status["migratedVolumes"] = Value::Null;
    status["migrationState"] = json!({"completed": true});
    json!({"metadata": {"labels": labels}, "status": status})
}
