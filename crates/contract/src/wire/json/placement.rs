//! Where on the hypervisor.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::ProviderError;
use crate::model::{Chosen, HostDemand, HostTerm, Placement};

use super::read::{Node, Object, parse_object};
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
    #[serde(skip_serializing_if = "Option::is_none")]
    chosen: Option<ChosenJson<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ChosenJson<'a> {
    terms: Vec<TermJson<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TermJson<'a> {
    labels: Vec<DemandJson<'a>>,
    name: Vec<DemandJson<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DemandJson<'a> {
    key: &'a str,
    operator: &'a str,
    values: &'a [String],
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
            chosen: placement.chosen.as_ref().map(ChosenJson::from),
        }
    }
}

impl<'a> From<&'a Chosen> for ChosenJson<'a> {
    fn from(chosen: &'a Chosen) -> Self {
        let demands =
            |list: &'a [HostDemand]| -> Vec<_> { list.iter().map(DemandJson::from).collect() };
        let term = |term: &'a HostTerm| TermJson {
            labels: demands(&term.labels),
            name: demands(&term.name),
        };
        Self {
            terms: chosen.terms.iter().map(term).collect(),
        }
    }
}

impl<'a> From<&'a HostDemand> for DemandJson<'a> {
    fn from(demand: &'a HostDemand) -> Self {
        Self {
            key: &demand.key,
            operator: &demand.operator,
            values: &demand.values,
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
        chosen: placement
            .object("chosen")?
            .as_ref()
            .map(chosen_of)
            .transpose()?,
    })
}

fn chosen_of(chosen: &Object<'_>) -> Result<Chosen, ProviderError> {
    let terms = chosen.get("terms").list()?;
    let terms = terms.iter().map(term_of).collect::<Result<_, _>>()?;
    Ok(Chosen { terms })
}

fn term_of(term: &Node<'_>) -> Result<HostTerm, ProviderError> {
    let term = term.required_object()?;
    let demands = |key: &str| -> Result<Vec<HostDemand>, ProviderError> {
        term.get(key).list()?.iter().map(demand_of).collect()
    };
    Ok(HostTerm {
        labels: demands("labels")?,
        name: demands("name")?,
    })
}

fn demand_of(demand: &Node<'_>) -> Result<HostDemand, ProviderError> {
    let demand = demand.required_object()?;
    Ok(HostDemand {
        key: demand.text("key")?,
        operator: demand.text("operator")?,
        values: demand.texts("values")?,
    })
}
