//! Where on the hypervisor.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::ProviderError;
use crate::model::Placement;

use super::read::{Object, parse_object};
use super::write;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PlacementJson<'a> {
    datastore: &'a str,
    storage_pod: &'a str,
    cluster: &'a str,
    folder: &'a str,
    host: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource_pool: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    devices: &'a BTreeMap<String, u32>,
}

impl<'a> From<&'a Placement> for PlacementJson<'a> {
    fn from(placement: &'a Placement) -> Self {
        Self {
            datastore: &placement.datastore,
            storage_pod: &placement.storage_pod,
            cluster: &placement.cluster,
            folder: &placement.folder,
            host: &placement.host,
            resource_pool: &placement.resource_pool,
            devices: &placement.devices,
        }
    }
}

/// The placement of `Create` and `Clone`; an empty text for none.
pub fn write_placement(placement: Option<&Placement>) -> Result<String, ProviderError> {
    placement.map_or_else(|| Ok(String::new()), |p| write(&PlacementJson::from(p)))
}

/// The placement of `Create` and `Clone`; `None` for an empty text. The bare name of a policy, which managers in the field
/// send with a clone, places nothing.
pub fn read_placement(text: &str) -> Result<Option<Placement>, ProviderError> {
    let placement = parse_object(text, "spec.placement", |object| {
        let policy = object.text("name")?;
        let placement = placement_of(object)?;
        Ok((policy.is_empty() || placement != Placement::default()).then_some(placement))
    })?;
    Ok(placement.flatten())
}

pub(super) fn placement_of(placement: &Object<'_>) -> Result<Placement, ProviderError> {
    Ok(Placement {
        datastore: placement.text("datastore")?,
        storage_pod: placement.text("storagePod")?,
        cluster: placement.text("cluster")?,
        folder: placement.text("folder")?,
        host: placement.text("host")?,
        resource_pool: placement.text("resourcePool")?,
        devices: placement.counts("devices")?,
    })
}
