//! A network on vSphere.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cel::rule;

/// A network on vSphere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VsphereNetwork {
    /// Name of the port group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub portgroup: Option<String>,
    /// The distributed switch that has the port group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distributed_switch: Option<DistributedSwitch>,
    /// VLANs of the port group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<VlanConfig>,
    /// Model of the adapter: vmxnet3, e1000 or e1000e. Defaults to vmxnet3.
    pub adapter_type: VsphereAdapter,
    /// PCI slot of the adapter, which decides the order in the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 32, max = 1024))]
    pub pci_slot_number: Option<i32>,
    /// What the port group lets guests do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<PortgroupSecurity>,
    /// Bandwidth of each port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_shaping: Option<TrafficShaping>,
}

/// A distributed switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DistributedSwitch {
    /// Name of the switch.
    #[schemars(length(max = 255))]
    pub name: String,
    /// UUID of the switch, where the name is not unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// How ports are bound: ephemeral or distributed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub portgroup_type: Option<PortgroupType>,
}

/// VLANs of a port group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "self.type != 'vlan' || has(self.vlanID)",
        "Type vlan needs vlanID",
    ),
    rule(
        "self.type != 'pvlan' || has(self.primaryVlanID) && has(self.secondaryVlanID)",
        "Type pvlan needs primaryVlanID and secondaryVlanID",
    ),
    rule(
        "self.type != 'trunk' || has(self.trunkVlanIDs)",
        "Type trunk needs trunkVlanIDs",
    ),
    rule(
        "!has(self.trunkVlanIDs) || self.trunkVlanIDs.all(id, id >= 0 && id <= 4094)",
        "A VLAN is a number from 0 to 4094",
    ),
]))]
pub struct VlanConfig {
    /// How packets are tagged: none, vlan, pvlan or trunk. Defaults to none.
    #[serde(rename = "type")]
    pub type_: VlanType,
    /// The VLAN, for type vlan.
    #[serde(rename = "vlanID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094))]
    pub vlan_id: Option<i32>,
    /// The primary VLAN, for type pvlan.
    #[serde(rename = "primaryVlanID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094))]
    pub primary_vlan_id: Option<i32>,
    /// The secondary VLAN, for type pvlan.
    #[serde(rename = "secondaryVlanID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094))]
    pub secondary_vlan_id: Option<i32>,
    /// The VLANs that guests may tag themselves, for type trunk.
    #[serde(rename = "trunkVlanIDs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub trunk_vlan_ids: Vec<i32>,
}

/// What a port group lets guests do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PortgroupSecurity {
    /// Whether a guest may listen to packets of others. Defaults to false.
    pub allow_promiscuous: bool,
    /// Whether a guest may change its hardware address. Defaults to true.
    #[serde(rename = "allowMACChanges")]
    pub allow_mac_changes: bool,
    /// Whether a guest may send under another hardware address. Defaults to true.
    pub allow_forged_transmits: bool,
}

impl Default for PortgroupSecurity {
    fn default() -> Self {
        Self {
            allow_promiscuous: false,
            allow_mac_changes: true,
            allow_forged_transmits: true,
        }
    }
}

/// Bandwidth of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "!has(self.peakBandwidth) || !has(self.averageBandwidth) \
         || self.averageBandwidth <= self.peakBandwidth",
        "averageBandwidth must not be above peakBandwidth",
    ),
]))]
pub struct TrafficShaping {
    /// Whether bandwidth is limited. Defaults to false.
    pub enabled: bool,
    /// Bits a second, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000))]
    pub average_bandwidth: Option<i64>,
    /// Bits a second, during a burst.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000))]
    pub peak_bandwidth: Option<i64>,
    /// Largest burst in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1024))]
    pub burst_size: Option<i64>,
}

/// Model of a network adapter on vSphere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VsphereAdapter {
    /// Paravirtual.
    #[default]
    Vmxnet3,
    /// Intel 82545.
    E1000,
    /// Intel 82574.
    E1000e,
}

/// How the ports of a port group are bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PortgroupType {
    /// When a VM runs.
    Ephemeral,
    /// When a VM is connected.
    Distributed,
}

/// How packets are tagged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VlanType {
    /// Not at all.
    #[default]
    None,
    /// With one VLAN.
    Vlan,
    /// With a private VLAN.
    Pvlan,
    /// By the guest.
    Trunk,
}
