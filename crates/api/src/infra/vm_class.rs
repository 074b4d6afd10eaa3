//! VMClass: the shape that virtual machines share.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cel::rule;
use crate::infra::{DiskType, KeyProvider};

/// The shape that virtual machines of this class share.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VMClass",
    plural = "vmclasses",
    shortname = "vmclass",
    category = "polyvirt",
    category = "virt",
    namespaced,
    status = "VMClassStatus",
    derive = "PartialEq",
    doc = "A shape that virtual machines share: CPU, memory, firmware and more.",
    printcolumn(name = "CPU", type_ = "integer", json_path = ".spec.cpu"),
    printcolumn(name = "Memory", type_ = "string", json_path = ".spec.memory"),
    printcolumn(name = "Firmware", type_ = "string", json_path = ".spec.firmware"),
    printcolumn(name = "Used By", type_ = "integer", json_path = ".status.usedByVMs"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::kubernetes_style)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "(type(self.memory) != int && !isQuantity(self.memory)) \
         || (type(self.memory) == int ? quantity(string(self.memory)) \
         : quantity(self.memory)).compareTo(quantity('1Mi')) >= 0",
        "Memory must be at least 1Mi: write it with its unit, such as 4Gi",
    ),
]))]
pub struct VMClassSpec {
    /// Number of virtual CPUs.
    #[schemars(range(min = 1, max = 128))]
    pub cpu: i32,
    /// Memory, such as 4Gi.
    #[schemars(schema_with = "crate::schema::size")]
    pub memory: Quantity,
    /// What boots the VM: BIOS, UEFI or EFI (the same as UEFI). Defaults to BIOS.
    #[serde(default)]
    pub firmware: Firmware,
    /// How the system disk is made where the VM says nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_defaults: Option<DiskDefaults>,
    /// What to do about the guest tools or agent: install, skip, upgrade or uninstall. Defaults
    /// to install.
    #[serde(default)]
    pub guest_tools_policy: GuestToolsPolicy,
    /// Settings passed to the provider as they are, by its own names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub extra_config: BTreeMap<String, String>,
    /// How much of the host the VM may use, and how much is kept free for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_limits: Option<ResourceLimits>,
    /// Trade-offs between speed, density and later changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub performance_profile: Option<PerformanceProfile>,
    /// Secure boot, TPM and encryption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_profile: Option<SecurityProfile>,
    /// Namespaces beside its own whose objects may use this VMClass. Absent means none (all with the manager's flag
    /// --sharing=open); an empty selector means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_namespace_selector: Option<LabelSelector>,
}

/// How the system disk is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskDefaults {
    /// How the space is provided: thin, thick, eagerzeroedthick, ssd, hdd or nvme. Defaults to
    /// thin.
    #[serde(rename = "type")]
    pub type_: DiskType,
    /// Least size; an image that is larger keeps its own. Defaults to 40Gi.
    #[schemars(schema_with = "crate::schema::quantity")]
    pub size: Quantity,
    /// Storage class or policy, as the provider names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
    /// Limit of I/O operations a second. Absent means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 100_000))]
    pub iops: Option<i32>,
}

impl Default for DiskDefaults {
    fn default() -> Self {
        Self {
            type_: DiskType::default(),
            size: Quantity("40Gi".to_owned()),
            storage_class: None,
            iops: None,
        }
    }
}

/// Share of the host that a VM gets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "!has(self.cpuLimit) || !has(self.cpuReservation) || self.cpuReservation <= self.cpuLimit",
        "cpuReservation must not be above cpuLimit",
    ),
]))]
pub struct ResourceLimits {
    /// The most CPU in MHz. Absent means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 100_000))]
    pub cpu_limit: Option<i32>,
    /// CPU in MHz that is kept free for the VM. Absent means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub cpu_reservation: Option<i32>,
    /// Weight against other VMs when CPU is short.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub cpu_shares: Option<i32>,
    /// The most host memory, such as 8Gi. Absent means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub memory_limit: Option<Quantity>,
    /// Host memory that is kept free for the VM. Absent means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub memory_reservation: Option<Quantity>,
}

