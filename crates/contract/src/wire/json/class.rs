//! Size and hardware.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::ProviderError;
use crate::model::{
    ClassSpec, DiskDefaults, Firmware, PerformanceProfile, ResourceLimits, SecurityProfile,
};

use super::read::{Object, parse_object};
use super::write;

type Result<T> = std::result::Result<T, ProviderError>;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ClassJson<'a> {
    #[serde(rename = "CPU")]
    cpu: u32,
    #[serde(rename = "MemoryMiB")]
    memory_mib: u64,
    firmware: &'static str,
    disk_defaults: Option<DiskDefaultsJson<'a>>,
    guest_tools_policy: &'a str,
    extra_config: Option<&'a BTreeMap<String, String>>,
    performance_profile: Option<PerformanceJson<'a>>,
    security_profile: Option<SecurityJson<'a>>,
    resource_limits: Option<LimitsJson>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DiskDefaultsJson<'a> {
    r#type: &'a str,
    #[serde(rename = "SizeGiB")]
    size_gib: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each flag is one field of the wire contract"
)]
struct PerformanceJson<'a> {
    latency_sensitivity: &'a str,
    #[serde(rename = "CPUHotAddEnabled")]
    cpu_hot_add: bool,
    #[serde(rename = "MemoryHotAddEnabled")]
    memory_hot_add: bool,
    virtualization_based_security: bool,
    nested_virtualization: bool,
    hyper_threading_policy: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each flag is one field of the wire contract"
)]
struct SecurityJson<'a> {
    secure_boot: bool,
    #[serde(rename = "TPMEnabled")]
    tpm: bool,
    #[serde(rename = "TPMVersion")]
    tpm_version: &'a str,
    #[serde(rename = "VTDEnabled")]
    vtd: bool,
    #[serde(rename = "EncryptionEnabled")]
    encryption: bool,
    key_provider: &'a str,
    require_encryption: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct LimitsJson {
    #[serde(rename = "CPULimit")]
    cpu_limit: Option<i32>,
    #[serde(rename = "CPUReservation")]
    cpu_reservation: Option<i32>,
    #[serde(rename = "MemoryLimitMiB")]
    memory_limit: Option<i64>,
    #[serde(rename = "MemoryReservationMiB")]
    memory_reservation: Option<i64>,
    #[serde(rename = "CPUShares")]
    cpu_shares: Option<i32>,
}

impl<'a> From<&'a ClassSpec> for ClassJson<'a> {
    fn from(class: &'a ClassSpec) -> Self {
        Self {
            cpu: class.cpu,
            memory_mib: class.memory_mib,
            firmware: firmware_word(class.firmware),
            disk_defaults: class.disk_defaults.as_ref().map(|d| DiskDefaultsJson {
                r#type: &d.disk_type,
                size_gib: d.size_gib,
            }),
            guest_tools_policy: &class.guest_tools_policy,
            extra_config: (!class.extra_config.is_empty()).then_some(&class.extra_config),
            performance_profile: class.performance.as_ref().map(PerformanceJson::from),
            security_profile: class.security.as_ref().map(SecurityJson::from),
            resource_limits: class.limits.as_ref().map(LimitsJson::from),
        }
    }
}

impl<'a> From<&'a PerformanceProfile> for PerformanceJson<'a> {
    fn from(profile: &'a PerformanceProfile) -> Self {
        Self {
            latency_sensitivity: &profile.latency_sensitivity,
            cpu_hot_add: profile.cpu_hot_add,
            memory_hot_add: profile.memory_hot_add,
            virtualization_based_security: profile.virtualization_based_security,
            nested_virtualization: profile.nested_virtualization,
            hyper_threading_policy: &profile.hyper_threading_policy,
        }
    }
}

impl<'a> From<&'a SecurityProfile> for SecurityJson<'a> {
    fn from(profile: &'a SecurityProfile) -> Self {
        Self {
            secure_boot: profile.secure_boot,
            tpm: profile.tpm,
            tpm_version: &profile.tpm_version,
            vtd: profile.vtd,
            encryption: profile.encryption,
            key_provider: &profile.key_provider,
            require_encryption: profile.require_encryption,
        }
    }
}

impl From<&ResourceLimits> for LimitsJson {
    fn from(limits: &ResourceLimits) -> Self {
        Self {
            cpu_limit: limits.cpu_limit,
            cpu_reservation: limits.cpu_reservation,
            memory_limit: limits.memory_limit_mib,
            memory_reservation: limits.memory_reservation_mib,
            cpu_shares: limits.cpu_shares,
        }
    }
}

/// The class of `Create`.
pub fn write_class(class: &ClassSpec) -> Result<String> {
    write(&ClassJson::from(class))
}

