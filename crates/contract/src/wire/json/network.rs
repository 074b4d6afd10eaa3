//! Network cards.

use serde::Serialize;

use crate::error::ProviderError;
use crate::model::{NicSpec, StaticAddress};

use super::read::{Object, parse_list};
use super::{null_if_empty, write};

const PATH: &str = "spec.networks";

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct NicJson<'a> {
    name: &'a str,
    portgroup: &'a str,
    network_name: &'a str,
    bridge: &'a str,
    #[serde(rename = "VLAN")]
    vlan: u16,
    model: &'a str,
    mac_address: &'a str,
    #[serde(rename = "IPPolicy")]
    ip_policy: &'a str,
    #[serde(rename = "StaticIP")]
    static_ip: &'a str,
    prefix: u8,
    gateway: &'a str,
    #[serde(rename = "DNS")]
    dns: String,
    #[serde(rename = "PCISlotNumber")]
    pci_slot: Option<i32>,
    #[serde(rename = "MTU", skip_serializing_if = "Option::is_none")]
    mtu: Option<u32>,
}

impl<'a> From<&'a NicSpec> for NicJson<'a> {
    fn from(nic: &'a NicSpec) -> Self {
        let address = nic.address.as_ref();
        Self {
            name: &nic.name,
            portgroup: "",
            network_name: &nic.network,
            bridge: &nic.bridge,
            vlan: nic.vlan,
            model: &nic.model,
            mac_address: &nic.mac,
            ip_policy: "",
            static_ip: address.map_or("", |a| &a.ip),
            prefix: address.map_or(0, |a| a.prefix),
            gateway: address.map_or("", |a| &a.gateway),
            dns: address.map_or_else(String::new, |a| a.dns.join(",")),
            pci_slot: nic.pci_slot,
            mtu: (nic.mtu > 0).then_some(nic.mtu),
        }
    }
}

pub(super) fn nics_json(nics: &[NicSpec]) -> Option<Vec<NicJson<'_>>> {
    null_if_empty(nics.iter().map(NicJson::from).collect())
}

/// The networks of `Create`.
pub fn write_networks(nics: &[NicSpec]) -> Result<String, ProviderError> {
    write(&nics_json(nics))
}

/// The networks of `Create`.
pub fn read_networks(text: &str) -> Result<Vec<NicSpec>, ProviderError> {
    parse_list(text, PATH, nic_of)
}

pub(super) fn nic_of(nic: &Object<'_>) -> Result<NicSpec, ProviderError> {
    Ok(NicSpec {
        name: nic.text("name")?,
        network: nic.first_text(&["networkName", "portgroup"])?,
        bridge: nic.text("bridge")?,
        vlan: nic.number("vlan")?.unwrap_or_default(),
        model: nic.text("model")?,
        mac: nic.text("macAddress")?,
        address: address_of(nic)?,
        pci_slot: nic.number("pciSlotNumber")?,
        mtu: nic.number("mtu")?.unwrap_or_default(),
    })
}

fn address_of(nic: &Object<'_>) -> Result<Option<StaticAddress>, ProviderError> {
    let ip = nic.first_text(&["staticIP", "ipAddress"])?;
    if ip.is_empty() {
        return Ok(None);
    }
    Ok(Some(StaticAddress {
        ip,
        prefix: nic.number("prefix")?.unwrap_or_default(),
        gateway: nic.text("gateway")?,
        dns: name_servers(&nic.text("dns")?),
    }))
}

fn name_servers(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .map(str::to_owned)
        .collect()
}
