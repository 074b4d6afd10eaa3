//! The cards of a guest, as virt-handler tells of them.

use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::guests::address;
use crate::world::list;

const IN_POD: &str = "multus-status";

/// What is told of each card when all that can be plugged in and out has been.
pub fn settled(guest: &DynamicObject) -> Vec<Value> {
    let told = list(guest, "/status/interfaces");
    let cards = list(guest, "/spec/domain/devices/interfaces");
    let known = |card: &Value| told.iter().find(|t| t["name"] == card["name"]);
    let each = cards.iter().enumerate();
    each.filter_map(|(place, card)| of_card(guest, place, card, known(card)))
        .collect()
}

fn of_card(
    guest: &DynamicObject,
    place: usize,
    card: &Value,
    told: Option<&Value>,
) -> Option<Value> {
    let sources = told.and_then(|told| told["infoSource"].as_str());
    let is_in_pod = sources.is_some_and(|sources| sources.contains(IN_POD));
    if card["state"] == "absent" {
        // Out of the guest; Multus may take it out of the pod.
        return is_in_pod.then(|| {
            let pod = told.and_then(|told| told.get("podInterfaceName"));
            json!({"name": card["name"], "infoSource": IN_POD, "podInterfaceName": pod})
        });
    }
    if is_second(guest, card) && !is_in_pod {
        return told.cloned();
    }
    let mut settled = told.cloned().unwrap_or_else(|| json!({}));
    json_patch::merge(&mut settled, &plugged(guest, place, card, is_in_pod));
    Some(settled)
}

fn is_second(guest: &DynamicObject, card: &Value) -> bool {
    let networks = list(guest, "/spec/networks");
    let network = networks.iter().find(|n| n["name"] == card["name"]);
    network.is_some_and(|network| {
        network.get("multus").is_some() && network.pointer("/multus/default") != Some(&json!(true))
    })
}

fn plugged(guest: &DynamicObject, place: usize, card: &Value, is_in_pod: bool) -> Value {
    let identity = guest.uid().unwrap_or_default();
    let ip = address(&identity, place);
    let mac = card.get("macAddress").cloned();
    let mac = mac.unwrap_or_else(|| json!(format!("02:00:00:00:00:{place:02x}")));
    let source = if is_in_pod {
        format!("domain, guest-agent, {IN_POD}")
    } else {
        "domain, guest-agent".to_owned()
    };
    json!({
        "name": card["name"], "mac": mac, "ipAddress": ip, "ipAddresses": [ip],
        "interfaceName": format!("eth{place}"), "infoSource": source, "linkState": "up",
    })
}
