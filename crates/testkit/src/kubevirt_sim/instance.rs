//! Instances: the machines while they run.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use kube::ResourceExt as _;
use kube::core::DynamicObject;
use kube::runtime::controller::Action;
use serde_json::{Value, json};

use super::FAULT;
use super::cluster::{Kind, World};
use super::machine::{INSTANCE_FINALIZER, list};
use super::{hot, seats};

/// How long a slow start takes.
const SLOW: Duration = Duration::from_secs(3);

pub(super) async fn pass(world: &World, instance: &DynamicObject) -> kube::Result<Action> {
    if instance.metadata.deletion_timestamp.is_some() {
        tokio::time::sleep(world.step).await;
        if instance.data.pointer("/status/phase") == Some(&json!("Running")) {
            let change = json!({"status": {"phase": "Succeeded"}});
            world.change(Kind::Vmi, instance, &change).await?;
            return Ok(Action::await_change());
        }
        world
            .release(Kind::Vmi, instance, INSTANCE_FINALIZER)
            .await?;
        return Ok(Action::await_change());
    }
    let fault = instance.annotations().get(FAULT).map(String::as_str);
    let phase = instance
        .data
        .pointer("/status/phase")
        .and_then(Value::as_str);
    match (phase, fault) {
        (None, _) => {
            let change = json!({"status": {"phase": "Scheduling"}});
            world.change(Kind::Vmi, instance, &change).await?;
        }
        (Some("Scheduling"), Some("Unschedulable")) => {}
        (Some("Scheduling"), fault) => {
            let slow = fault == Some("SlowStart");
            tokio::time::sleep(if slow { SLOW } else { world.step }).await;
            let Some(status) = running(instance) else {
                return Ok(Action::await_change());
            };
            let change = json!({"status": status});
            world.change(Kind::Vmi, instance, &change).await?;
        }
        (Some("Running"), _) => {
            if let Some(change) = hot::plugged(instance).or_else(|| hot::moved(instance)) {
                tokio::time::sleep(world.step).await;
                world.change_as_read(Kind::Vmi, instance, change).await?;
            }
        }
        _ => {}
    }
    Ok(Action::await_change())
}

/// What a machine says of itself when it is up; `None` if no node takes it.
fn running(instance: &DynamicObject) -> Option<Value> {
    let number = number(instance);
    let cards = list(&instance.data, "/spec/domain/devices/interfaces");
    let first = usize::from(number.to_le_bytes()[0]);
    let node = seats::start(&instance.data["spec"], first)?;
    let mut status = hot::sizes(instance);
    let told = json!({
        "phase": "Running",
        "nodeName": node,
        "interfaces": told(instance, &cards),
        "volumeStatus": [],
        "guestOSInfo": {
            "prettyName": "Simulated Linux",
            "name": "Simulated",
            "kernelRelease": "6.1.0-sim",
        },
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": null, "lastProbeTime": null},
            {"type": "AgentConnected", "status": "True", "lastTransitionTime": null, "lastProbeTime": null},
        ],
    });
    json_patch::merge(&mut status, &told);
    Some(status)
}

/// What a machine says of its cards.
pub(super) fn told(instance: &DynamicObject, cards: &[Value]) -> Vec<Value> {
    let number = number(instance);
    let card = |(place, card): (usize, &Value)| {
        let ip = address(number, place);
        json!({
            "name": card["name"],
            "mac": card["macAddress"],
            "ipAddress": ip,
            "ipAddresses": [ip],
            "interfaceName": format!("eth{place}"),
            "infoSource": "domain, guest-agent",
        })
    };
    cards.iter().enumerate().map(card).collect()
}

/// A number that a machine has for as long as it runs.
fn number(instance: &DynamicObject) -> u64 {
    let mut hasher = DefaultHasher::new();
    instance.uid().hash(&mut hasher);
    hasher.finish()
}

fn address(number: u64, card: usize) -> String {
    let [a, b, c, ..] = number.to_le_bytes();
    format!(
        "10.{}.{b}.{c}",
        a.wrapping_add(u8::try_from(card).unwrap_or(0))
    )
}
