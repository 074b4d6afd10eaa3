//! A network on libvirt, QEMU and Proxmox VE.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A network on libvirt and QEMU. Give networkName or bridge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LibvirtNetwork {
    /// Name of a libvirt network.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub network_name: Option<String>,
    /// A bridge of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bridge: Option<BridgeConfig>,
    /// Model of the adapter: virtio, e1000, e1000e, rtl8139, pcnet or ne2k_pci. Defaults to
    /// virtio.
    pub model: LibvirtNicModel,
    /// Tuning of a virtio adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<NicDriver>,
    /// A filter of libvirt for the traffic of the adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_ref: Option<NetworkFilterRef>,
}

/// A bridge of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BridgeConfig {
    /// Name of the bridge.
    #[schemars(length(max = 15))]
    pub name: String,
    /// Whether the bridge takes part in the spanning tree. Defaults to false.
    #[serde(default)]
    pub stp: bool,
    /// Seconds before a new port forwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 30))]
    pub delay: Option<i32>,
}

/// Tuning of a virtio adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NicDriver {
    /// What drives the adapter: kvm, vfio or uio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<NicDriverName>,
    /// Number of queue pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16))]
    pub queues: Option<i32>,
    /// Who sends packets: iothread or timer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_mode: Option<TxMode>,
    /// Whether the guest wakes the host by an event instead of an exit.
    #[serde(rename = "ioEventFD", skip_serializing_if = "Option::is_none")]
    pub io_event_fd: Option<bool>,
    /// Whether guest and host spare each other needless wake-ups.
    #[serde(rename = "eventIDX", skip_serializing_if = "Option::is_none")]
    pub event_idx: Option<bool>,
}

/// A filter of libvirt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkFilterRef {
    /// Name of the filter.
    #[schemars(length(max = 255))]
    pub filter: String,
    /// Parameters of the filter by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    pub parameters: BTreeMap<String, String>,
}

/// A network on Proxmox VE.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProxmoxNetwork {
    /// Bridge of the node, such as vmbr0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 15), regex(pattern = "^vmbr[0-9]+$"))]
    pub bridge: Option<String>,
    /// Model of the adapter: virtio, e1000, rtl8139 or vmxnet3. Defaults to virtio.
    pub model: ProxmoxNicModel,
    /// The VLAN.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094))]
    pub vlan_tag: Option<i32>,
    /// Whether the firewall of Proxmox VE guards the adapter. Defaults to false.
    pub firewall: bool,
    /// The most that the adapter carries, in megabytes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub rate_limit: Option<i32>,
    /// Largest packet in bytes. Absent means that of the bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 68, max = 65_520))]
    pub mtu: Option<i32>,
}

/// Model of a network adapter on libvirt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LibvirtNicModel {
    /// Paravirtual.
    #[default]
    Virtio,
    /// Intel 82540.
    E1000,
    /// Intel 82574.
    E1000e,
    /// Realtek 8139.
    Rtl8139,
    /// AMD PCnet.
    Pcnet,
    /// NE2000.
    #[serde(rename = "ne2k_pci")]
    Ne2kPci,
}

/// Model of a network adapter on Proxmox VE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProxmoxNicModel {
    /// Paravirtual.
    #[default]
    Virtio,
    /// Intel 82540.
    E1000,
    /// Realtek 8139.
    Rtl8139,
    /// Paravirtual, of VMware.
    Vmxnet3,
}

/// What drives an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NicDriverName {
    /// The kernel.
    Kvm,
    /// Passed-through hardware.
    Vfio,
    /// A driver in user space.
    Uio,
}

/// Who sends the packets of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TxMode {
    /// A thread of its own.
    Iothread,
    /// A timer that collects them.
    Timer,
}
