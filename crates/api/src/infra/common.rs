//! Values that several kinds share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an object is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Environment {
    /// Development.
    Dev,
    /// Rehearsal before production.
    Staging,
    /// Production.
    Prod,
    /// Tests.
    Test,
    /// Quality assurance.
    Qa,
    /// Acceptance by users.
    Uat,
}

/// Where encryption keys come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyProvider {
    /// The hypervisor's own key server.
    Standard,
    /// A hardware module.
    Hardware,
    /// A key server outside the hypervisor.
    External,
}

/// Format of an image file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    /// QEMU copy-on-write.
    #[default]
    Qcow2,
    /// Plain bytes.
    Raw,
    /// VMware.
    Vmdk,
    /// Virtual PC, Azure.
    Vhd,
    /// Hyper-V.
    Vhdx,
    /// Optical disc.
    Iso,
    /// Open virtualization archive.
    Ova,
    /// Open virtualization format, a folder of files.
    Ovf,
}

/// Format in which a provider stores or hands out a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskFormat {
    /// QEMU copy-on-write.
    #[default]
    Qcow2,
    /// VMware.
    Vmdk,
    /// Plain bytes.
    Raw,
}

/// Digest that a checksum was made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChecksumType {
    /// MD5, against accidents only.
    Md5,
    /// SHA-1, against accidents only.
    Sha1,
    /// SHA-256.
    #[default]
    Sha256,
    /// SHA-512.
    Sha512,
}
