//! Pods, as the kubelet and Multus treat them: nothing runs in them.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use kube::core::DynamicObject;
use kube::runtime::controller::Action;
use serde_json::{Value, json};

use crate::guests;
use crate::world::{POD, STEP, World, is_leaving, list, now, text};

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

pub fn is_launcher(pod: &DynamicObject) -> bool {
    pod.labels().get("kubevirt.io").map(String::as_str) == Some("virt-launcher")
}

pub async fn pass(world: Arc<World>, pod: Arc<DynamicObject>) -> kube::Result<Action> {
    if !crate::furnish::is_ours(&pod) {
        return Ok(Action::await_change());
    }
    if is_leaving(&pod) {
        return end(&world, &pod).await;
    }
    let networks = network_status(&pod);
    if networks.is_some() && annotation(&pod, NETWORK_STATUS) != networks.as_deref() {
        let change = json!({"metadata": {"annotations": {NETWORK_STATUS: networks}}});
        world.change(POD, &pod, change).await?;
        return Ok(Action::await_change());
    }
    match text(&pod, "/status/phase") {
        "Pending" => {
            tokio::time::sleep(STEP).await;
            world.tell(POD, &pod, running(&pod)).await?;
        }
        "Running" => {
            let conditions = conditions(&pod);
            if conditions != list(&pod, "/status/conditions") {
                let status = json!({"conditions": conditions});
                world.tell(POD, &pod, status).await?;
            }
        }
        _ => {}
    }
    Ok(Action::await_change())
}

fn annotation<'a>(pod: &'a DynamicObject, key: &str) -> Option<&'a str> {
    pod.annotations().get(key).map(String::as_str)
}

/// The guest goes down before its pod does.
async fn end(world: &World, pod: &DynamicObject) -> kube::Result<Action> {
    if is_launcher(pod) && !guests::is_down(world, pod).await? {
        return Ok(Action::requeue(Duration::from_millis(100)));
    }
    if text(pod, "/status/phase") == "Running" {
        finish(world, pod).await?;
        return Ok(Action::requeue(STEP));
    }
    world.remove(POD, pod).await?;
    Ok(Action::await_change())
}

/// What a pod looks like whose programs have ended well.
pub async fn finish(world: &World, pod: &DynamicObject) -> kube::Result<()> {
    let ended = |_: &Value| json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
    let mut conditions = list(pod, "/status/conditions");
    for condition in &mut conditions {
        if condition["type"] == "Ready" || condition["type"] == "ContainersReady" {
            *condition =
                json!({"type": condition["type"], "status": "False", "reason": "PodCompleted"});
        }
    }
    let status = json!({
        "phase": "Succeeded",
        "conditions": conditions,
        "containerStatuses": containers(pod, "/spec/containers", ended),
    });
    world.tell(POD, pod, status).await
}

fn running(pod: &DynamicObject) -> Value {
    let address = address(pod);
    let began = |_: &Value| json!({"running": {"startedAt": now()}});
    // One that is started again whenever it ends runs beside the others.
    let first = |container: &Value| match container["restartPolicy"].as_str() {
        Some("Always") => began(container),
        _ => json!({"terminated": {"exitCode": 0, "reason": "Completed"}}),
    };
    json!({
        "phase": "Running",
        "hostIP": "127.0.0.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": now(),
        "conditions": conditions(pod),
        "containerStatuses": containers(pod, "/spec/containers", began),
        "initContainerStatuses": containers(pod, "/spec/initContainers", first),
    })
}

fn containers(pod: &DynamicObject, pointer: &str, state: impl Fn(&Value) -> Value) -> Vec<Value> {
    let all = list(pod, pointer).into_iter();
    let told = all.map(|container| {
        let state = state(&container);
        let ready = state.get("running").is_some();
        json!({
            "name": container["name"], "image": container["image"], "imageID": "played",
            "containerID": format!("played://{}", pod.uid().unwrap_or_default()),
            "ready": ready, "started": ready, "restartCount": 0, "state": state,
        })
    });
    told.collect()
}

/// A pod is ready when its containers are and everybody who has a say in it agrees.
fn conditions(pod: &DynamicObject) -> Vec<Value> {
    let told = list(pod, "/status/conditions");
    let agreed = |gate: &Value| {
        let kind = &gate["conditionType"];
        told.iter()
            .any(|c| c["type"] == *kind && c["status"] == "True")
    };
    let ready = list(pod, "/spec/readinessGates").iter().all(agreed);
    let mut all = told.clone();
    for (kind, holds) in [
        ("Initialized", true),
        ("ContainersReady", true),
        ("Ready", ready),
    ] {
        let status = if holds { "True" } else { "False" };
        match all.iter_mut().find(|c| c["type"] == kind) {
            Some(condition) if condition["status"] == status => {}
            Some(condition) => {
                *condition = json!({"type": kind, "status": status, "lastTransitionTime": now()});
            }
            None => all.push(json!({"type": kind, "status": status, "lastTransitionTime": now()})),
        }
    }
    all
}

/// virt-handler is where its server is; nobody talks to the others.
fn address(pod: &DynamicObject) -> String {
    if pod.labels().get("kubevirt.io").map(String::as_str) == Some("virt-handler") {
        return "127.0.0.1".to_owned();
    }
    guests::address(&pod.uid().unwrap_or_default(), 0)
}

/// What Multus says of the cards of a pod; it brings those that come later by itself.
fn network_status(pod: &DynamicObject) -> Option<String> {
    let wanted: Vec<Value> = match annotation(pod, NETWORKS) {
        Some(text) => serde_json::from_str(text).unwrap_or_default(),
        None if annotation(pod, NETWORK_STATUS).is_some() => Vec::new(),
        None => return None,
    };
    let first = json!({
        "name": "pods", "interface": "eth0", "ips": [address(pod)], "default": true, "dns": {},
    });
    let others = wanted.iter().map(|network| {
        let namespace = network["namespace"].as_str().unwrap_or("default");
        let name = network["name"].as_str().unwrap_or_default();
        json!({
            "name": format!("{namespace}/{name}"), "interface": network["interface"],
            "mac": network["mac"], "dns": {},
        })
    });
    let all: Vec<Value> = [first].into_iter().chain(others).collect();
    Some(json!(all).to_string())
}
