//! The operating system of a Machine, and what other providers make of it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The operating system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineOs {
    /// Processor: amd64, arm64 or x86_64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<MachineArchitecture>,
    /// Such as linux or windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Such as ubuntu.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<String>,
    /// Version of the distribution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Family of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_family: Option<String>,
    /// Where the image is. With the annotation kubevirt.io/boot-source it is an installation medium to boot from; without a URL,
    /// and without it, the machine boots over the network first.
    #[serde(rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// Where an installation medium is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iso_uri: Option<String>,
}

/// Processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MachineArchitecture {
    /// Intel and AMD, 64 bits.
    #[serde(rename = "amd64")]
    Amd64,
    /// ARM, 64 bits.
    #[serde(rename = "arm64")]
    Arm64,
    /// The same as amd64.
    #[serde(rename = "x86_64")]
    X86_64,
}

impl MachineArchitecture {
    /// The word of Kubernetes for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Amd64 | Self::X86_64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

/// Backups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineBackup {
    /// Whether backups are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// When, in the notation of cron.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// How long they are kept, in days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_days: Option<i32>,
}

/// Settings of other providers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineProviderConfig {
    /// Name of the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Zone of the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The Secret with the credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<MachineCredentialsRef>,
    /// Further settings.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
}

/// A Secret with credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineCredentialsRef {
    /// Name of the Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}
