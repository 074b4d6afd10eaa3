//! Machine type, features and firmware of a Machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cel::rule;

/// Machine type, features and firmware.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDomain {
    /// Machine type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineDomainMachine>,
    /// Features.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<MachineFeatures>,
    /// Firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<MachineFirmware>,
}

/// Machine type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDomainMachine {
    /// Such as pc-q35. KubeVirt refuses pc-i440fx unless its administrator allows it.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub type_: Option<String>,
}

/// Features of the machine. An absent one is left to KubeVirt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineFeatures {
    /// Whether it has ACPI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acpi: Option<bool>,
    /// Whether it has an APIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apic: Option<bool>,
    /// Whether it has what Windows guests like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hyperv: Option<bool>,
}

/// Firmware.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineFirmware {
    /// What boots the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootloader: Option<MachineBootloader>,
}

/// What boots the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "!has(self.secureBoot) || !self.secureBoot || !has(self.efi) || self.efi",
        "secureBoot needs efi",
    ),
]))]
pub struct MachineBootloader {
    /// Whether it is EFI; false means a BIOS. Absent means EFI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub efi: Option<bool>,
    /// Whether only signed boot code runs. Absent means false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure_boot: Option<bool>,
}

/// A place to boot from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MachineBootDevice {
    /// The boot disk.
    Disk,
    /// The first network interface.
    Network,
    /// The installation medium.
    Cdrom,
}
