//! Network cards of one VM, side by side.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use polyvirt_api::infra::{NetworkCustomization, VMNetwork};
use polyvirt_plan::Problem;

use super::address::{self, Fixed};
use super::invalid;

/// What two kinds of manifests say of a card.
struct Card<'a> {
    path: String,
    ip: Option<&'a str>,
    prefix: Option<u8>,
    gateway: Option<&'a str>,
    dns: Vec<&'a str>,
    mac: Option<&'a str>,
}

/// What is wrong with the cards of a VM.
pub(super) fn problems(field: &str, networks: &[VMNetwork]) -> Vec<Problem> {
    let cards: Vec<_> = networks.iter().map(|n| card(field, n)).collect();
    of_cards(&cards)
}

/// What is wrong with the cards of a clone.
pub(super) fn of_customization(field: &str, networks: &[NetworkCustomization]) -> Vec<Problem> {
    let masks = networks.iter().filter_map(|n| broken_mask(field, n));
    let cards: Vec<_> = networks.iter().map(|n| customized(field, n)).collect();
    masks.chain(of_cards(&cards)).collect()
}

/// What is said of cards and does nothing.
pub(super) fn warnings(field: &str, networks: &[VMNetwork]) -> Vec<String> {
    let idle = |network: &VMNetwork| {
        let has = [
            ("prefix", network.prefix.is_some()),
            ("gateway", network.gateway.is_some()),
        ];
        let names = has
            .into_iter()
            .filter_map(|(name, set)| set.then_some(name));
        let names: Vec<_> = names.filter(|_| network.ip_address.is_none()).collect();
        (!names.is_empty()).then(|| {
            format!(
                "{field}[{}]: {} without ipAddress: of no effect",
                network.name,
                names.join(" and ")
            )
        })
    };
    networks.iter().filter_map(idle).collect()
}

fn card<'a>(field: &str, network: &'a VMNetwork) -> Card<'a> {
    let dns = network.dns.iter().flat_map(|list| list.split(','));
    Card {
        path: format!("{field}[{}]", network.name),
        ip: network.ip_address.as_deref(),
        prefix: network.prefix.and_then(|p| u8::try_from(p).ok()),
        gateway: network.gateway.as_deref(),
        dns: dns.map(str::trim).filter(|s| !s.is_empty()).collect(),
        mac: network.mac_address.as_deref(),
    }
}

fn customized<'a>(field: &str, network: &'a NetworkCustomization) -> Card<'a> {
    Card {
        path: format!("{field}[{}]", network.name),
        ip: network.ip_address.as_deref(),
        prefix: network.subnet_mask.as_deref().and_then(prefix_of),
        gateway: network.gateway.as_deref(),
        dns: network.dns.iter().map(String::as_str).collect(),
        mac: network.mac_address.as_deref(),
    }
}

/// The number of leading ones, if there are no others.
fn prefix_of(mask: &str) -> Option<u8> {
    let bits = mask.parse::<Ipv4Addr>().ok()?.to_bits();
    let ones = bits.leading_ones();
    (ones == bits.count_ones()).then(|| u8::try_from(ones).ok())?
}

fn broken_mask(field: &str, network: &NetworkCustomization) -> Option<Problem> {
    let mask = network.subnet_mask.as_deref()?;
    prefix_of(mask).is_none().then(|| {
        let field = format!("{field}[{}].subnetMask", network.name);
        invalid(
            field,
            format!("{mask} is no mask. Write ones and then zeros, such as 255.255.255.0"),
        )
    })
}

