//! VirtualMachine: a virtual machine, as NovaCron declares it.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    MigrationPolicy, SnapshotPolicy, UpdateStrategy, VirtualMachineStatus, VirtualMachineTemplate,
};

/// What the virtual machine is made of, and whether it runs.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "novacron.io",
    version = "v1alpha1",
    kind = "VirtualMachine",
    plural = "virtualmachines",
    shortname = "vm",
    shortname = "vms",
    category = "polyvirt",
    category = "virt",
    namespaced,
    status = "VirtualMachineStatus",
    derive = "PartialEq",
    doc = "A virtual machine, as NovaCron declares it.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(name = "IP", type_ = "string", json_path = ".status.ipAddresses[0]"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct VirtualMachineSpec {
    /// Whether the VM runs. Defaults to false: the VM is made, and stays off.
    #[serde(default)]
    pub running: bool,
    /// What the VM is made of.
    pub template: VirtualMachineTemplate,
    /// Whether and how the VM may move between nodes while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration_policy: Option<MigrationPolicy>,
    /// When snapshots are taken, and how many are kept. Absent means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_policy: Option<SnapshotPolicy>,
    /// How a change is brought to a VM that runs. Absent means that it waits for the next restart
    /// where it cannot be made at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
}
