//! The network configuration of a guest, made from its network cards: version 2 of cloud-init's format.
//!
//! Which card an entry means, and what really works:
//!
//! * By MAC address, always. cloud-init finds the card whatever the guest calls it, with every back end (netplan, networkd,
//!   sysconfig, NetworkManager, ENI). **A provider that chooses the MAC addresses should choose them before it calls this.**
//! * Without one, a single card is matched by the name pattern `e*` (`eth0`, `ens3`, `enp1s0`). Only netplan and networkd
//!   know patterns.
//! * Without one, several cards cannot be told apart. They are called `eth0`, `eth1`, … in order, which holds only in
//!   guests that keep the kernel's names.
//!
//! With no configuration at all cloud-init brings up *one* card by DHCP. So several DHCP cards with MAC addresses get one.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use polyvirt_contract::model::{NicSpec, StaticAddress};

const ANY_CARD: &str = "e*";

/// The further the card, the less its default route counts; the first one keeps the guest's own default.
const METRIC_STEP: usize = 100;

/// The document for `network-config` (NoCloud takes it without `network:` around it), or `None` if the guest does the same
/// on its own.
pub fn network_config(nics: &[NicSpec]) -> Option<String> {
    if nics.iter().all(is_plain) && (nics.len() < 2 || nics.iter().any(|nic| nic.mac.is_empty())) {
        return None;
    }
    let mut yaml = Yaml::default();
    yaml.line(0, "version: 2");
    yaml.line(0, "ethernets:");
    for (index, nic) in nics.iter().enumerate() {
        write_card(&mut yaml, index, nic, nics.len());
    }
    Some(yaml.0)
}

const fn is_plain(nic: &NicSpec) -> bool {
    nic.address.is_none() && nic.mtu == 0
}

fn write_card(yaml: &mut Yaml, index: usize, nic: &NicSpec, cards: usize) {
    yaml.line(1, format_args!("{}:", quoted(&id(index, nic, cards))));
    if !nic.mac.is_empty() {
        yaml.line(2, "match:");
        yaml.line(
            3,
            format_args!("macaddress: {}", quoted(&canonical_mac(&nic.mac))),
        );
    } else if cards == 1 {
        yaml.line(2, "match:");
        yaml.line(3, format_args!("name: {}", quoted(ANY_CARD)));
    }
    match &nic.address {
        Some(address) => write_static(yaml, address),
        None => write_dhcp(yaml, index),
    }
    if nic.mtu > 0 {
        yaml.line(2, format_args!("mtu: {}", nic.mtu));
    }
}

/// A label of ours that depends on this card alone, or the kernel's name where that is all we have.
fn id(index: usize, nic: &NicSpec, cards: usize) -> String {
    if nic.mac.is_empty() && cards > 1 {
        return format!("eth{index}");
    }
    format!("nic-{}", nic.name)
}

/// An unquoted MAC address of digits would be a number in base 60, and lower case is what the guest compares.
fn canonical_mac(mac: &str) -> String {
    mac.replace('-', ":").to_ascii_lowercase()
}

fn write_dhcp(yaml: &mut Yaml, index: usize) {
    yaml.line(2, "dhcp4: true");
    if index > 0 {
        yaml.line(2, "dhcp4-overrides:");
        yaml.line(
            3,
            format_args!("route-metric: {}", (index + 1) * METRIC_STEP),
        );
    }
}

fn write_static(yaml: &mut Yaml, address: &StaticAddress) {
    let prefix = prefix(address);
    yaml.line(2, "addresses:");
    yaml.line(
        2,
        format_args!("- {}", quoted(&format!("{}/{prefix}", address.ip))),
    );
    if !address.gateway.is_empty() {
        write_default_route(yaml, address, prefix);
    }
    if !address.dns.is_empty() {
        yaml.line(2, "nameservers:");
        yaml.line(3, "addresses:");
        for server in &address.dns {
            yaml.line(3, format_args!("- {}", quoted(server)));
        }
    }
}

/// Where none is given, what cloud-init assumes.
fn prefix(address: &StaticAddress) -> u8 {
    match address.prefix {
        0 if address.ip.contains(':') => 64,
        0 => 24,
        given => given,
    }
}

/// The destination in numbers, for older releases do not know the word `default`.
fn write_default_route(yaml: &mut Yaml, address: &StaticAddress, prefix: u8) {
    let everywhere = if address.gateway.contains(':') {
        "::/0"
    } else {
        "0.0.0.0/0"
    };
    yaml.line(2, "routes:");
    yaml.line(2, format_args!("- to: {}", quoted(everywhere)));
    yaml.line(3, format_args!("via: {}", quoted(&address.gateway)));
    if is_outside(address, prefix) {
        yaml.line(3, "on-link: true");
    }
}

/// Whether an IPv4 gateway lies beyond the network of the address, as some hosters have it.
fn is_outside(address: &StaticAddress, prefix: u8) -> bool {
    match (address.ip.parse(), address.gateway.parse()) {
        (Ok(IpAddr::V4(ip)), Ok(IpAddr::V4(gateway))) => {
            network(ip, prefix) != network(gateway, prefix)
        }
        _ => false,
    }
}

