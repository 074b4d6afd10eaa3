//! The whole desired VM, for `Reconfigure`.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;

use crate::error::ProviderError;
use crate::model::{CreateVm, UserData};

use super::class::{ClassJson, class_of};
use super::disk::{DiskJson, disk_of, disks_json};
use super::image::{ImageJson, image_of};
use super::network::{NicJson, nic_of, nics_json};
use super::placement::{PlacementJson, placement_of};
use super::read::{Node, Object, parse_object};
use super::write;

type Result<T> = std::result::Result<T, ProviderError>;

const IGNITION: &str = "ignition";
const CLOUD_INIT: &str = "cloud-init";

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DesiredJson<'a> {
    name: &'a str,
    class: ClassJson<'a>,
    image: ImageJson<'a>,
    networks: Option<Vec<NicJson<'a>>>,
    disks: Option<Vec<DiskJson<'a>>>,
    user_data: Option<UserDataJson<'a>>,
    meta_data: Option<MetaDataJson<'a>>,
    placement: Option<PlacementJson<'a>>,
    tags: Option<&'a [String]>,
    #[serde(skip_serializing_if = "str::is_empty")]
    network_data: Cow<'a, str>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct UserDataJson<'a> {
    cloud_init_data: Cow<'a, str>,
    r#type: &'static str,
}

#[derive(Serialize)]
struct MetaDataJson<'a> {
    #[serde(rename = "MetaDataYAML")]
    yaml: Cow<'a, str>,
}

impl<'a> From<&'a UserData> for UserDataJson<'a> {
    fn from(data: &'a UserData) -> Self {
        Self {
            cloud_init_data: String::from_utf8_lossy(data.bytes()),
            r#type: match data {
                UserData::CloudInit(_) => CLOUD_INIT,
                UserData::Ignition(_) => IGNITION,
            },
        }
    }
}

/// The desired VM of `Reconfigure`. Bytes that are not UTF-8 are mangled here and travel beside the JSON.
pub fn write_desired(vm: &CreateVm) -> Result<String> {
    write(&DesiredJson {
        name: &vm.name,
        class: (&vm.class).into(),
        image: (&vm.image).into(),
        networks: nics_json(&vm.networks),
        disks: disks_json(&vm.disks),
        user_data: vm.user_data.as_ref().map(UserDataJson::from),
        meta_data: (!vm.meta_data.is_empty()).then(|| MetaDataJson {
            yaml: String::from_utf8_lossy(&vm.meta_data),
        }),
        placement: vm.placement.as_ref().map(PlacementJson::from),
        tags: (!vm.tags.is_empty()).then_some(&vm.tags),
        network_data: String::from_utf8_lossy(&vm.network_data),
    })
}

/// The desired VM of `Reconfigure`, without an owner, which is no part of the JSON.
pub fn read_desired(text: &str) -> Result<CreateVm> {
    parse_object(text, "spec", desired_of)?
        .ok_or_else(|| ProviderError::invalid("spec", "The desired VM is missing"))
}

fn desired_of(vm: &Object<'_>) -> Result<CreateVm> {
    Ok(CreateVm {
        owner: None,
        name: vm.text("name")?,
        class: vm
            .object("class")?
            .as_ref()
            .map(class_of)
            .transpose()?
            .unwrap_or_default(),
        image: vm
            .object("image")?
            .as_ref()
            .map(image_of)
            .transpose()?
            .unwrap_or_default(),
        networks: objects(&vm.get("networks"), nic_of)?,
        disks: objects(&vm.get("disks"), disk_of)?,
        user_data: vm
            .object("userData")?
            .as_ref()
            .map(user_data_of)
            .transpose()?,
        meta_data: meta_data_of(vm)?,
        network_data: vm.text("networkData")?.into(),
        placement: vm
            .object("placement")?
            .as_ref()
            .map(placement_of)
            .transpose()?,
        tags: vm.texts("tags")?,
    })
}

fn objects<T>(node: &Node<'_>, read: impl Fn(&Object<'_>) -> Result<T>) -> Result<Vec<T>> {
    node.list()?
        .iter()
        .map(|item| read(&item.required_object()?))
        .collect()
}

fn user_data_of(data: &Object<'_>) -> Result<UserData> {
    let bytes = Bytes::from(data.text("cloudInitData")?);
    let word = data.text("type")?;
    match word.to_ascii_lowercase().as_str() {
        "" | CLOUD_INIT => Ok(UserData::CloudInit(bytes)),
        IGNITION => Ok(UserData::Ignition(bytes)),
        _ => Err(data.get("type").invalid(format!(
            "User data of type {word:?} is not known: use cloud-init or ignition"
        ))),
    }
}

fn meta_data_of(vm: &Object<'_>) -> Result<Bytes> {
    match vm.object("metaData")? {
        Some(data) => Ok(data.text("metaDataYAML")?.into()),
        None => Ok(Bytes::new()),
    }
}
