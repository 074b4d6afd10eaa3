//! Addresses of network cards.

use std::net::IpAddr;

use polyvirt_plan::Problem;

use super::invalid;

/// The prefix of a network of two, or of one: it has no address of its own.
const SMALLEST_WITH_OWN_ADDRESS: u8 = 30;

/// A fixed address and the way out.
pub(super) struct Fixed<'a> {
    /// The field of the address.
    pub field: String,
    /// The field of the gateway.
    pub gateway_field: String,
    /// The address.
    pub ip: &'a str,
    /// The length of its network part.
    pub prefix: u8,
    /// The way out.
    pub gateway: Option<&'a str>,
}

/// What is wrong with an address. Texts that are no addresses are the schema's business.
pub(super) fn problems(fixed: &Fixed<'_>) -> Vec<Problem> {
    let Ok(ip) = fixed.ip.parse::<IpAddr>() else {
        return Vec::new();
    };
    let own = unusable(ip, fixed.prefix).map(|why| invalid(&fixed.field, why));
    let gateway = fixed.gateway.and_then(|text| text.parse().ok());
    let way = gateway.and_then(|gateway| bad_gateway(ip, fixed.prefix, gateway));
    let way = way.map(|why| invalid(&fixed.gateway_field, why));
    own.into_iter().chain(way).collect()
}

fn unusable(ip: IpAddr, prefix: u8) -> Option<String> {
    if ip.is_multicast() || ip.is_unspecified() || ip.is_loopback() {
        return Some(format!(
            "No network card can have the address {ip}. Give one of its network"
        ));
    }
    let IpAddr::V4(address) = ip else { return None };
    if prefix > SMALLEST_WITH_OWN_ADDRESS {
        return None;
    }
    let hosts = u32::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
    let what = match address.to_bits() & hosts {
        0 => "the network itself",
        part if part == hosts => "the broadcast address of its network",
        _ => return None,
    };
    Some(format!(
        "{ip}/{prefix} is {what}. Give an address inside it"
    ))
}

fn bad_gateway(ip: IpAddr, prefix: u8, gateway: IpAddr) -> Option<String> {
    if ip == gateway {
        return Some(format!(
            "{gateway} is the card's own address. Give that of the router"
        ));
    }
    if ip.is_ipv4() != gateway.is_ipv4() {
        return Some(format!(
            "{gateway} and {ip} are not of one family. Give both as IPv4 or both as IPv6"
        ));
    }
    (!is_reachable(ip, prefix, gateway)).then(|| {
        format!("{gateway} is outside {ip}/{prefix}, so the guest cannot reach it. Correct the address, the prefix or the gateway")
    })
}

/// A network of one has its gateway outside by nature, and so has one whose gateway is local to the link.
fn is_reachable(ip: IpAddr, prefix: u8, gateway: IpAddr) -> bool {
    match (ip, gateway) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            prefix >= 32 || same(a.to_bits().into(), b.to_bits().into(), 32 - prefix)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let lone = prefix >= 128 || b.is_unicast_link_local();
            lone || same(a.to_bits(), b.to_bits(), 128 - prefix)
        }
        _ => false,
    }
}

fn same(a: u128, b: u128, host_bits: u8) -> bool {
    let mask = u128::MAX.checked_shl(host_bits.into()).unwrap_or(0);
    a & mask == b & mask
}

/// Servers that are no addresses.
pub(super) fn name_servers<'a>(
    field: &str,
    servers: impl Iterator<Item = &'a str>,
) -> Vec<Problem> {
    let wrong = servers.filter(|server| server.parse::<IpAddr>().is_err());
    wrong
        .map(|server| {
            invalid(
                field,
                format!(
                    "{server:?} is no address. Give addresses of name servers, such as 192.0.2.53"
                ),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(ip: &str, prefix: u8, gateway: Option<&str>) -> Vec<String> {
        let fixed = Fixed {
            field: "ip".to_owned(),
            gateway_field: "gateway".to_owned(),
            ip,
            prefix,
            gateway,
        };
        problems(&fixed).into_iter().map(|p| p.field).collect()
    }

    #[test]
    fn addresses_that_a_card_can_have_pass() {
        for (ip, prefix, gateway) in [
            ("192.0.2.10", 24, Some("192.0.2.1")),
            ("192.0.2.10", 24, None),
            ("192.0.2.0", 31, Some("192.0.2.1")),
            ("192.0.2.0", 32, Some("198.51.100.1")),
            ("10.1.2.3", 8, Some("10.255.0.1")),
            ("10.1.2.3", 0, Some("192.0.2.1")),
            ("2001:db8::10", 64, Some("2001:db8::1")),
            ("2001:db8::10", 64, Some("fe80::1")),
            ("2001:db8::10", 128, Some("2001:db8:1::1")),
            ("not an address", 24, Some("192.0.2.1")),
        ] {
            assert!(fields(ip, prefix, gateway).is_empty(), "{ip}/{prefix}");
        }
    }

    #[test]
    fn addresses_that_no_card_can_have_are_refused() {
        for (ip, prefix, gateway, field) in [
            ("192.0.2.0", 24, None, "ip"),
            ("192.0.2.255", 24, None, "ip"),
            ("224.0.0.1", 24, None, "ip"),
            ("0.0.0.0", 24, None, "ip"),
            ("127.0.0.1", 8, None, "ip"),
            ("ff02::1", 64, None, "ip"),
            ("192.0.2.10", 24, Some("192.0.2.10"), "gateway"),
            ("192.0.2.10", 24, Some("192.0.3.1"), "gateway"),
            ("192.0.2.10", 24, Some("2001:db8::1"), "gateway"),
            ("2001:db8::10", 64, Some("2001:db8:0:1::1"), "gateway"),
        ] {
            assert_eq!(
                fields(ip, prefix, gateway),
                [field],
                "{ip}/{prefix} {gateway:?}"
            );
        }
    }

    #[test]
    fn name_servers_are_addresses() {
        let servers = ["192.0.2.53", "2001:db8::53", "dns.example.com"];
        let found = name_servers("spec.dns", servers.into_iter());
        assert_eq!(found.len(), 1);
        assert!(found[0].message.starts_with("\"dns.example.com\""));
    }
}
