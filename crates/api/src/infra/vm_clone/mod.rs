//! VMClone: a VM made from another.

mod customization;
mod status;

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::GoDuration;
use crate::cel::exactly_one;
use crate::infra::{DiskSpec, DiskType, Environment, LocalRef, ObjectRef, RetryPolicy, VMNetwork};
use crate::schema::{LABEL, NAME};

pub use customization::*;
pub use status::*;

const FIXED_ONCE_BEGUN: &str = "!has(oldSelf.status) || !has(oldSelf.status.startTime) \
    || self.spec.source == oldSelf.spec.source && self.spec.target == oldSelf.spec.target";

/// A virtual machine to make from another one, a snapshot, a template or an image.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VMClone",
    plural = "vmclones",
    shortname = "vmclone",
    category = "polyvirt",
    category = "virt",
    namespaced,
    status = "VMCloneStatus",
    derive = "PartialEq",
    doc = "A copy of a virtual machine, a snapshot, a template or an image.",
    validation = Rule::new(FIXED_ONCE_BEGUN)
        .message("The clone has begun: make another VMClone"),
    printcolumn(name = "Source", type_ = "string", json_path = ".spec.source.*.name"),
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.target.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Clone Type",
        type_ = "string",
        json_path = ".status.actualCloneType"
    ),
    printcolumn(
        name = "Progress",
        type_ = "string",
        json_path = ".status.progress.overallPercentage"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct VMCloneSpec {
    /// What to copy; exactly one source.
    pub source: CloneSource,
    /// The VirtualMachine to make.
    pub target: CloneTarget,
    /// How to copy. Absent means all defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<CloneOptions>,
    /// What to change in the guest of the copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customization: Option<Box<GuestCustomization>>,
    /// What people should know of the clone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<CloneMetadata>,
}

/// What to copy. Give exactly one member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    exactly_one(&["vmRef", "snapshotRef", "templateRef", "imageRef"]),
]))]
pub struct CloneSource {
    /// A VirtualMachine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_ref: Option<LocalRef>,
    /// A VMSnapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_ref: Option<LocalRef>,
    /// A template: a VMImage that stands for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<ObjectRef>,
    /// A VMImage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_ref: Option<ObjectRef>,
}

/// The VirtualMachine that a clone makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneTarget {
    /// Name of the VirtualMachine.
    #[schemars(length(max = 253), regex(pattern = NAME))]
    pub name: String,
    /// Namespace of the VirtualMachine. Absent means that of this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = LABEL))]
    pub namespace: Option<String>,
    /// The Provider to put it on. Absent means that of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<ObjectRef>,
    /// The VMClass of the copy. Absent means that of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_ref: Option<LocalRef>,
    /// The VMPlacementPolicy of the copy. Absent means that of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_ref: Option<LocalRef>,
    /// Network interfaces of the copy. Absent means those of the source, without its addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), transform = crate::schema::keyed_by_name)]
    pub networks: Vec<VMNetwork>,
    /// Disks of the copy, to make them larger or put them elsewhere. Absent means those of the
    /// source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), transform = crate::schema::keyed_by_name)]
    pub disks: Vec<DiskSpec>,
    /// Labels of the VirtualMachine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the VirtualMachine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub annotations: BTreeMap<String, String>,
}

/// How to copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CloneOptions {
    /// How disks are copied: FullClone (all of them), LinkedClone (only what changes) or
    /// InstantClone (with memory, from a running VM). Defaults to FullClone.
    #[serde(rename = "type")]
    pub type_: CloneType,
    /// Whether the copy is started. Defaults to false.
    pub power_on: bool,
    /// Whether the snapshots of the source are copied, too. Defaults to false.
    pub include_snapshots: bool,
    /// Whether several disks are copied at once. Defaults to false.
    pub parallel: bool,
    /// How long the copy may take. Defaults to 30m.
    pub timeout: GoDuration,
    /// What happens after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    /// Where and how disks are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<CloneStorage>,
    /// How much of the hypervisor the copy may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub performance: Option<ClonePerformance>,
}

impl Default for CloneOptions {
    fn default() -> Self {
        Self {
            type_: CloneType::default(),
            power_on: false,
            include_snapshots: false,
            parallel: false,
            timeout: GoDuration::literal("30m"),
            retry_policy: None,
            storage: None,
            performance: None,
        }
    }
}

/// Where and how the disks of a clone are stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CloneStorage {
    /// Datastore or storage pool. Absent means that of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub datastore: Option<String>,
    /// Folder. Absent means that of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub folder: Option<String>,
    /// Storage class or policy, as the provider names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
    /// How the space is provided: thin, thick, eagerzeroedthick, ssd, hdd or nvme. Absent means
    /// as the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_format: Option<DiskType>,
    /// Whether to take space only as it is written, where diskFormat is absent. Defaults to
    /// true.
    pub prefer_thin_provisioning: bool,
    /// Whether to compress the copy on its way. Defaults to false.
    pub enable_compression: bool,
}

impl Default for CloneStorage {
    fn default() -> Self {
        Self {
            datastore: None,
            folder: None,
            storage_class: None,
            disk_format: None,
            prefer_thin_provisioning: true,
            enable_compression: false,
        }
    }
}

/// How much of the hypervisor a clone may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClonePerformance {
    /// Importance against other work: Low, Normal or High. Defaults to Normal.
    pub priority: ClonePriority,
    /// Disks that are copied at once, where parallel is set. Defaults to 2.
    #[schemars(range(min = 1, max = 10))]
    pub concurrent_disks: i32,
    /// Whether maxIOPS applies. Defaults to false.
    pub io_throttling: bool,
    /// The most I/O operations a second.
    #[serde(rename = "maxIOPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 100_000))]
    pub max_iops: Option<i32>,
}

impl Default for ClonePerformance {
    fn default() -> Self {
        Self {
            priority: ClonePriority::default(),
            concurrent_disks: 2,
            io_throttling: false,
            max_iops: None,
        }
    }
}

/// What people should know of a clone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CloneMetadata {
    /// What the copy is for: backup, testing, migration, development, production or staging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<ClonePurpose>,
    /// What the copy is used for: dev, staging, prod, test, qa or uat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// The project that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub project: Option<String>,
    /// Who asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub created_by: Option<String>,
    /// Tags by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub tags: BTreeMap<String, String>,
}

/// How the disks of a clone are copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::enum_in_all_of)]
pub enum CloneType {
    /// All of them.
    #[default]
    FullClone,
    /// Only what changes; the rest is shared with the source.
    LinkedClone,
    /// With memory, from a running VM.
    InstantClone,
}

/// Importance of a clone against other work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClonePriority {
    /// Later than other work.
    Low,
    /// Like other work.
    #[default]
    Normal,
    /// Before other work.
    High,
}

/// What a clone is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClonePurpose {
    /// To restore data.
    Backup,
    /// For a test.
    Testing,
    /// For a migration.
    Migration,
    /// For development.
    Development,
    /// For production.
    Production,
    /// For a rehearsal.
    Staging,
}
