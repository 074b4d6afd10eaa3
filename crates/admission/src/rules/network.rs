//! VMNetworkAttachments.

use polyvirt_api::infra::{IpAllocation, IpAllocationType, StaticIpConfig, VMNetworkAttachment};
use polyvirt_plan::Problem;

use super::address::{self, Fixed};
use super::{Judged, invalid};
use crate::facts::Facts;

impl Judged for VMNetworkAttachment {
    fn problems(&self, _: &dyn Facts) -> Vec<Problem> {
        let Some(ip) = &self.spec.ip_allocation else {
            return Vec::new();
        };
        let mut found: Vec<_> = ip.static_config.iter().flat_map(of_static).collect();
        let servers = ip.dns_config.iter().flat_map(|dns| &dns.servers);
        let field = "spec.ipAllocation.dnsConfig.servers";
        found.extend(address::name_servers(field, servers.map(String::as_str)));
        found
    }

    fn warnings(&self, _: Option<&Self>, _: &dyn Facts) -> Vec<String> {
        let ip = self.spec.ip_allocation.as_ref();
        ip.and_then(without_address).into_iter().collect()
    }
}

fn of_static(config: &StaticIpConfig) -> Vec<Problem> {
    let path = "spec.ipAllocation.staticConfig";
    let Some((ip, prefix)) = config.address.split_once('/') else {
        return Vec::new();
    };
    let Ok(prefix) = prefix.parse() else {
        return Vec::new();
    };
    let mut found = address::problems(&Fixed {
        field: format!("{path}.address"),
        gateway_field: format!("{path}.gateway"),
        ip,
        prefix,
        gateway: config.gateway.as_deref(),
    });
    let mixed = config
        .routes
        .iter()
        .enumerate()
        .filter(|(_, route)| route.destination.contains(':') != route.gateway.contains(':'));
    found.extend(mixed.map(|(i, _)| {
        invalid(
            format!("{path}.routes[{i}].gateway"),
            "Network and next hop are not of one family. Give both as IPv4 or both as IPv6",
        )
    }));
    found
}

fn without_address(ip: &IpAllocation) -> Option<String> {
    (ip.type_ == IpAllocationType::Static && ip.static_config.is_none()).then(|| {
        "spec.ipAllocation: type Static has no staticConfig, so each network card needs an ipAddress of its own".to_owned()
    })
}
