//! What is known of a network.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is known of the network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct VMNetworkAttachmentStatus {
    /// Whether VMs can be connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Where the network stands: Pending, Configuring, Ready or Failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<NetworkPhase>,
    /// One sentence about the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Names of the Providers that have the network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub available_on: Vec<String>,
    /// Number of virtual machines that are connected.
    #[serde(rename = "connectedVMs", skip_serializing_if = "Option::is_none")]
    pub connected_vms: Option<i32>,
    /// Addresses that are given out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ip_allocations: Vec<IpAllocationRecord>,
    /// How the network stands on each Provider, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub provider_status: BTreeMap<String, NetworkProviderStatus>,
    /// What is true of the network, such as Ready, one entry a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = crate::schema::keyed_by_type)]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// An address that is given out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpAllocationRecord {
    /// The address.
    pub ip: String,
    /// Name of the virtual machine that has it.
    pub vm: String,
    /// Hardware address of its interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// When it was given out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_at: Option<Time>,
    /// Until when it is given out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_expiry: Option<Time>,
}

/// How a network stands on one provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkProviderStatus {
    /// Whether VMs can be connected there.
    pub available: bool,
    /// Id of the network on the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// State of the network, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// One sentence about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When this entry changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
}

/// Where a network stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NetworkPhase {
    /// Nothing is known yet.
    #[default]
    Pending,
    /// It is being looked up or made.
    Configuring,
    /// VMs can be connected.
    Ready,
    /// No provider has it.
    Failed,
}
