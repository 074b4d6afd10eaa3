//! Firewall, isolation and encryption of a network.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cel::rule;
use crate::infra::LocalRef;
use crate::schema::IP_OR_CIDR;

/// Firewall, isolation and encryption of a network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkSecurity {
    /// Which packets pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firewall: Option<FirewallConfig>,
    /// Which other networks are reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<NetworkIsolation>,
    /// Encryption on the wire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<NetworkEncryption>,
}

/// Which packets pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FirewallConfig {
    /// Whether packets are filtered. Defaults to false.
    pub enabled: bool,
    /// What happens to packets that no rule names: ACCEPT, DROP or REJECT. Defaults to ACCEPT.
    pub default_policy: FirewallAction,
    /// The rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub rules: Vec<FirewallRule>,
}

/// One rule of a firewall.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FirewallRule {
    /// Name of the rule.
    #[schemars(length(max = 255))]
    pub name: String,
    /// What happens to a packet: ACCEPT, DROP or REJECT.
    pub action: FirewallAction,
    /// Which packets are meant, seen from the guest: in, out or inout.
    pub direction: TrafficDirection,
    /// The protocol: tcp, udp, icmp or all. Absent means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<FirewallProtocol>,
    /// The ports, for tcp and udp. Absent means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<PortRange>,
    /// Where packets come from, such as 192.0.2.0/24. Absent means anywhere.
    #[serde(rename = "sourceCIDR", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = IP_OR_CIDR))]
    pub source_cidr: Option<String>,
    /// Where packets go. Absent means anywhere.
    #[serde(rename = "destinationCIDR", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = IP_OR_CIDR))]
    pub destination_cidr: Option<String>,
    /// Place among the rules; the lowest is looked at first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub priority: Option<i32>,
}

/// Ports from start to end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "!has(self.end) || self.start <= self.end",
        "The last port must not be below the first",
    ),
]))]
pub struct PortRange {
    /// First port.
    #[schemars(range(min = 1, max = 65_535))]
    pub start: i32,
    /// Last port. Absent means the first one only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub end: Option<i32>,
}

/// Which other networks are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkIsolation {
    /// How strictly: none, strict or custom (as the lists say).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<IsolationMode>,
    /// Networks that are reached.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub allowed_networks: Vec<String>,
    /// Networks that are not reached.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub denied_networks: Vec<String>,
}

/// Encryption on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkEncryption {
    /// Whether traffic is encrypted. Defaults to false.
    pub enabled: bool,
    /// How: ipsec, wireguard or openvpn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<EncryptionProtocol>,
    /// The Secret with the keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_ref: Option<LocalRef>,
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum FirewallAction {
    /// It passes.
    #[default]
    Accept,
    /// It vanishes.
    Drop,
    /// It is sent back with an error.
    Reject,
}

/// Which way a packet goes, seen from the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrafficDirection {
    /// To the guest.
    In,
    /// From the guest.
    Out,
    /// Both.
    InOut,
}

/// Protocol of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FirewallProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP.
    Icmp,
    /// Any.
    All,
}

/// How strictly a network is kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IsolationMode {
    /// Not at all.
    None,
    /// Completely.
    Strict,
    /// As the lists say.
    Custom,
}

/// How traffic is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EncryptionProtocol {
    /// IPsec.
    Ipsec,
    /// WireGuard.
    Wireguard,
    /// OpenVPN.
    Openvpn,
}
