//! What is known of a Machine.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is known of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct MachineStatus {
    /// Where the machine stands: Pending, Creating, Running, Stopping, Stopped, Terminating, Terminated or Failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// How the hypervisor calls the state of the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// One sentence about the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Why the machine failed, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Why the machine failed, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// What is true of the machine, one entry a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MachineCondition>,
    /// Name of the VirtualMachine in its cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_name: Option<String>,
    /// Name of the VirtualMachineInstance in its cluster, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vmi_name: Option<String>,
    /// The KubevirtConfig whose cluster has, or gets, the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubevirt_config_ref: Option<String>,
    /// Name of the node that runs the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// All addresses of the guest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses: Vec<String>,
    /// IPv6 addresses of the guest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ipv6_addresses: Vec<String>,
    /// Addresses on the interfaces of the machine.
    #[serde(rename = "publicIPAddresses", skip_serializing_if = "Vec::is_empty")]
    pub public_ip_addresses: Vec<String>,
    /// Other addresses in the guest.
    #[serde(rename = "privateIPAddresses", skip_serializing_if = "Vec::is_empty")]
    pub private_ip_addresses: Vec<String>,
    /// Network interfaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network_interfaces: Vec<MachineInterfaceStatus>,
    /// Disks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<MachineDiskStatus>,
    /// Number of CPUs that the guest sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<i64>,
    /// Memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i64>,
    /// Processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Name of the guest in its network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Operating system of the guest, where its agent tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operating_system: Option<String>,
    /// Version of that system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operating_system_version: Option<String>,
    /// Version of its kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_version: Option<String>,
    /// Kind of provider that runs the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Where the VM is: kubevirt://config/namespace/name.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Id of the VM on its provider.
    #[serde(rename = "machineID", skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// Region of the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Zone of the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// When the VM was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    /// When the guest booted last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_time: Option<Time>,
    /// When this status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// The version of the VirtualMachine that this status was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Something that is true, or not, of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineCondition {
    /// What: Ready, VirtualMachineReady, StorageReady, NetworkReady or InfrastructureReady.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, and what to do.
    pub message: String,
    /// When status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// A network interface as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineInterfaceStatus {
    /// Name of the interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Hardware address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// IPv4 addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses: Vec<String>,
    /// IPv6 addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ipv6_addresses: Vec<String>,
    /// Largest packet in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// How it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Model of the card.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
}

/// A disk as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDiskStatus {
    /// Name of the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of its claim in the cluster of the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc_name: Option<String>,
    /// Size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// Who may use the claim.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<String>,
    /// Filesystem or Block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<String>,
    /// How it is attached.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Name of the device in the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// File system on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem_type: Option<String>,
    /// Label of that file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Where it is mounted in the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_point: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial_number: Option<String>,
    /// UUID of its file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Bytes in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<i64>,
    /// Bytes that are free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<i64>,
    /// Part in use, such as 42%.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_percent: Option<String>,
}
