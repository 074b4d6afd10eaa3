//! Where disks are staged on their way.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cel::rule;
use crate::infra::ObjectRef;

/// Where disks are staged on their way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "self.type != 'nfs' || has(self.nfs)",
        "Type nfs needs nfs",
    ),
    rule(
        "self.type != 's3' || has(self.s3)",
        "Type s3 needs s3",
    ),
]))]
pub struct MigrationStorage {
    /// Kind of storage: pvc, nfs or s3. Defaults to pvc.
    #[serde(rename = "type")]
    pub type_: StagingType,
    /// Whether the manager carries the data (relay), the providers do (direct) or the better
    /// one is chosen (auto). Defaults to auto.
    pub transfer_mode: TransferMode,
    /// A volume claim, for type pvc.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc: Option<PvcStaging>,
    /// An NFS export, for type nfs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nfs: Option<NfsStaging>,
    /// An S3 bucket, for type s3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Staging>,
}

/// A volume claim for staging.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PvcStaging {
    /// An existing claim. Absent means that one is made and removed again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Storage class of a claim that is made. Absent means the default of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// Size of a claim that is made, such as 100Gi. Absent means that of the disks and some
    /// more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?(Ei?|Pi?|Ti?|Gi?|Mi?|Ki?|k)?$"))]
    pub size: Option<String>,
    /// Access mode of a claim that is made: ReadWriteOnce, ReadWriteMany or ReadOnlyMany.
    /// Defaults to ReadWriteMany.
    pub access_mode: StagingAccessMode,
    /// Where providers see the volume. Defaults to /mnt/migration-storage.
    pub mount_path: String,
}

impl Default for PvcStaging {
    fn default() -> Self {
        Self {
            name: None,
            storage_class_name: None,
            size: None,
            access_mode: StagingAccessMode::default(),
            mount_path: "/mnt/migration-storage".to_owned(),
        }
    }
}

/// An NFS export for staging.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NfsStaging {
    /// Name or address of the server.
    #[schemars(length(max = 253))]
    pub server: String,
    /// Path of the export.
    #[schemars(length(max = 4096))]
    pub export: String,
    /// Folder below the export. Absent means its top.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub path: Option<String>,
    /// User id to write as.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4_294_967_295_i64))]
    pub uid: Option<i64>,
    /// Group id to write as.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4_294_967_295_i64))]
    pub gid: Option<i64>,
    /// Whether it is only read from. Defaults to false.
    #[serde(default)]
    pub read_only: bool,
}

/// An S3 bucket for staging.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct S3Staging {
    /// Name of the bucket.
    pub bucket: String,
    /// What the names of objects begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Region of the bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Address of the server, for others than AWS.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 263))]
    pub endpoint: Option<String>,
    /// Whether the bucket is named in the path instead of the host. Defaults to false.
    #[serde(default)]
    pub use_path_style: bool,
    /// The Secret with accessKeyID and secretAccessKey.
    pub credentials_secret_ref: ObjectRef,
}

/// Kind of storage for staging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StagingType {
    /// A volume claim.
    #[default]
    Pvc,
    /// An NFS export.
    Nfs,
    /// An S3 bucket.
    S3,
}

/// Who carries the data of a migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TransferMode {
    /// Whoever does it better.
    #[default]
    Auto,
    /// The manager.
    Relay,
    /// The providers.
    Direct,
}

/// Access mode of a volume claim for staging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StagingAccessMode {
    /// One node.
    ReadWriteOnce,
    /// Many nodes.
    #[default]
    ReadWriteMany,
    /// Many nodes, to read.
    ReadOnlyMany,
}
