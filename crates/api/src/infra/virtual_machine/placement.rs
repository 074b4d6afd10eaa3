//! Where a VM is to go, and where it was put.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Affinity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A place on the provider. The words follow vSphere; other providers map them to their nearest
/// thing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Placement {
    /// Cluster of hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// One host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Datastore or storage pool of the disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datastore: Option<String>,
    /// Group of datastores, from which the provider picks one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_pod: Option<String>,
    /// Folder that holds the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Resource pool that the VM draws from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_pool: Option<String>,
    /// Labels that the host must carry. It counts when the VM is made, not afterwards.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    pub node_selector: BTreeMap<String, String>,
    /// Which hosts, and which VMs, the VM must or should be near to or away from: nodeAffinity
    /// matches labels of hosts, podAffinity and podAntiAffinity match labels of VirtualMachines.
    /// It counts when the VM is made, not afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Box<Affinity>>,
}

/// A device of the host that is passed to the VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceRequest {
    /// Name of the request, unique in the VM.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// What it is: gpu, or sriov for a virtual function of a network card. Absent means any
    /// device that vendor and model match.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<DeviceType>,
    /// Who makes it, such as nvidia or nvidia.com. Absent means anybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub vendor: Option<String>,
    /// Its model, such as tesla-t4; for sriov the network that the card is on. Absent means any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub model: Option<String>,
    /// How many. Defaults to 1.
    #[serde(default = "crate::schema::int::<1>")]
    #[schemars(range(min = 1, max = 16))]
    pub count: i32,
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceType {
    /// A graphics or compute card, or a part of one.
    Gpu,
    /// A virtual function of a network card.
    Sriov,
}

/// Where the scheduler put the VM, written before the VM is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlacementStatus {
    /// The host that was chosen. Absent while there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The generation of the spec that it was chosen for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The datastore that was chosen. Absent where the provider chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datastore: Option<String>,
    /// Devices of the host that are the VM's, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub devices: BTreeMap<String, i32>,
    /// CPUs that were set aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<i32>,
    /// Memory that was set aside, in MiB.
    #[serde(rename = "memoryMiB", skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<i64>,
    /// Disk space that was set aside, in GiB.
    #[serde(rename = "diskGiB", skip_serializing_if = "Option::is_none")]
    pub disk_gib: Option<i64>,
    /// The HostPool of the chosen host. Absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// A host that the VM is about to be created on or migrates to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_host: Option<String>,
    /// What is reserved on pendingHost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_resources: Option<PendingResources>,
    /// The most memory that the VM can take without a restart, in MiB, where the provider reports it.
    #[serde(rename = "memoryCeilingMiB", skip_serializing_if = "Option::is_none")]
    pub memory_ceiling_mib: Option<i64>,
    /// Hosts that turned out to be unable to take the VM.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excluded_hosts: Vec<String>,
    /// When the host was last chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scheduled_time: Option<Time>,
    /// Why there is no host, as one word. Absent where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Why this host, or why none, in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// What was found out about each host, the first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), transform = crate::schema::keyed_by_name)]
    pub hosts: Vec<HostVerdict>,
}

/// CPU and memory that are reserved for a VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PendingResources {
    /// Number of CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<i32>,
    /// Memory in MiB.
    #[serde(rename = "memoryMiB", skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<i64>,
}

/// Whether a host can take the VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostVerdict {
    /// Name of the host.
    pub name: String,
    /// Whether it can.
    pub fits: bool,
    /// How good it is, or what is against it.
    pub message: String,
}
