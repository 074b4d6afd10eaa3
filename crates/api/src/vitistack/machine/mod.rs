//! Machine: a virtual machine, as Viti Stack declares it.

mod cloud_init;
mod disk;
mod domain;
mod network;
mod options;
mod size;
mod status;

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cel::rule;

pub use cloud_init::*;
pub use disk::*;
pub use domain::*;
pub use network::*;
pub use options::*;
pub use size::*;
pub use status::*;

/// What the machine is made of.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vitistack.io",
    version = "v1alpha1",
    kind = "Machine",
    plural = "machines",
    shortname = "m",
    category = "polyvirt",
    category = "virt",
    namespaced,
    status = "MachineStatus",
    derive = "PartialEq",
    doc = "A virtual machine, as Viti Stack declares it.",
    selectable = ".spec.provider",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(
        name = "Public IPs",
        type_ = "string",
        json_path = ".status.publicIPAddresses"
    ),
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.provider"),
    printcolumn(
        name = "Machine Class",
        type_ = "string",
        json_path = ".spec.machineClass"
    ),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".status.kubevirtConfigRef",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.message",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "!has(self.networks) || !has(self.network) || !has(self.network.networkNamespaceName)",
        "Give networks or network.networkNamespaceName, not both",
    ),
]))]
pub struct MachineSpec {
    /// Name for people. Absent means the name of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    /// Kind of provider that runs the machine. Machines of other kinds than kubevirt are left alone. Defaults to kubevirt.
    pub provider: String,
    /// Name of the KubevirtConfig whose cluster gets the VM. Absent means that one is chosen, and written into the annotation
    /// vitistack.io/kubevirt-config.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub kubevirt_config_ref: Option<String>,
    /// A size by name: a MachineClass, or small, medium or large.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub template: Option<String>,
    /// A size by name: a MachineClass, or small, medium or large. Wins over template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// A size by name: a MachineClass. Wins over instanceType and template.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub machine_class: Option<String>,
    /// What the machine is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_type: Option<String>,
    /// CPU and memory; each value given here wins over the size by name, and over cpu and memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<MachineResources>,
    /// CPU; each value given here wins over the size by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<MachineCpu>,
    /// Memory in bytes; wins over the size by name. Absent or 0 means that of the size.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub memory: Option<i64>,
    /// Disks. A disk with the name of one of the template's changes that one; others are added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<MachineDisk>,
    /// Network interfaces, in the order in which the guest sees them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), transform = crate::schema::keyed_by_name)]
    pub networks: Vec<MachineNetwork>,
    /// One network interface in a NetworkNamespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<MachineNetworkConfig>,
    /// What is tried for boot, the first first: disk, network or cdrom.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3), extend("x-kubernetes-list-type" = "set"))]
    pub boot_order: Vec<MachineBootDevice>,
    /// What the guest reads at its first boot to configure itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<Box<MachineCloudInit>>,
    /// User data for cloud-init, where cloudInit has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// SSH keys that may log in to the guest, by cloud-init.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ssh_keys: Vec<String>,
    /// Machine type, features and firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<MachineDomain>,
    /// The operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<MachineOs>,
    /// Settings of other providers; nothing here acts on KubeVirt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<MachineProviderConfig>,
    /// Security groups; they do nothing on KubeVirt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<String>,
    /// Backups; they do nothing on KubeVirt. Use a VMSnapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<MachineBackup>,
    /// Whether the machine is monitored; it does nothing on KubeVirt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<bool>,
    /// Tags of the VM, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

impl Default for MachineSpec {
    fn default() -> Self {
        Self {
            name: None,
            provider: KUBEVIRT.to_owned(),
            kubevirt_config_ref: None,
            template: None,
            instance_type: None,
            machine_class: None,
            machine_type: None,
            resources: None,
            cpu: None,
            memory: None,
            disks: Vec::new(),
            networks: Vec::new(),
            network: None,
            boot_order: Vec::new(),
            cloud_init: None,
            user_data: None,
            ssh_keys: Vec::new(),
            domain: None,
            os: None,
            provider_config: None,
            security_groups: Vec::new(),
            backup: None,
            monitoring: None,
            tags: BTreeMap::new(),
        }
    }
}

const KUBEVIRT: &str = "kubevirt";

impl MachineSpec {
    /// Whether the machine is to run on KubeVirt, and so is ours to look after.
    pub fn is_for_kubevirt(&self) -> bool {
        matches!(self.provider.as_str(), "" | KUBEVIRT)
    }
}
