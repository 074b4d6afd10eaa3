//! Values that several kinds share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::GoDuration;
use crate::cel::rule;

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

/// What happens after a failure that may pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "self.backoffMultiplier >= 1",
        "backoffMultiplier must be at least 1",
    ),
]))]
pub struct RetryPolicy {
    /// How often to try again. Defaults to 3.
    #[schemars(range(min = 0, max = 10))]
    pub max_retries: i32,
    /// Time before the first new try. Defaults to 5m.
    pub retry_delay: GoDuration,
    /// What the time grows by with each further try. Defaults to 2.
    pub backoff_multiplier: i32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 3,
            retry_delay: GoDuration::literal("5m"),
            backoff_multiplier: 2,
        }
    }
}
