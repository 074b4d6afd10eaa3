//! How guests get their addresses.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cel::rule;
use crate::infra::LocalRef;

/// How guests get their addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "self.type != 'Pool' || has(self.poolConfig)",
        "Type Pool needs poolConfig",
    ),
]))]
pub struct IpAllocation {
    /// Who gives addresses: DHCP, Static, Pool or None. Defaults to DHCP.
    #[serde(rename = "type")]
    pub type_: IpAllocationType,
    /// The address, for type Static.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub static_config: Option<StaticIpConfig>,
    /// The pool, for type Pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool_config: Option<IpPoolConfig>,
    /// What guests tell the server, for type DHCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dhcp_config: Option<DhcpConfig>,
    /// Name servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_config: Option<DnsConfig>,
}

/// A fixed address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticIpConfig {
    /// Address and prefix, such as 192.0.2.10/24.
    #[schemars(schema_with = "crate::schema::cidr")]
    pub address: String,
    /// Default gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub gateway: Option<String>,
    /// Further routes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub routes: Vec<StaticRoute>,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticRoute {
    /// Network that the route leads to, such as 198.51.100.0/24.
    #[schemars(schema_with = "crate::schema::cidr")]
    pub destination: String,
    /// Address of the next hop.
    #[schemars(schema_with = "crate::schema::ip")]
    pub gateway: String,
    /// Cost of the route; the cheapest one is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65_535))]
    pub metric: Option<i32>,
}

/// Addresses from a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpPoolConfig {
    /// The pool.
    pub pool_ref: LocalRef,
    /// Address to take when it is free.
    #[serde(
        rename = "preferredIP",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "crate::schema::ip")]
    pub preferred_ip: Option<String>,
}

/// What a guest tells a DHCP server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DhcpConfig {
    /// Identifier of the client.
    #[serde(rename = "clientID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub client_id: Option<String>,
    /// Host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub hostname: Option<String>,
    /// Further options by name or number.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    pub options: BTreeMap<String, String>,
}

/// Name servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsConfig {
    /// Addresses of the servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub servers: Vec<String>,
    /// Domains to complete short names with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub search_domains: Vec<String>,
    /// Options of the resolver by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 10))]
    pub options: BTreeMap<String, String>,
}

/// Who gives addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::enum_in_all_of)]
pub enum IpAllocationType {
    /// A DHCP server.
    #[serde(rename = "DHCP")]
    #[default]
    Dhcp,
    /// This object.
    Static,
    /// A pool of addresses.
    Pool,
    /// Nobody; the guest has its own way.
    None,
}
