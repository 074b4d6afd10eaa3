//! VMImage: what system disks are made from.

mod prepare;
mod source;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::infra::ImageFormat;

pub use prepare::*;
pub use source::*;

/// An image: where it comes from and how it reaches the providers.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infra.virtrigaud.io",
    version = "v1beta1",
    kind = "VMImage",
    plural = "vmimages",
    shortname = "vmimg",
    category = "polyvirt",
    category = "virt",
    namespaced,
    status = "VMImageStatus",
    derive = "PartialEq",
    doc = "An image that the system disks of virtual machines are made from.",
    printcolumn(name = "Ready", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Providers",
        type_ = "string",
        json_path = ".status.availableOn[*]"
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
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct VMImageSpec {
    /// Where the image comes from; one source for each hypervisor, or one for all.
    pub source: VMImageSource,
    /// How the image is brought to the providers that need it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepare: Option<ImagePrepare>,
    /// What people should know of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ImageMetadata>,
    /// The operating system in the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<OsDistribution>,
    /// Namespaces beside its own whose objects may use this VMImage. Absent means none (all with the manager's flag
    /// --sharing=open); an empty selector means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_namespace_selector: Option<LabelSelector>,
}

/// What people should know of an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageMetadata {
    /// Name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub display_name: Option<String>,
    /// What the image is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Version of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub version: Option<String>,
    /// Processor that the image is for: amd64, arm64, x86_64 or aarch64. Defaults to amd64.
    pub architecture: Architecture,
    /// Tags by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub tags: BTreeMap<String, String>,
    /// Notes by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 50))]
    pub annotations: BTreeMap<String, String>,
}

/// The operating system in an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OsDistribution {
    /// Name of the system: ubuntu, centos, rhel, fedora, debian, suse, windows, freebsd, coreos
    /// or other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<OsName>,
    /// Version of the system, such as 24.04.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub version: Option<String>,
    /// Variant of the system, such as server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub variant: Option<String>,
    /// Family of the system: linux, windows, bsd or other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<OsFamily>,
    /// The kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<OsKernel>,
}

/// The kernel of an operating system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OsKernel {
    /// Kind of the kernel: linux, windows, freebsd or other.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<KernelType>,
    /// Version of the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Processor architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// 64-bit x86.
    #[default]
    Amd64,
    /// 64-bit Arm.
    Arm64,
    /// Another word for amd64.
    #[serde(rename = "x86_64")]
    X86_64,
    /// Another word for arm64.
    Aarch64,
}

/// An operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OsName {
    /// Ubuntu.
    Ubuntu,
    /// CentOS.
    Centos,
    /// Red Hat Enterprise Linux.
    Rhel,
    /// Fedora.
    Fedora,
    /// Debian.
    Debian,
    /// SUSE Linux.
    Suse,
    /// Windows.
    Windows,
    /// FreeBSD.
    Freebsd,
    /// CoreOS.
    Coreos,
    /// Any other.
    Other,
}

/// A family of operating systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OsFamily {
    /// Linux.
    Linux,
    /// Windows.
    Windows,
    /// The BSDs.
    Bsd,
    /// Any other.
    Other,
}

/// A kind of kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KernelType {
    /// Linux.
    Linux,
    /// Windows NT.
    Windows,
    /// FreeBSD.
    Freebsd,
    /// Any other.
    Other,
}

/// What is known of the image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct VMImageStatus {
    /// Whether at least one provider has the image and none that needs it lacks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Where the image stands: Pending, Downloading, Importing, Converting, Optimizing, Ready
    /// or Failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ImagePhase>,
    /// One sentence about the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The Providers that have the image, as namespace/name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub available_on: Vec<String>,
    /// How the image stands on each Provider, by namespace/name. An earlier release left out the namespace of a Provider in the
    /// image's own one; such entries are read, and rewritten with the next change.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub provider_status: BTreeMap<String, ImageProviderStatus>,
    /// Size of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub size: Option<Quantity>,
    /// Digest of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// Format of the image: qcow2, raw, vmdk, vhd, vhdx, iso, ova or ovf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<ImageFormat>,
    /// When an import ended last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_prepare_time: Option<Time>,
    /// The provider's task of the running import. With several providers see providerStatus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepare_task_ref: Option<String>,
    /// How far the running import is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import_progress: Option<ImportProgress>,
    /// What is true of the image, such as Ready, one entry a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = crate::schema::keyed_by_type)]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// How an image stands on one provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageProviderStatus {
    /// Whether VMs can be made from it there.
    pub available: bool,
    /// Id of the copy on the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Path of the copy on the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Size of the copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub size: Option<Quantity>,
    /// One sentence about the copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When this entry changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// Where the copy stands: Pending, Downloading, Importing, Converting, Optimizing, Ready or
    /// Failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ImagePhase>,
    /// The provider's task of the running import.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_ref: Option<String>,
    /// Digest of the source description that the copy was made from; another one means that the
    /// copy is stale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// UID of the Provider that the entry is about; a Provider that was deleted and created again has another one.
    #[serde(rename = "providerUID", skip_serializing_if = "Option::is_none")]
    pub provider_uid: Option<String>,
    /// SHA-256 of spec.source that the copy was made from, as sha256: and hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_digest: Option<String>,
    /// How often the import was tried since the last success or change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i32>,
    /// When a failed import is tried again. Absent if it was refused: then a change of the image or another VM that wants it
    /// is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<Time>,
    /// UIDs of VirtualMachines with imagePullPolicy Always for which the origin was looked at, until they are made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checked_for: Vec<String>,
    /// What is being fetched to take the place of the copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renewal: Option<Box<ImageRenewal>>,
}

/// A newer copy on its way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageRenewal {
    /// Id of the newer copy on the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Path of the newer copy on the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// UIDs of VirtualMachines for which the origin was looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checked_for: Vec<String>,
}

/// How far an import is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ImportProgress {
    /// Part that is done, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub percentage: Option<i32>,
    /// Bytes transferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transferred_bytes: Option<i64>,
    /// Bytes to transfer in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<i64>,
    /// Speed in bytes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_rate: Option<i64>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// How long it will still take, as a duration such as 5m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<String>,
}

/// Where an image stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImagePhase {
    /// Nothing was done yet.
    #[default]
    Pending,
    /// It is being downloaded.
    Downloading,
    /// It is being brought to a provider.
    Importing,
    /// It is being converted.
    Converting,
    /// It is being optimized.
    Optimizing,
    /// It can be used.
    Ready,
    /// It could not be brought to a provider.
    Failed,
}
