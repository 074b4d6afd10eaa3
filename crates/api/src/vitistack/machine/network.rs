//! Network interfaces of a Machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{LABEL, MAC};

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineNetwork {
    /// Name of the interface, unique in the machine.
    #[schemars(length(max = 63), regex(pattern = LABEL))]
    pub name: String,
    /// The NetworkConfiguration that says which network it is. Absent means the network of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub network_name: Option<String>,
    /// Model of the card: virtio, e1000, e1000e, rtl8139, ne2k_pci or pcnet. Absent means virtio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<MachineNicModel>,
    /// Hardware address. Absent means one that is made from the UID of the machine and never changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = MAC))]
    pub mac_address: Option<String>,
}

/// Model of a network card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MachineNicModel {
    /// Made for virtual machines.
    #[default]
    #[serde(rename = "virtio")]
    Virtio,
    /// An Intel card of 2000.
    #[serde(rename = "e1000")]
    E1000,
    /// An Intel card of 2009.
    #[serde(rename = "e1000e")]
    E1000e,
    /// A Realtek card.
    #[serde(rename = "rtl8139")]
    Rtl8139,
    /// A card of 1989.
    #[serde(rename = "ne2k_pci")]
    Ne2kPci,
    /// An AMD card.
    #[serde(rename = "pcnet")]
    Pcnet,
}

impl MachineNicModel {
    /// The word on the hypervisor.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Virtio => "virtio",
            Self::E1000 => "e1000",
            Self::E1000e => "e1000e",
            Self::Rtl8139 => "rtl8139",
            Self::Ne2kPci => "ne2k_pci",
            Self::Pcnet => "pcnet",
        }
    }
}

/// One network interface in a NetworkNamespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineNetworkConfig {
    /// The NetworkNamespace that says which network it is. Absent means the network of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_namespace_name: Option<String>,
    /// Interfaces by name; the first gives the one interface its name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<MachineInterface>,
    /// Whether the machine gets a public address; it does nothing on KubeVirt.
    #[serde(rename = "assignPublicIP", skip_serializing_if = "Option::is_none")]
    pub assign_public_ip: Option<bool>,
    /// Private address; it does nothing on KubeVirt.
    #[serde(rename = "privateIP", skip_serializing_if = "Option::is_none")]
    pub private_ip: Option<String>,
    /// Public address; it does nothing on KubeVirt.
    #[serde(rename = "publicIP", skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<String>,
    /// Subnet; it does nothing on KubeVirt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// Virtual private cloud; it does nothing on KubeVirt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpc: Option<String>,
}

/// An interface of other providers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineInterface {
    /// Name of the interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it is the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<bool>,
    /// Security groups; they do nothing on KubeVirt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<String>,
    /// Subnet; it does nothing on KubeVirt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
}
