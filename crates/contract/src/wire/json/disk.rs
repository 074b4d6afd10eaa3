//! Disks beyond the first.

use serde::Serialize;

use crate::error::ProviderError;
use crate::model::{DiskSpec, DiskType, ExpandPolicy, ScsiSpec};

use super::read::{Object, parse_list};
use super::{null_if_empty, write};

type Result<T> = std::result::Result<T, ProviderError>;

const PATH: &str = "spec.disks";

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DiskJson<'a> {
    #[serde(rename = "SizeGiB")]
    size_gib: u32,
    r#type: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expand_policy: Option<&'static str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    storage_class: &'a str,
    #[serde(rename = "SCSI", skip_serializing_if = "Option::is_none")]
    scsi: Option<ScsiJson<'a>>,
}

/// Read by providers in the field in this casing.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScsiJson<'a> {
    controller: i32,
    shared_bus: &'a str,
    controller_type: &'a str,
}

impl<'a> From<&'a DiskSpec> for DiskJson<'a> {
    fn from(disk: &'a DiskSpec) -> Self {
        Self {
            size_gib: disk.size_gib,
            r#type: type_word(disk.disk_type),
            name: &disk.name,
            expand_policy: match disk.expand_policy {
                ExpandPolicy::Offline => None,
                ExpandPolicy::Online => Some("Online"),
            },
            storage_class: &disk.storage_class,
            scsi: disk.scsi.as_ref().map(|scsi| ScsiJson {
                controller: scsi.controller,
                shared_bus: &scsi.shared_bus,
                controller_type: &scsi.controller_type,
            }),
        }
    }
}

pub(super) fn disks_json(disks: &[DiskSpec]) -> Option<Vec<DiskJson<'_>>> {
    null_if_empty(disks.iter().map(DiskJson::from).collect())
}

/// The disks of `Create`.
pub fn write_disks(disks: &[DiskSpec]) -> Result<String> {
    write(&disks_json(disks))
}

/// The disks of `Create`.
pub fn read_disks(text: &str) -> Result<Vec<DiskSpec>> {
    parse_list(text, PATH, disk_of)
}

pub(super) fn disk_of(disk: &Object<'_>) -> Result<DiskSpec> {
    Ok(DiskSpec {
        name: disk.text("name")?,
        size_gib: disk.number("sizeGiB")?.unwrap_or_default(),
        disk_type: type_of(disk)?,
        expand_policy: expand_policy_of(disk)?,
        storage_class: disk.text("storageClass")?,
        scsi: disk.object("scsi")?.as_ref().map(scsi_of).transpose()?,
    })
}

const fn type_word(disk_type: DiskType) -> &'static str {
    match disk_type {
        DiskType::Thin => "thin",
        DiskType::Thick => "thick",
        DiskType::EagerZeroedThick => "eagerzeroedthick",
        DiskType::Ssd => "ssd",
        DiskType::Hdd => "hdd",
    }
}

fn type_of(disk: &Object<'_>) -> Result<DiskType> {
    let word = disk.text("type")?;
    match word.to_ascii_lowercase().as_str() {
        "" | "thin" => Ok(DiskType::Thin),
        "thick" => Ok(DiskType::Thick),
        "eagerzeroedthick" => Ok(DiskType::EagerZeroedThick),
        "ssd" => Ok(DiskType::Ssd),
        "hdd" => Ok(DiskType::Hdd),
        _ => Err(disk.get("type").invalid(format!(
            "Disk type {word:?} is not known: use thin, thick, eagerzeroedthick, ssd or hdd"
        ))),
    }
}

fn expand_policy_of(disk: &Object<'_>) -> Result<ExpandPolicy> {
    let word = disk.text("expandPolicy")?;
    match word.to_ascii_lowercase().as_str() {
        "" | "offline" => Ok(ExpandPolicy::Offline),
        "online" => Ok(ExpandPolicy::Online),
        _ => Err(disk.get("expandPolicy").invalid(format!(
            "Expand policy {word:?} is not known: use Online or Offline"
        ))),
    }
}

fn scsi_of(scsi: &Object<'_>) -> Result<ScsiSpec> {
    Ok(ScsiSpec {
        controller: scsi.number("controller")?.unwrap_or_default(),
        shared_bus: scsi.text("sharedBus")?,
        controller_type: scsi.text("controllerType")?,
    })
}
