//! What machines use, as the metrics API of a cluster tells it: figures of the pods in which they run.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::ListParams;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::cluster::{Kind, World};
use super::machine::list;

pub(super) const GROUP: &str = "metrics.k8s.io";
pub(super) const VERSION: &str = "v1beta1";
pub(super) const ROOT: &str = "/apis/metrics.k8s.io/v1beta1";
/// What a machine uses of each processor that it has, in thousandths.
const BUSY: u64 = 250;

pub(super) async fn discovery() -> Json<Value> {
    Json(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": format!("{GROUP}/{VERSION}"),
        "resources": [{
            "name": "pods", "singularName": "", "namespaced": true, "kind": "PodMetrics", "verbs": ["get", "list"],
        }],
    }))
}

/// The pods of all machines that run.
pub(super) async fn pods(State(world): State<Arc<World>>) -> Json<Value> {
    let instances = world.all(Kind::Vmi).list(&ListParams::default()).await;
    let instances = instances.map(|found| found.items).unwrap_or_default();
    let runs = |i: &&DynamicObject| i.data.pointer("/status/phase") == Some(&json!("Running"));
    let items: Vec<Value> = instances.iter().filter(runs).map(of).collect();
    Json(json!({
        "kind": "PodMetricsList",
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "metadata": {},
        "items": items,
    }))
}

fn of(instance: &DynamicObject) -> Value {
    let sockets = instance.data.pointer("/spec/domain/cpu/sockets");
    let sockets = sockets.and_then(Value::as_u64).unwrap_or(1);
    let paused = list(&instance.data, "/status/conditions");
    let paused = paused.iter().any(|c| c["type"] == "Paused");
    let busy = if paused { 0 } else { BUSY * sockets };
    let name = instance.name_any();
    json!({
        "metadata": {
            "name": format!("virt-launcher-{name}-x7k2p"),
            "namespace": instance.namespace(),
            "labels": {"kubevirt.io": "virt-launcher", "vm.kubevirt.io/name": name},
        },
        "timestamp": Timestamp::now().to_string(),
        "window": "15s",
        "containers": [{"name": "compute", "usage": {
            "cpu": format!("{busy}m"),
            "memory": instance.data.pointer("/spec/domain/memory/guest"),
        }}],
    })
}
