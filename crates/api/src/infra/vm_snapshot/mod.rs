//! VMSnapshot: the state of a VM at one moment.

mod status;

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::GoDuration;
use crate::cel::rule;
use crate::infra::{Environment, KeyProvider, LocalRef};

pub use status::*;

/// A snapshot to take of a virtual machine, once or on a schedule.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VMSnapshot",
    plural = "vmsnapshots",
    shortname = "vmsnap",
    category = "polyvirt",
    category = "virt",
    namespaced,
    status = "VMSnapshotStatus",
    derive = "PartialEq",
    doc = "The state of a virtual machine at one moment, taken once or on a schedule.",
    printcolumn(name = "VM", type_ = "string", json_path = ".spec.vmRef.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Size", type_ = "string", json_path = ".status.size"),
    printcolumn(name = "Created", type_ = "date", json_path = ".status.creationTime"),
    printcolumn(name = "Expires", type_ = "date", json_path = ".status.expiryTime"),
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
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "self.vmRef == oldSelf.vmRef",
        "A snapshot stays with its virtual machine: make another VMSnapshot",
    ),
]))]
pub struct VMSnapshotSpec {
    /// The VirtualMachine to take a snapshot of.
    pub vm_ref: LocalRef,
    /// What the snapshot holds. Absent means all defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_config: Option<SnapshotConfig>,
    /// How long snapshots are kept. Absent means until the object is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_policy: Option<SnapshotRetention>,
    /// When snapshots are taken. Absent means once, at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<SnapshotSchedule>,
    /// What people should know of the snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<SnapshotMetadata>,
}

/// What a snapshot holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotConfig {
    /// Name of the snapshot on the provider. Absent means the name of this object. A short mark of
    /// this object is added to it, so that no two snapshots share one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 255),
        regex(pattern = r"^[a-zA-Z0-9]([a-zA-Z0-9\-_]*[a-zA-Z0-9])?$")
    )]
    pub name: Option<String>,
    /// What the snapshot is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Whether the memory of the VM is kept, too. Defaults to false.
    pub include_memory: bool,
    /// Whether the guest writes its buffers out first, through its agent. Defaults to true.
    pub quiesce: bool,
    /// Kind of snapshot: Standard, Crash or Application. Defaults to Standard.
    #[serde(rename = "type")]
    pub type_: SnapshotType,
    /// How much of the guest agrees with itself in the snapshot: CrashConsistent,
    /// FilesystemConsistent or ApplicationConsistent. Defaults to FilesystemConsistent.
    pub consistency_level: ConsistencyLevel,
    /// Whether the snapshot is compressed where the provider can. Defaults to false.
    pub compression: bool,
    /// Whether the snapshot is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<SnapshotEncryption>,
}

impl Default for SnapshotConfig {
    fn default() -> Self {
        Self {
            name: None,
            description: None,
            include_memory: false,
            quiesce: true,
            type_: SnapshotType::default(),
            consistency_level: ConsistencyLevel::default(),
            compression: false,
            encryption: None,
        }
    }
}

/// Encryption of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotEncryption {
    /// Whether to encrypt. Defaults to false.
    pub enabled: bool,
    /// Where the key comes from: standard, hardware or external.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_provider: Option<KeyProvider>,
    /// The Secret with the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_ref: Option<LocalRef>,
}

/// How long snapshots are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotRetention {
    /// Age at which a snapshot is deleted, such as 168h. Absent means never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age: Option<GoDuration>,
    /// The most snapshots of one schedule; the oldest go first, at once. Those that are pinned, and
    /// the one that the VM was told to go back to, do not count. Absent means that maxAge decides,
    /// or successfulJobsHistoryLimit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub max_count: Option<i32>,
    /// Whether pinned snapshots are kept whatever their age. Defaults to true.
    pub preserve_pinned: bool,
    /// Time between the end of a snapshot's life by maxAge and its deletion. Defaults to 24h.
    pub grace_period: GoDuration,
    /// Whether snapshots go when their VirtualMachine goes. False keeps the VirtualMachine: it is not
    /// deleted while the snapshot is there, for no hypervisor has one without the other. Defaults to
    /// true.
    #[serde(rename = "deleteOnVMDelete")]
    pub delete_on_vm_delete: bool,
}

impl Default for SnapshotRetention {
    fn default() -> Self {
        Self {
            max_age: None,
            max_count: None,
            preserve_pinned: true,
            grace_period: GoDuration::literal("24h"),
            delete_on_vm_delete: true,
        }
    }
}

/// When snapshots are taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "!self.enabled || has(self.cronSpec)",
        "A schedule needs cronSpec, such as 0 3 * * *",
    ),
]))]
pub struct SnapshotSchedule {
    /// Whether the schedule is in force. Defaults to false.
    pub enabled: bool,
    /// Whether the schedule rests for now. Defaults to false.
    pub suspend: bool,
    /// When to take one: five fields of cron, a word such as @daily, or an interval such as
    /// @every 6h. Before the fields may stand a time zone, such as TZ=Europe/Oslo, if timezone gives
    /// no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::cron")]
    pub cron_spec: Option<String>,
    /// Time zone of the schedule, such as Europe/Oslo. Defaults to UTC.
    pub timezone: String,
    /// What happens when one is due while another is being taken: Allow, Forbid or Replace.
    /// Defaults to Forbid.
    pub concurrency_policy: ConcurrencyPolicy,
    /// Snapshots of the schedule that are kept, the newest always, where retentionPolicy gives
    /// neither maxCount nor maxAge. Defaults to 3.
    #[schemars(range(min = 0, max = 100))]
    pub successful_jobs_history_limit: i32,
    /// Failed tries whose objects are kept. Defaults to 1.
    #[schemars(range(min = 0, max = 100))]
    pub failed_jobs_history_limit: i32,
}

impl Default for SnapshotSchedule {
    fn default() -> Self {
        Self {
            enabled: false,
            suspend: false,
            cron_spec: None,
            timezone: "UTC".to_owned(),
            concurrency_policy: ConcurrencyPolicy::default(),
            successful_jobs_history_limit: 3,
            failed_jobs_history_limit: 1,
        }
    }
}

/// What people should know of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotMetadata {
    /// Why it was taken: backup, testing, migration, restore-point, update or other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<SnapshotPurpose>,
    /// What its VM is used for: dev, staging, prod, test, qa or uat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// The application that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub application: Option<String>,
    /// Whether it is kept whatever its age. Defaults to false.
    pub pinned: bool,
    /// Tags by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub tags: BTreeMap<String, String>,
}

/// Kind of snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::schema::enum_in_all_of)]
pub enum SnapshotType {
    /// The usual one.
    #[default]
    Standard,
    /// Without asking the guest.
    Crash,
    /// With the help of the application.
    Application,
}

/// How much of the guest agrees with itself in a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConsistencyLevel {
    /// Disks only, as after a power cut.
    CrashConsistent,
    /// File systems.
    #[default]
    FilesystemConsistent,
    /// Applications.
    ApplicationConsistent,
}

/// What happens when two snapshots of a schedule overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConcurrencyPolicy {
    /// Both are taken.
    Allow,
    /// The later one is left out.
    #[default]
    Forbid,
    /// The earlier one is given up.
    Replace,
}

/// Why a snapshot was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotPurpose {
    /// To restore data.
    Backup,
    /// For a test.
    Testing,
    /// For a migration.
    Migration,
    /// To go back to.
    RestorePoint,
    /// Before an update.
    Update,
    /// Any other.
    Other,
}