fn of_cards(cards: &[Card<'_>]) -> Vec<Problem> {
    let mut found: Vec<_> = cards.iter().flat_map(of_card).collect();
    found.extend(repeated(cards, "macAddress", |card| card.mac.and_then(mac)));
    found.extend(repeated(cards, "ipAddress", |card| {
        card.ip.and_then(|ip| ip.parse::<IpAddr>().ok())
    }));
    found
}

fn of_card(card: &Card<'_>) -> Vec<Problem> {
    let mut found = address::name_servers(&format!("{}.dns", card.path), card.dns.iter().copied());
    if let (Some(ip), Some(prefix)) = (card.ip, card.prefix) {
        found.extend(address::problems(&Fixed {
            field: format!("{}.ipAddress", card.path),
            gateway_field: format!("{}.gateway", card.path),
            ip,
            prefix,
            gateway: card.gateway,
        }));
    }
    found.extend(card.mac.and_then(|text| group_address(&card.path, text)));
    found
}

fn group_address(path: &str, text: &str) -> Option<Problem> {
    let first = mac(text)?[0];
    (first & 1 == 1).then(|| {
        invalid(
            format!("{path}.macAddress"),
            format!("{text} is the address of a group. Make the second digit even, as in 52:54:00:12:34:56"),
        )
    })
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let bytes: Vec<u8> = text
        .split([':', '-'])
        .filter_map(|pair| u8::from_str_radix(pair, 16).ok())
        .collect();
    bytes.try_into().ok()
}

fn repeated<K: Eq + std::hash::Hash>(
    cards: &[Card<'_>],
    member: &str,
    key: impl Fn(&Card<'_>) -> Option<K>,
) -> Vec<Problem> {
    let mut first: HashMap<K, &str> = HashMap::new();
    let mut found = Vec::new();
    for card in cards {
        let Some(key) = key(card) else { continue };
        match first.get(&key) {
            Some(other) => found.push(invalid(
                format!("{}.{member}", card.path),
                format!("{other} has the same. Give each card its own"),
            )),
            None => {
                first.insert(key, &card.path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fields(networks: Value) -> Vec<String> {
        let networks: Vec<VMNetwork> = serde_json::from_value(networks).expect("cards");
        let found = problems("spec.networks", &networks);
        found.into_iter().map(|p| p.field).collect()
    }

    #[test]
    fn two_cards_cannot_share_an_address() {
        let found = fields(json!([
            {"name": "a", "macAddress": "52:54:00:aa:bb:cc", "ipAddress": "192.0.2.10", "prefix": 24},
            {"name": "b", "macAddress": "52-54-00-AA-BB-CC", "ipAddress": "192.0.2.10", "prefix": 24},
        ]));
        assert_eq!(
            found,
            ["spec.networks[b].macAddress", "spec.networks[b].ipAddress"]
        );
    }

    #[test]
    fn cards_that_can_work_pass() {
        let found = fields(json!([
            {"name": "a"}, {"name": "b"},
            {"name": "c", "macAddress": "52:54:00:00:00:01", "dns": "192.0.2.53, 192.0.2.54,"},
        ]));
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_card_has_an_address_of_its_own() {
        let found = fields(json!([
            {"name": "a", "macAddress": "ff:ff:ff:ff:ff:ff", "dns": "router"},
            {"name": "b", "ipAddress": "192.0.2.10", "prefix": 24, "gateway": "192.0.3.1"},
        ]));
        assert_eq!(
            found,
            [
                "spec.networks[a].dns",
                "spec.networks[a].macAddress",
                "spec.networks[b].gateway"
            ]
        );
    }

    #[test]
    fn masks_are_read() {
        for (mask, prefix) in [
            ("255.255.255.0", Some(24)),
            ("255.255.255.255", Some(32)),
            ("0.0.0.0", Some(0)),
            ("255.0.255.0", None),
            ("x", None),
        ] {
            assert_eq!(prefix_of(mask), prefix, "{mask}");
        }
    }

    #[test]
    fn what_does_nothing_without_an_address_is_told() {
        let card = json!([{"name": "a", "prefix": 24, "gateway": "192.0.2.1"}, {"name": "b"}]);
        let networks: Vec<VMNetwork> = serde_json::from_value(card).expect("cards");
        assert_eq!(
            warnings("spec.networks", &networks),
            ["spec.networks[a]: prefix and gateway without ipAddress: of no effect"]
        );
    }
}
