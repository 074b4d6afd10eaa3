//! VMMigration: a move of a VM to another host of its provider, or to another provider.

mod live;
mod status;
mod storage;

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::GoDuration;
use crate::cel::rule;
use crate::infra::{
    DiskFormat, DiskSpec, Environment, LocalRef, ObjectRef, RetryPolicy, VMNetwork,
};
use crate::schema::{LABEL, NAME};

pub use live::*;
pub use status::*;
pub use storage::*;

const FIXED_ONCE_BEGUN: &str = "!has(oldSelf.status) || !has(oldSelf.status.startTime) \
    || self.spec.source.vmRef == oldSelf.spec.source.vmRef \
    && self.spec.target == oldSelf.spec.target";

/// A move of a virtual machine to another host, or to another provider.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VMMigration",
    plural = "vmmigrations",
    shortname = "vmmig",
    category = "polyvirt",
    category = "virt",
    namespaced,
    status = "VMMigrationStatus",
    derive = "PartialEq",
    doc = "A move of a virtual machine to another host of its provider, or to another provider.",
    validation = Rule::new(FIXED_ONCE_BEGUN)
        .message("The migration has begun: make another VMMigration"),
    printcolumn(
        name = "Source",
        type_ = "string",
        json_path = ".spec.source.vmRef.name"
    ),
    printcolumn(
        name = "Target",
        type_ = "string",
        json_path = ".status.target"
    ),
    printcolumn(
        name = "Provider",
        type_ = "string",
        json_path = ".spec.target.providerRef.name"
    ),
    printcolumn(
        name = "Host",
        type_ = "string",
        json_path = ".status.hostMove.targetHost"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Progress",
        type_ = "string",
        json_path = ".status.progress.percentage"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct VMMigrationSpec {
    /// The virtual machine to move.
    pub source: MigrationSource,
    /// Where it goes.
    pub target: MigrationTarget,
    /// How to move. Absent means all defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<MigrationOptions>,
    /// Whether to stop the move: the VM goes on where it was. What has arrived stays there. Deleting the object does the
    /// same. Defaults to false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel: bool,
    /// Where disks are staged when the two providers cannot reach each other. Absent means that
    /// they are streamed straight across.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<MigrationStorage>,
    /// What people should know of the migration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<MigrationMetadata>,
}

/// The virtual machine to move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationSource {
    /// The VirtualMachine.
    pub vm_ref: LocalRef,
    /// The Provider that it is on. Absent means the one that it names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<ObjectRef>,
    /// The VMSnapshot to copy. Absent means the present state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_ref: Option<LocalRef>,
    /// Whether to take a snapshot first and copy that. Defaults to true.
    #[serde(default = "crate::schema::yes")]
    pub create_snapshot: bool,
    /// Whether to stop the VM before its disks are copied. Defaults to false.
    #[serde(default)]
    pub power_off_before_migration: bool,
    /// Whether to delete the source after a verified success. Defaults to false.
    #[serde(default)]
    pub delete_after_migration: bool,
}

impl Default for MigrationSource {
    fn default() -> Self {
        Self {
            vm_ref: LocalRef::default(),
            provider_ref: None,
            snapshot_ref: None,
            create_snapshot: true,
            power_off_before_migration: false,
            delete_after_migration: false,
        }
    }
}

/// Where a migration leads: to another host of the same Provider, or to a virtual machine that is made on another one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "!has(self.name) || !has(self.vmRef) || self.name == self.vmRef.name",
        "name and vmRef.name must be the same: give one of them",
    ),
]))]
pub struct MigrationTarget {
    /// The host to move to, for a move within one Provider. Absent means that one is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub host: Option<String>,
    /// Name of the VirtualMachine on the other Provider. Absent means that of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = NAME))]
    pub name: Option<String>,
    /// Name of the VirtualMachine, in the form of a reference; the same as name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_ref: Option<LocalRef>,
    /// Namespace of the VirtualMachine. Absent means that of this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = LABEL))]
    pub namespace: Option<String>,
    /// The Provider to move to. That of the source means a move to another of its hosts.
    pub provider_ref: ObjectRef,
    /// The VMClass of the target. Absent means that of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_ref: Option<LocalRef>,
    /// The VMImage to note as the origin of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_ref: Option<LocalRef>,
    /// The VMPlacementPolicy of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_ref: Option<LocalRef>,
    /// Network interfaces of the target. Absent means those of the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), transform = crate::schema::keyed_by_name)]
    pub networks: Vec<VMNetwork>,
    /// Disks of the target, to make them larger or put them elsewhere. Absent means those of
    /// the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), transform = crate::schema::keyed_by_name)]
    pub disks: Vec<DiskSpec>,
    /// Whether the target is started. Defaults to false.
    #[serde(default)]
    pub power_on: bool,
    /// Labels of the VirtualMachine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the VirtualMachine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub annotations: BTreeMap<String, String>,
}

/// How to move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MigrationOptions {
    /// How memory is moved, for a move within one Provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveMigration>,
    /// Format of the disks on the target: qcow2, vmdk or raw. Absent means the one that the
    /// target prefers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_format: Option<DiskFormat>,
    /// Whether disks are compressed on their way. Defaults to false.
    pub compress: bool,
    /// Whether checksums of both sides are compared. Defaults to true.
    pub verify_checksums: bool,
    /// How long the whole may take. Defaults to 4h.
    pub timeout: GoDuration,
    /// What happens after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    /// When staged data and temporary snapshots are removed: Always, OnSuccess or Never.
    /// Defaults to OnSuccess.
    pub cleanup_policy: CleanupPolicy,
    /// What is checked before the migration counts as a success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_checks: Option<MigrationChecks>,
}

impl Default for MigrationOptions {
    fn default() -> Self {
        Self {
            live: None,
            disk_format: None,
            compress: false,
            verify_checksums: true,
            timeout: GoDuration::literal("4h"),
            retry_policy: None,
            cleanup_policy: CleanupPolicy::default(),
            validation_checks: None,
        }
    }
}

/// What is checked at the end of a migration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MigrationChecks {
    /// Whether the sizes of the disks agree. Defaults to true.
    pub check_disk_size: bool,
    /// Whether the checksums of the disks agree. Defaults to true.
    pub check_checksum: bool,
    /// Whether the target boots. Defaults to false.
    pub check_boot: bool,
    /// Whether the target gets an address. Defaults to false.
    pub check_connectivity: bool,
}

impl Default for MigrationChecks {
    fn default() -> Self {
        Self {
            check_disk_size: true,
            check_checksum: true,
            check_boot: false,
            check_connectivity: false,
        }
    }
}

/// What people should know of a migration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MigrationMetadata {
    /// Why: disaster-recovery, cloud-migration, provider-change, testing or maintenance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<MigrationPurpose>,
    /// What the VM is used for: dev, staging, prod, test, qa or uat.
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

/// When what a migration needed on its way is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CleanupPolicy {
    /// At its end, however it ends.
    Always,
    /// After a success; after a failure it is kept to look at.
    #[default]
    OnSuccess,
    /// Never.
    Never,
}

/// Why a virtual machine is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MigrationPurpose {
    /// Its place was lost.
    DisasterRecovery,
    /// To or from a cloud.
    CloudMigration,
    /// To another kind of hypervisor.
    ProviderChange,
    /// For a test.
    Testing,
    /// To empty its place.
    Maintenance,
}
