//! The network configuration of the guest, where the cards of our API cannot say it all: two families on one card, IPv6
//! without a fixed address, name servers beside DHCP.

use polyvirt_api::infra::{CloudInit, NetworkData};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::address::{Fixed, Method};
use super::networks::Card;

/// A document of cloud-init, version 2, that finds each card by its hardware address.
pub(super) fn document(cards: &[Card], uid: &str) -> NetworkData {
    let each = cards.iter();
    let ethernets: Map<_, _> = each
        .map(|card| (card.name.clone(), ethernet(card, &mac(uid, &card.name))))
        .collect();
    let document = json!({"version": 2, "ethernets": ethernets});
    NetworkData {
        cloud_init: Some(CloudInit {
            inline: Some(document.to_string()),
            ..CloudInit::default()
        }),
    }
}

/// Whether the cards alone say it all.
pub(super) fn is_needed(cards: &[Card]) -> bool {
    !cards.iter().all(|card| card.addresses.is_simple())
}

/// 02 says that nobody sells cards with it. The same VM always gets the same.
pub(super) fn mac(uid: &str, card: &str) -> String {
    let digest = Sha256::digest(format!("{uid}/{card}").as_bytes());
    let bytes = digest.iter().take(5).map(|byte| format!("{byte:02x}"));
    let bytes: Vec<_> = bytes.collect();
    format!("02:{}", bytes.join(":"))
}

fn ethernet(card: &Card, mac: &str) -> Value {
    let addresses = &card.addresses;
    let mut entry = json!({
        "match": {"macaddress": mac},
        "dhcp4": addresses.v4 == Method::Dhcp,
        "dhcp6": addresses.v6 == Method::Dhcp,
    });
    if addresses.v6 == Method::Auto {
        entry["accept-ra"] = json!(true);
    }
    let fixed = [&addresses.v4, &addresses.v6];
    let fixed: Vec<&Fixed> = fixed.into_iter().filter_map(as_fixed).collect();
    if !fixed.is_empty() {
        let texts = fixed.iter().map(|f| format!("{}/{}", f.ip, f.prefix));
        entry["addresses"] = json!(texts.collect::<Vec<_>>());
    }
    let routes: Vec<_> = fixed.iter().filter_map(|f| route(f)).collect();
    if !routes.is_empty() {
        entry["routes"] = json!(routes);
    }
    if !addresses.dns.is_empty() {
        entry["nameservers"] = json!({"addresses": addresses.dns});
    }
    entry
}

const fn as_fixed(method: &Method) -> Option<&Fixed> {
    match method {
        Method::Fixed(fixed) => Some(fixed),
        _ => None,
    }
}

fn route(fixed: &Fixed) -> Option<Value> {
    let everywhere = if fixed.ip.is_ipv4() {
        "0.0.0.0/0"
    } else {
        "::/0"
    };
    let via = fixed.gateway?;
    Some(json!({"to": everywhere, "via": via}))
}
