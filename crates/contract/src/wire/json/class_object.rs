//! The class of a clone: in the shape of `VMClass.spec`, where sizes are quantities and what is absent has no key.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::ProviderError;
use crate::model::{ClassSpec, DiskDefaults, PerformanceProfile, ResourceLimits, SecurityProfile};

use super::class::firmware_word;
use super::write;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClassObject<'a> {
    cpu: u32,
    memory: String,
    firmware: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_defaults: Option<DiskDefaultsObject<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    guest_tools_policy: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra_config: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_limits: Option<LimitsObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    performance_profile: Option<PerformanceObject<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    security_profile: Option<SecurityObject<'a>>,
}

#[derive(Serialize)]
struct DiskDefaultsObject<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    r#type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LimitsObject {
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_limit: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_reservation: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_reservation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_shares: Option<i32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each flag is one field of the wire contract"
)]
struct PerformanceObject<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    latency_sensitivity: &'a str,
    cpu_hot_add_enabled: bool,
    memory_hot_add_enabled: bool,
    virtualization_based_security: bool,
    nested_virtualization: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    hyper_threading_policy: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SecurityObject<'a> {
    secure_boot: bool,
    tpm_enabled: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    tpm_version: &'a str,
    vtd_enabled: bool,
    encryption_policy: EncryptionObject<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EncryptionObject<'a> {
    enabled: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    key_provider: &'a str,
    require_encryption: bool,
}

/// The class of `Clone`.
pub fn write_class_object(class: &ClassSpec) -> Result<String, ProviderError> {
    write(&ClassObject {
        cpu: class.cpu,
        memory: format!("{}Mi", class.memory_mib),
        firmware: firmware_word(class.firmware),
        disk_defaults: class.disk_defaults.as_ref().map(disk_defaults),
        guest_tools_policy: &class.guest_tools_policy,
        extra_config: &class.extra_config,
        resource_limits: class.limits.as_ref().map(limits),
        performance_profile: class.performance.as_ref().map(performance),
        security_profile: class.security.as_ref().map(security),
    })
}

fn disk_defaults(disk: &DiskDefaults) -> DiskDefaultsObject<'_> {
    DiskDefaultsObject {
        r#type: &disk.disk_type,
        size: (disk.size_gib > 0).then(|| format!("{}Gi", disk.size_gib)),
    }
}

fn limits(limits: &ResourceLimits) -> LimitsObject {
    let mib = |value: Option<i64>| value.map(|mib| format!("{mib}Mi"));
    LimitsObject {
        cpu_limit: limits.cpu_limit,
        cpu_reservation: limits.cpu_reservation,
        memory_limit: mib(limits.memory_limit_mib),
        memory_reservation: mib(limits.memory_reservation_mib),
        cpu_shares: limits.cpu_shares,
    }
}

fn performance(profile: &PerformanceProfile) -> PerformanceObject<'_> {
    PerformanceObject {
        latency_sensitivity: &profile.latency_sensitivity,
        cpu_hot_add_enabled: profile.cpu_hot_add,
        memory_hot_add_enabled: profile.memory_hot_add,
        virtualization_based_security: profile.virtualization_based_security,
        nested_virtualization: profile.nested_virtualization,
        hyper_threading_policy: &profile.hyper_threading_policy,
    }
}

fn security(profile: &SecurityProfile) -> SecurityObject<'_> {
    SecurityObject {
        secure_boot: profile.secure_boot,
        tpm_enabled: profile.tpm,
        tpm_version: &profile.tpm_version,
        vtd_enabled: profile.vtd,
        encryption_policy: EncryptionObject {
            enabled: profile.encryption,
            key_provider: &profile.key_provider,
            require_encryption: profile.require_encryption,
        },
    }
}