/// The class of `Create` or `Clone`, in either casing; `None` for an empty text.
pub fn read_class(text: &str) -> Result<Option<ClassSpec>> {
    parse_object(text, "class", class_of)
}

pub(super) fn class_of(class: &Object<'_>) -> Result<ClassSpec> {
    let (firmware, secure_boot) = firmware_of(class)?;
    Ok(ClassSpec {
        cpu: class.number("cpu")?.unwrap_or_default(),
        memory_mib: class.mib("memoryMiB", "memory")?.unwrap_or_default(),
        firmware,
        disk_defaults: class
            .object("diskDefaults")?
            .as_ref()
            .map(disk_defaults_of)
            .transpose()?,
        guest_tools_policy: class.text("guestToolsPolicy")?,
        extra_config: class.texts_by_key("extraConfig")?,
        performance: class
            .object("performanceProfile")?
            .as_ref()
            .map(performance_of)
            .transpose()?,
        security: security_of(class, secure_boot)?,
        limits: class
            .object("resourceLimits")?
            .as_ref()
            .map(limits_of)
            .transpose()?,
    })
}

pub(super) const fn firmware_word(firmware: Firmware) -> &'static str {
    match firmware {
        Firmware::Bios => "BIOS",
        Firmware::Uefi => "UEFI",
    }
}

/// Whether the word for the firmware asks for secure boot, too.
#[derive(Clone, Copy)]
enum SecureBoot {
    NotSaid,
    Asked,
}

fn firmware_of(class: &Object<'_>) -> Result<(Firmware, SecureBoot)> {
    let word = class.text("firmware")?;
    match word.to_ascii_lowercase().as_str() {
        "" | "bios" => Ok((Firmware::Bios, SecureBoot::NotSaid)),
        "uefi" | "efi" => Ok((Firmware::Uefi, SecureBoot::NotSaid)),
        "uefi-secure" | "efi-secure" => Ok((Firmware::Uefi, SecureBoot::Asked)),
        _ => Err(class.get("firmware").invalid(format!(
            "Firmware {word:?} is not known: use BIOS, UEFI or UEFI-Secure"
        ))),
    }
}

fn disk_defaults_of(disk: &Object<'_>) -> Result<DiskDefaults> {
    Ok(DiskDefaults {
        disk_type: disk.text("type")?,
        size_gib: disk.gib("sizeGiB", "size")?.unwrap_or_default(),
    })
}

fn performance_of(profile: &Object<'_>) -> Result<PerformanceProfile> {
    Ok(PerformanceProfile {
        latency_sensitivity: profile.text("latencySensitivity")?,
        cpu_hot_add: profile.flag("cpuHotAddEnabled")?,
        memory_hot_add: profile.flag("memoryHotAddEnabled")?,
        virtualization_based_security: profile.flag("virtualizationBasedSecurity")?,
        nested_virtualization: profile.flag("nestedVirtualization")?,
        hyper_threading_policy: profile.text("hyperThreadingPolicy")?,
    })
}

fn security_of(class: &Object<'_>, secure_boot: SecureBoot) -> Result<Option<SecurityProfile>> {
    let told = class
        .object("securityProfile")?
        .as_ref()
        .map(security_profile_of)
        .transpose()?;
    Ok(match secure_boot {
        SecureBoot::NotSaid => told,
        SecureBoot::Asked => Some(SecurityProfile {
            secure_boot: true,
            ..told.unwrap_or_default()
        }),
    })
}

fn security_profile_of(profile: &Object<'_>) -> Result<SecurityProfile> {
    let mut security = SecurityProfile {
        secure_boot: profile.flag("secureBoot")?,
        tpm: profile.flag("tpmEnabled")?,
        tpm_version: profile.text("tpmVersion")?,
        vtd: profile.flag("vtdEnabled")?,
        encryption: profile.flag("encryptionEnabled")?,
        key_provider: profile.text("keyProvider")?,
        require_encryption: profile.flag("requireEncryption")?,
    };
    if let Some(policy) = profile.object("encryptionPolicy")? {
        security.encryption = policy.flag("enabled")?;
        security.key_provider = policy.text("keyProvider")?;
        security.require_encryption = policy.flag("requireEncryption")?;
    }
    Ok(security)
}

fn limits_of(limits: &Object<'_>) -> Result<ResourceLimits> {
    Ok(ResourceLimits {
        cpu_limit: limits.number("cpuLimit")?,
        cpu_reservation: limits.number("cpuReservation")?,
        memory_limit_mib: limits.mib("memoryLimitMiB", "memoryLimit")?,
        memory_reservation_mib: limits.mib("memoryReservationMiB", "memoryReservation")?,
        cpu_shares: limits.number("cpuShares")?,
    })
}
