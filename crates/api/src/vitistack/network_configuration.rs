//! NetworkConfiguration: network interfaces, their hardware addresses and what they are attached to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const WORD: &str = "^[A-Za-z0-9_-]+$";

/// A network, or the network interfaces of one Machine.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vitistack.io",
    version = "v1alpha1",
    kind = "NetworkConfiguration",
    plural = "networkconfigurations",
    shortname = "nc",
    category = "polyvirt",
    namespaced,
    status = "NetworkConfigurationStatus",
    derive = "PartialEq",
    doc = "Network interfaces, their hardware addresses, and what they are attached to.",
    printcolumn(name = "Name", type_ = "string", json_path = ".spec.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.status"),
    printcolumn(
        name = "Interfaces",
        type_ = "string",
        json_path = ".spec.networkInterfaces[*].macAddress"
    ),
    printcolumn(name = "Created", type_ = "string", json_path = ".status.created")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct NetworkConfigurationSpec {
    /// Name, for people and for what hands out addresses.
    #[schemars(length(min = 2, max = 32), regex(pattern = WORD))]
    pub name: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub description: Option<String>,
    /// The cluster that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 32), regex(pattern = WORD))]
    pub cluster_identifier: Option<String>,
    /// The datacenter that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 32), regex(pattern = WORD))]
    pub datacenter_identifier: Option<String>,
    /// The supervisor that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 32), regex(pattern = WORD))]
    pub supervisor_identifier: Option<String>,
    /// Who hands out the addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32), regex(pattern = WORD))]
    pub provider: Option<String>,
    /// The NetworkNamespace whose addresses are handed out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_namespace_name: Option<String>,
    /// The interfaces. Of a network that Machines are attached to, the first says the VLAN.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network_interfaces: Vec<ConfiguredInterface>,
    /// VLAN that Machines are attached to; 0 means none. Absent means that of the first interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4094))]
    pub vlan: Option<i32>,
    /// Bridge on the nodes that Machines are attached to. Absent means br0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 15))]
    pub bridge: Option<String>,
}

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfiguredInterface {
    /// Name of the interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Hardware address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// VLAN that it is in, a number; absent or 0 means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<String>,
    /// How it gets addresses: dhcp or static.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_method: Option<AllocationMethod>,
    /// Until when its addresses are its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_expiry: Option<Time>,
    /// Whether addresses were handed out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_allocated: Option<bool>,
    /// Whether the DHCP server keeps its addresses for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dhcp_reserved: Option<bool>,
    /// IPv4 addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ipv4_addresses: Vec<String>,
    /// IPv4 network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4_subnet: Option<String>,
    /// IPv4 gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4_gateway: Option<String>,
    /// IPv6 addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ipv6_addresses: Vec<String>,
    /// IPv6 network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6_subnet: Option<String>,
    /// IPv6 gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6_gateway: Option<String>,
    /// Name servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dns: Vec<String>,
}

/// How addresses are handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AllocationMethod {
    /// A DHCP server hands them out.
    #[default]
    Dhcp,
    /// They are taken from a range and written down.
    Static,
}

/// What is known of the interfaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct NetworkConfigurationStatus {
    /// Where it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// How it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// One sentence about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
    /// The interfaces with the addresses that were handed out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network_interfaces: Vec<ConfiguredInterface>,
    /// What is true of it, one entry a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