/// Trade-offs between speed, density and later changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PerformanceProfile {
    /// Whether CPUs can be added while the VM runs. Defaults to false.
    pub cpu_hot_add_enabled: bool,
    /// Whether memory can be added while the VM runs. Defaults to false.
    pub memory_hot_add_enabled: bool,
    /// Whether the guest may run VMs itself. Defaults to false.
    pub nested_virtualization: bool,
    /// Whether the guest may isolate its secrets by virtualization. Defaults to false.
    pub virtualization_based_security: bool,
    /// How much delay the VM bears: low, normal or high. Defaults to normal.
    pub latency_sensitivity: LatencySensitivity,
    /// Whether virtual CPUs may share a core: auto, prefer, avoid or require. Defaults to auto.
    pub hyper_threading_policy: HyperThreadingPolicy,
}

/// Secure boot, TPM and encryption.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SecurityProfile {
    /// Whether only signed boot code runs; needs UEFI. Defaults to false.
    pub secure_boot: bool,
    /// Whether the VM has a virtual TPM. Defaults to false.
    pub tpm_enabled: bool,
    /// Version of the TPM: 1.2, 2 or 2.0. Absent means 2.0 where a TPM is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpm_version: Option<TpmVersion>,
    /// Whether the VM has a virtual IOMMU. Defaults to false.
    pub vtd_enabled: bool,
    /// Whether the disks of the VM are encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption_policy: Option<EncryptionPolicy>,
}

/// Encryption of the disks of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EncryptionPolicy {
    /// Whether to encrypt where the provider can. Defaults to false.
    pub enabled: bool,
    /// Where the keys come from: standard, hardware or external.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_provider: Option<KeyProvider>,
    /// Whether to refuse a provider that cannot encrypt. Defaults to false.
    pub require_encryption: bool,
}

/// What boots a VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::enum_in_all_of)]
pub enum Firmware {
    /// A PC BIOS.
    #[serde(rename = "BIOS")]
    #[default]
    Bios,
    /// UEFI.
    #[serde(rename = "UEFI")]
    Uefi,
    /// Another word for UEFI.
    #[serde(rename = "EFI")]
    Efi,
}

/// What to do about the guest tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GuestToolsPolicy {
    /// Install them where they are missing.
    #[default]
    Install,
    /// Leave them as they are.
    Skip,
    /// Install or upgrade them.
    Upgrade,
    /// Remove them.
    Uninstall,
}

/// How much delay a VM bears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LatencySensitivity {
    /// Much.
    Low,
    /// The usual amount.
    #[default]
    Normal,
    /// Little: the VM gets CPU and memory of its own.
    High,
}

/// Whether the virtual CPUs of a VM may share a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HyperThreadingPolicy {
    /// The host decides.
    #[default]
    Auto,
    /// Rather yes.
    Prefer,
    /// Rather not.
    Avoid,
    /// Always.
    Require,
}

/// Version of a TPM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TpmVersion {
    /// TPM 1.2.
    #[serde(rename = "1.2")]
    V1_2,
    /// TPM 2.0, written short.
    #[serde(rename = "2")]
    V2,
    /// TPM 2.0.
    #[serde(rename = "2.0")]
    V2_0,
}

/// What is known of the class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct VMClassStatus {
    /// Number of virtual machines that use the class.
    #[serde(rename = "usedByVMs", skip_serializing_if = "Option::is_none")]
    pub used_by_vms: Option<i32>,
    /// Names of the Providers that can run VMs of this class.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported_providers: Vec<String>,
    /// Whether each Provider can run VMs of this class, by the name of the Provider.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub validation_results: BTreeMap<String, ClassValidation>,
    /// What is true of the class, such as Ready, one entry a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = crate::schema::keyed_by_type)]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Whether one Provider can run VMs of a class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassValidation {
    /// Whether it can.
    pub valid: bool,
    /// Why it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it would not honour.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// When this was found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_validated: Option<Time>,
}