fn network(ip: Ipv4Addr, prefix: u8) -> u32 {
    let host_bits = 32_u32.saturating_sub(u32::from(prefix));
    ip.to_bits().checked_shr(host_bits).unwrap_or_default()
}

/// A string in quotes. That of JSON is one of YAML, whatever is in it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[derive(Default)]
struct Yaml(String);

impl Yaml {
    fn line(&mut self, depth: usize, text: impl std::fmt::Display) {
        let indent = "  ".repeat(depth);
        // Writing into a String cannot fail.
        let _ = writeln!(self.0, "{indent}{text}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn nic(name: &str, mac: &str) -> NicSpec {
        NicSpec {
            name: name.to_owned(),
            mac: mac.to_owned(),
            ..NicSpec::default()
        }
    }

    fn fixed(ip: &str, prefix: u8, gateway: &str, dns: &[&str]) -> StaticAddress {
        StaticAddress {
            ip: ip.to_owned(),
            prefix,
            gateway: gateway.to_owned(),
            dns: dns.iter().map(ToString::to_string).collect(),
        }
    }

    fn value(nics: &[NicSpec]) -> Value {
        serde_saphyr::from_str(&network_config(nics).unwrap()).unwrap()
    }

    #[test]
    fn what_the_guest_does_anyway_needs_no_configuration() {
        assert_eq!(network_config(&[]), None);
        assert_eq!(network_config(&[nic("a", "")]), None);
        assert_eq!(network_config(&[nic("a", "52:54:00:00:00:01")]), None);
        assert_eq!(
            network_config(&[nic("a", "52:54:00:00:00:01"), nic("b", "")]),
            None
        );
    }

    #[test]
    fn a_fixed_address_is_written_out() {
        let lan = NicSpec {
            address: Some(fixed(
                "192.0.2.10",
                24,
                "192.0.2.1",
                &["192.0.2.53", "2001:db8::53"],
            )),
            mtu: 9000,
            ..nic("lan", "52-54-00-AB-00-01")
        };
        assert_eq!(
            network_config(&[lan]).unwrap(),
            "version: 2\nethernets:\n  \"nic-lan\":\n    match:\n      macaddress: \"52:54:00:ab:00:01\"\n    \
             addresses:\n    - \"192.0.2.10/24\"\n    routes:\n    - to: \"0.0.0.0/0\"\n      via: \"192.0.2.1\"\n    \
             nameservers:\n      addresses:\n      - \"192.0.2.53\"\n      - \"2001:db8::53\"\n    mtu: 9000\n"
        );
    }

    #[test]
    fn several_dhcp_cards_all_come_up_and_the_first_has_the_route() {
        let found = value(&[nic("a", "52:54:00:00:00:01"), nic("b", "52:54:00:00:00:02")]);
        assert_eq!(found["ethernets"]["nic-a"]["dhcp4"], true);
        assert_eq!(found["ethernets"]["nic-a"]["dhcp4-overrides"], Value::Null);
        assert_eq!(
            found["ethernets"]["nic-b"]["match"]["macaddress"],
            "52:54:00:00:00:02"
        );
        assert_eq!(
            found["ethernets"]["nic-b"]["dhcp4-overrides"]["route-metric"],
            200
        );
    }

    #[test]
    fn a_single_card_without_mac_is_matched_by_pattern_and_several_by_order() {
        let lan = NicSpec {
            address: Some(fixed("192.0.2.10", 0, "", &[])),
            ..nic("lan", "")
        };
        let found = value(std::slice::from_ref(&lan));
        assert_eq!(found["ethernets"]["nic-lan"]["match"]["name"], "e*");
        assert_eq!(
            found["ethernets"]["nic-lan"]["addresses"][0],
            "192.0.2.10/24"
        );
        let found = value(&[lan, nic("b", "52:54:00:00:00:02")]);
        assert_eq!(found["ethernets"]["eth0"]["match"], Value::Null);
        assert_eq!(found["ethernets"]["nic-b"]["dhcp4"], true);
    }

    #[test]
    fn ipv6_and_distant_gateways_are_reached() {
        let six = NicSpec {
            address: Some(fixed("2001:db8::10", 0, "fe80::1", &[])),
            ..nic("six", "")
        };
        let entry = value(&[six])["ethernets"]["nic-six"].clone();
        assert_eq!(entry["addresses"][0], "2001:db8::10/64");
        assert_eq!(
            entry["routes"][0],
            serde_json::json!({"to": "::/0", "via": "fe80::1"})
        );

        let far = NicSpec {
            address: Some(fixed("192.0.2.10", 32, "198.51.100.1", &[])),
            ..nic("far", "")
        };
        assert_eq!(
            value(&[far])["ethernets"]["nic-far"]["routes"][0]["on-link"],
            true
        );
    }

    #[test]
    fn an_mtu_alone_is_reason_enough() {
        let found = value(&[NicSpec {
            mtu: 1400,
            ..nic("a", "")
        }]);
        assert_eq!(found["ethernets"]["nic-a"]["mtu"], 1400);
        assert_eq!(found["ethernets"]["nic-a"]["dhcp4"], true);
    }
}
