//! What a VM is made of.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Affinity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Lifecycle, NetworkSpec};
use crate::cel::rule;

/// What a VM is made of, with the labels that it gets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineTemplate {
    /// Labels and annotations of the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// What the VM is made of.
    pub spec: Box<VmSpec>,
}

/// Labels and annotations of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateMetadata {
    /// Labels by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What a VM is made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VmSpec {
    /// CPU, memory and the size of the first disk.
    pub resources: Resources,
    /// What the first disk is made from.
    pub image: Image,
    /// Network interfaces, in the order in which the guest sees them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkSpec>,
    /// Disks beside the first one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// Devices of the node that are given to the VM.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// What the guest reads at its first boot: cloud-init, or Ignition as JSON. Do not put
    /// passwords here: whoever may read this object reads them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// Labels that the node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Which nodes and neighbours the VM wants or avoids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Box<Affinity>>,
    /// What is done around start and stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Box<Lifecycle>>,
}

/// CPU, memory and the size of the first disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Number of virtual CPUs.
    #[schemars(extend("x-kubernetes-validations" = [
        rule("self >= 1", "A VM needs a CPU: write 1 or more"),
    ]))]
    pub cpu: i32,
    /// Memory, such as 4Gi.
    pub memory: String,
    /// Size of the first disk, such as 50Gi. An image that is larger keeps its own size.
    pub disk: String,
}

/// What the first disk is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// Where the image is: marketplace://name, http:// or https://, pvc://namespace/name,
    /// registry:// or docker://, or the name of a VMImage.
    pub source: String,
    /// When the image is fetched: IfNotPresent, Always or Never. Absent means IfNotPresent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<String>,
}

/// A disk beside the first one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Name of the disk, unique in the VM.
    pub name: String,
    /// Size, such as 100Gi. It can grow, never shrink.
    pub size: String,
    /// Storage class or policy, as the provider names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// Who may use the disk: ReadWriteOnce, ReadWriteMany or ReadOnlyMany. Absent means
    /// ReadWriteOnce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<String>,
}

/// Devices of one kind that are given to the VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Kind of device, such as gpu.
    #[serde(rename = "type")]
    pub type_: String,
    /// Who makes it, such as nvidia.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Which one, such as tesla-t4. Absent means any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many. Defaults to 1.
    #[serde(default = "crate::schema::int::<1>")]
    pub count: i32,
}
