//! VMNetworkAttachment: a network that VMs can be connected to.

mod ip;
mod libvirt;
mod security;
mod status;
mod vsphere;

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::infra::Environment;

pub use ip::*;
pub use libvirt::*;
pub use security::*;
pub use status::*;
pub use vsphere::*;

/// A network that virtual machines can be connected to.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VMNetworkAttachment",
    plural = "vmnetworkattachments",
    shortname = "vmnet",
    category = "polyvirt",
    category = "virt",
    namespaced,
    status = "VMNetworkAttachmentStatus",
    derive = "PartialEq",
    doc = "A network that virtual machines can be connected to.",
    printcolumn(name = "Ready", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.network.type"),
    printcolumn(
        name = "Connected VMs",
        type_ = "integer",
        json_path = ".status.connectedVMs"
    ),
    printcolumn(
        name = "Providers",
        type_ = "string",
        json_path = ".status.availableOn"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct VMNetworkAttachmentSpec {
    /// What the network is on each kind of provider.
    pub network: NetworkConfig,
    /// How guests get their addresses. Absent means DHCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_allocation: Option<IpAllocation>,
    /// Firewall, isolation and encryption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<Box<NetworkSecurity>>,
    /// Bandwidth and priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<NetworkQos>,
    /// What people should know of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<NetworkMetadata>,
}

/// What the network is on each kind of provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkConfig {
    /// How the network meets the world: bridged, nat, isolated, host-only or external. Defaults
    /// to bridged.
    #[serde(rename = "type")]
    pub type_: NetworkType,
    /// Largest packet in bytes. Defaults to 1500.
    #[schemars(range(min = 68, max = 9000))]
    pub mtu: i32,
    /// The network on vSphere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<Box<VsphereNetwork>>,
    /// The network on libvirt and QEMU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub libvirt: Option<Box<LibvirtNetwork>>,
    /// The network on Proxmox VE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxmox: Option<ProxmoxNetwork>,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            type_: NetworkType::default(),
            mtu: 1500,
            vsphere: None,
            libvirt: None,
            proxmox: None,
        }
    }
}

/// How a network meets the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(transform = crate::schema::enum_in_all_of)]
pub enum NetworkType {
    /// Guests are on the network of the host.
    #[default]
    Bridged,
    /// Guests reach out through the host.
    Nat,
    /// Guests reach each other only.
    Isolated,
    /// Guests reach each other and the host.
    HostOnly,
    /// Guests are on a network outside the hypervisor.
    External,
}

/// Bandwidth and priority of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkQos {
    /// The most that a guest receives, in bits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000))]
    pub ingress_limit: Option<i64>,
    /// The most that a guest sends, in bits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000))]
    pub egress_limit: Option<i64>,
    /// Priority of its packets (802.1p), 7 being the highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 7))]
    pub priority: Option<i32>,
    /// Mark of its packets (DSCP).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 63))]
    pub dscp: Option<i32>,
}

/// What people should know of a network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkMetadata {
    /// Name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub display_name: Option<String>,
    /// What the network is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// What it is used for: dev, staging, prod, test, qa or uat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// Tags by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub tags: BTreeMap<String, String>,
}
