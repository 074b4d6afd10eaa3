//! Who may speak with a provider's pods, and with whom they may speak. Pure.

use std::net::IpAddr;

use polyvirt_api::infra::Provider;
use polyvirt_engine::runtime::key::ObjectKey;
use serde_json::{Value, json};

use super::names::selector;
use super::settings::Settings;
use super::workload::{HEALTH_PORT, object, port};

/// The addresses at which clouds tell secrets to whoever asks from inside.
const LINK_LOCAL: [&str; 2] = ["169.254.0.0/16", "fe80::/10"];

/// In: the manager. Out: names, and the hypervisor.
pub fn policy(provider: &Provider, settings: &Settings) -> Value {
    let mut policy = object(provider, "networking.k8s.io/v1", "NetworkPolicy");
    policy["spec"] = json!({
        "podSelector": {"matchLabels": selector(&ObjectKey::of(provider))},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {"from": [manager(settings)], "ports": [tcp(port(provider))]},
            {"ports": [tcp(HEALTH_PORT)]},
        ],
        "egress": egress(provider, settings),
    });
    policy
}

fn manager(settings: &Settings) -> Value {
    json!({
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": settings.manager_namespace}},
        "podSelector": {"matchLabels": settings.manager_labels},
    })
}

fn egress(provider: &Provider, settings: &Settings) -> Vec<Value> {
    let mut rules = vec![json!({"ports": [udp(53), tcp(53)]})];
    let hypervisor = provider.spec.endpoint.as_deref().and_then(Place::parse);
    if let Some(place) = hypervisor {
        rules.push(json!({"to": place.peers(), "ports": [tcp(i32::from(place.port))]}));
    }
    if settings.fetches.contains(&provider.spec.type_) {
        rules.push(json!({"to": anywhere(), "ports": [tcp(80), tcp(443)]}));
    }
    rules
}

fn tcp(port: i32) -> Value {
    json!({"protocol": "TCP", "port": port})
}

fn udp(port: i32) -> Value {
    json!({"protocol": "UDP", "port": port})
}

/// A name can be any address, but not one of those that clouds keep for themselves.
fn anywhere() -> Value {
    json!([
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": [LINK_LOCAL[0]]}},
        {"ipBlock": {"cidr": "::/0", "except": [LINK_LOCAL[1]]}},
    ])
}

/// Where a hypervisor is.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    host: String,
    port: u16,
}

impl Place {
    /// `None` if the endpoint names no host: then it is not reached over the network.
    fn parse(endpoint: &str) -> Option<Self> {
        let (scheme, rest) = endpoint.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        let authority = authority
            .rsplit_once('@')
            .map_or(authority, |(_, host)| host);
        let (host, port) = split(authority);
        let port = port.or_else(|| usual_port(scheme))?;
        let host = host.trim_matches(['[', ']']).to_owned();
        (!host.is_empty()).then_some(Self { host, port })
    }

    fn peers(&self) -> Value {
        let Ok(address) = self.host.parse::<IpAddr>() else {
            return anywhere();
        };
        let bits = if address.is_ipv4() { 32 } else { 128 };
        json!([{"ipBlock": {"cidr": format!("{address}/{bits}")}}])
    }
}

/// Host and port of an authority; the colons in brackets are of an address.
fn split(authority: &str) -> (&str, Option<u16>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()),
        _ => (authority, None),
    }
}

fn usual_port(scheme: &str) -> Option<u16> {
    match scheme {
        "https" => Some(443),
        "http" => Some(80),
        "ssh" | "qemu+ssh" => Some(22),
        "qemu+tls" | "qemu" => Some(16514),
        "qemu+tcp" => Some(16509),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(endpoint: &str) -> Option<(String, u16)> {
        Place::parse(endpoint).map(|p| (p.host, p.port))
    }

    #[test]
    fn hypervisors_are_found_in_their_endpoints() {
        let found = |host: &str, port| Some((host.to_owned(), port));
        for (endpoint, expected) in [
            (
                "https://vcenter.example.com",
                found("vcenter.example.com", 443),
            ),
            ("https://10.0.0.5:8006/api2/json", found("10.0.0.5", 8006)),
            ("qemu+ssh://root@kvm1/system", found("kvm1", 22)),
            ("qemu+tls://[fd00::1]/system", found("fd00::1", 16514)),
            ("qemu+tls://[fd00::1]:1234/system", found("fd00::1", 1234)),
            ("qemu:///system", None),
            ("mock://memory", None),
            ("nonsense", None),
        ] {
            assert_eq!(place(endpoint), expected, "{endpoint}");
        }
    }

    #[test]
    fn an_address_is_let_out_to_alone_and_a_name_never_to_the_cloud() {
        let address = Place::parse("https://10.0.0.5").expect("a place");
        assert_eq!(
            address.peers(),
            json!([{"ipBlock": {"cidr": "10.0.0.5/32"}}])
        );
        let name = Place::parse("https://vcenter").expect("a place");
        assert!(name.peers().to_string().contains("169.254.0.0/16"));
    }
}
