//! How an image is brought to the providers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::GoDuration;
use crate::infra::ImageFormat;

/// How the image is brought to the providers that need it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ImagePrepare {
    /// What to do when a provider lacks the image: Import it, Fail, or Wait until somebody puts
    /// it there. Defaults to Import.
    pub on_missing: OnMissing,
    /// Whether to compare the image with its checksum, where one is given. Defaults to true.
    pub validate_checksum: bool,
    /// How long an import may take. Defaults to 30m.
    pub timeout: GoDuration,
    /// How often a failed import is tried again within minutes; then it is every 10 to 30 minutes. Defaults to 3.
    #[schemars(range(min = 0, max = 10))]
    pub retries: i32,
    /// Whether providers are asked once more for an image that they have. Defaults to false.
    #[serde(skip_serializing_if = "crate::schema::is_false")]
    pub force: bool,
    /// Where and how providers store the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<ImageStorage>,
    /// What to do to the image after its import.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimization: Option<ImageOptimization>,
}

impl Default for ImagePrepare {
    fn default() -> Self {
        Self {
            on_missing: OnMissing::default(),
            validate_checksum: true,
            timeout: GoDuration::literal("30m"),
            retries: 3,
            force: false,
            storage: None,
            optimization: None,
        }
    }
}

/// Where and how providers store an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageStorage {
    /// Format to store: qcow2, raw, vmdk, vhd, vhdx, iso, ova or ovf. Absent means that of the
    /// source, or the one that the provider needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_format: Option<ImageFormat>,
    /// Whether to store the image compressed where the format can. Defaults to false.
    pub compression: bool,
    /// Details for vSphere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<VsphereImageStorage>,
    /// Details for libvirt and QEMU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub libvirt: Option<LibvirtImageStorage>,
}

/// Where vSphere stores an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VsphereImageStorage {
    /// Datastore of the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub datastore: Option<String>,
    /// Folder of the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub folder: Option<String>,
    /// Whether the template takes space only as it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thin_provisioned: Option<bool>,
    /// How the space of the template is provided: thin, thick or eagerzeroedthick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_type: Option<VsphereDiskType>,
}

/// Where libvirt stores an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LibvirtImageStorage {
    /// Storage pool of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub storage_pool: Option<String>,
    /// Whether space is taken at once (eager) or as it is written (lazy).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_policy: Option<AllocationPolicy>,
    /// How much is allocated when the file is made: off, metadata, falloc or full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preallocation: Option<Preallocation>,
}

/// What to do to an image after its import.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageOptimization {
    /// Format to convert to: qcow2, raw, vmdk, vhd, vhdx, iso, ova or ovf. Absent means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub convert_format: Option<ImageFormat>,
    /// Whether to drop blocks that hold nothing but zeros. Defaults to false.
    pub remove_unused_space: bool,
    /// Whether to compress the image where the format can. Defaults to false.
    pub enable_compression: bool,
    /// Whether a new version is transferred as the difference to the old one. Defaults to
    /// false.
    pub enable_delta_sync: bool,
}

/// What to do when a provider lacks an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnMissing {
    /// Bring it there.
    #[default]
    Import,
    /// Fail the VM.
    Fail,
    /// Wait until somebody brings it.
    Wait,
}

/// How vSphere provides the space of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VsphereDiskType {
    /// As it is written.
    Thin,
    /// Reserved at once, zeroed when first used.
    Thick,
    /// Reserved and zeroed at once.
    EagerZeroedThick,
}

/// When the space of an image is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AllocationPolicy {
    /// At once.
    Eager,
    /// As it is written.
    Lazy,
}

/// How much of an image file is allocated when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Preallocation {
    /// Nothing.
    Off,
    /// The tables of the format.
    Metadata,
    /// All space, not written.
    Falloc,
    /// All space, written.
    Full,
}
