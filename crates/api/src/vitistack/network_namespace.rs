//! NetworkNamespace: a network of its own for a group of Machines.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AllocationMethod;

const WORD: &str = "^[A-Za-z0-9_-]+$";
const IPV4_CIDR: &str = "^([0-9]{1,3}\\.){3}[0-9]{1,3}/[0-9]{1,2}$";

/// A network of its own for a group of Machines.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "vitistack.io",
    version = "v1alpha1",
    kind = "NetworkNamespace",
    plural = "networknamespaces",
    shortname = "nn",
    category = "polyvirt",
    namespaced,
    status = "NetworkNamespaceStatus",
    derive = "PartialEq",
    doc = "A network of its own for a group of Machines.",
    printcolumn(
        name = "DatacenterIdentifier",
        type_ = "string",
        json_path = ".spec.datacenterIdentifier"
    ),
    printcolumn(name = "VLANID", type_ = "integer", json_path = ".status.vlanId"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.status"),
    printcolumn(name = "Created", type_ = "date", json_path = ".status.created")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct NetworkNamespaceSpec {
    /// The datacenter that the network is in.
    #[schemars(length(min = 2, max = 32), regex(pattern = WORD))]
    pub datacenter_identifier: String,
    /// The supervisor that the network belongs to.
    #[schemars(length(min = 2, max = 32), regex(pattern = WORD))]
    pub supervisor_identifier: String,
    /// How Machines get addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_allocation: Option<NamespaceIpAllocation>,
}

/// How Machines of a network get addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceIpAllocation {
    /// From a DHCP server, or from a range: dhcp or static.
    #[serde(rename = "type")]
    pub type_: AllocationMethod,
    /// Who hands them out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = WORD))]
    pub provider: Option<String>,
    /// For dhcp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dhcp: Option<DhcpAllocation>,
    /// For static.
    #[serde(rename = "static", skip_serializing_if = "Option::is_none")]
    pub static_: Option<StaticAllocation>,
}

/// Addresses from a DHCP server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DhcpAllocation {
    /// Classes of clients that the server must know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub require_client_classes: Vec<String>,
}

/// Addresses from a range.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticAllocation {
    /// The network, such as 192.0.2.0/24.
    #[serde(rename = "ipv4CIDR")]
    #[schemars(regex(pattern = IPV4_CIDR))]
    pub ipv4_cidr: String,
    /// Its gateway.
    pub ipv4_gateway: String,
    /// First address that is handed out. Absent means the first of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4_range_start: Option<String>,
    /// Last address that is handed out. Absent means the last of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4_range_end: Option<String>,
    /// Name servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns: Vec<String>,
    /// VLAN of the network. Absent or 0 means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4094))]
    pub vlan_id: Option<i32>,
    /// How long an address is kept for a Machine that is gone, in seconds. Defaults to 3600.
    #[serde(default = "crate::schema::int::<3600>")]
    #[schemars(range(min = 60))]
    pub ttl_seconds: i32,
}

/// What is known of the network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct NetworkNamespaceStatus {
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
    /// VLAN of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan_id: Option<i32>,
    /// Id of the network where it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_id: Option<String>,
    /// The datacenter that the network is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datacenter_identifier: Option<String>,
    /// The supervisor that the network belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supervisor_identifier: Option<String>,
    /// IPv4 network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4_prefix: Option<String>,
    /// IPv6 network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6_prefix: Option<String>,
    /// IPv4 address under which the network reaches out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4_egress_ip: Option<String>,
    /// IPv6 address under which the network reaches out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6_egress_ip: Option<String>,
    /// Ids of Kubernetes clusters in the network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub associated_kubernetes_cluster_ids: Vec<String>,
    /// Addresses that were handed out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_allocation_status: Option<IpAllocationStatus>,
    /// How often making it was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<i32>,
    /// What is true of it, one entry a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Addresses that were handed out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IpAllocationStatus {
    /// dhcp or static.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<AllocationMethod>,
    /// Who hands them out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// How many there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_count: Option<i32>,
    /// How many are taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_count: Option<i32>,
    /// How many are free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_count: Option<i32>,
    /// Who has which.
    #[serde(rename = "allocatedIPs", skip_serializing_if = "Vec::is_empty")]
    pub allocated_ips: Vec<AllocatedIp>,
}

/// An address and who has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllocatedIp {
    /// The address.
    pub ip: String,
    /// Name of the NetworkConfiguration that has it.
    pub network_configuration: String,
}
