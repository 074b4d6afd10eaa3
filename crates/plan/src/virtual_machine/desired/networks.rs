//! Network cards, as each kind of provider knows them.

use polyvirt_api::infra::{self as api, VMNetworkAttachmentSpec, VirtualMachineSpec};
use polyvirt_contract::model::{NicSpec, StaticAddress};

use super::{References, missing, word};
use crate::problem::Problem;

pub(super) fn networks(
    spec: &VirtualMachineSpec,
    refs: &References<'_>,
) -> Result<Vec<NicSpec>, Problem> {
    spec.networks
        .iter()
        .enumerate()
        .map(|(i, n)| nic(i, n, refs))
        .collect()
}

fn nic(index: usize, network: &api::VMNetwork, refs: &References<'_>) -> Result<NicSpec, Problem> {
    let attachment = refs.networks.get(index).copied().flatten();
    if let (Some(wanted), None) = (&network.network_ref, attachment) {
        let field = format!("spec.networks[{index}].networkRef.name");
        return Err(missing(&field, "VMNetworkAttachment", wanted));
    }
    let default = refs
        .provider
        .and_then(|p| p.spec.defaults.as_ref())
        .and_then(|d| d.network.clone());
    let mut nic = attachment.map_or_else(
        || NicSpec {
            network: default.unwrap_or_default(),
            ..NicSpec::default()
        },
        |a| attached(&a.spec, refs.provider.map(|p| p.spec.type_)),
    );
    nic.name.clone_from(&network.name);
    nic.mac = network.mac_address.clone().unwrap_or_default();
    nic.address = address(network, attachment.map(|a| &a.spec));
    Ok(nic)
}

/// The section for this kind of provider, or else the only one there is.
fn attached(spec: &VMNetworkAttachmentSpec, kind: Option<api::ProviderType>) -> NicSpec {
    let network = &spec.network;
    let nic = NicSpec {
        mtu: if network.mtu == 1500 {
            0
        } else {
            u32::try_from(network.mtu).unwrap_or(0)
        },
        ..NicSpec::default()
    };
    let vsphere = network.vsphere.as_deref();
    let libvirt = network.libvirt.as_deref();
    let proxmox = network.proxmox.as_ref();
    match kind {
        Some(api::ProviderType::Vsphere) if vsphere.is_some() => on_vsphere(nic, vsphere),
        Some(api::ProviderType::Proxmox) if proxmox.is_some() => on_proxmox(nic, proxmox),
        _ if libvirt.is_some() => on_libvirt(nic, libvirt),
        _ if vsphere.is_some() => on_vsphere(nic, vsphere),
        _ => on_proxmox(nic, proxmox),
    }
}

fn on_vsphere(nic: NicSpec, network: Option<&api::VsphereNetwork>) -> NicSpec {
    let Some(v) = network else { return nic };
    NicSpec {
        network: v.portgroup.clone().unwrap_or_default(),
        vlan: vlan(v.vlan.as_ref().and_then(|v| v.vlan_id)),
        model: word(&v.adapter_type),
        pci_slot: v.pci_slot_number,
        ..nic
    }
}

fn on_libvirt(nic: NicSpec, network: Option<&api::LibvirtNetwork>) -> NicSpec {
    let Some(l) = network else { return nic };
    NicSpec {
        network: l.network_name.clone().unwrap_or_default(),
        bridge: l
            .bridge
            .as_ref()
            .map(|b| b.name.clone())
            .unwrap_or_default(),
        model: word(&l.model),
        ..nic
    }
}

fn on_proxmox(nic: NicSpec, network: Option<&api::ProxmoxNetwork>) -> NicSpec {
    let Some(p) = network else { return nic };
    NicSpec {
        bridge: p.bridge.clone().unwrap_or_default(),
        vlan: vlan(p.vlan_tag),
        model: word(&p.model),
        mtu: p.mtu.and_then(|m| u32::try_from(m).ok()).unwrap_or(nic.mtu),
        ..nic
    }
}

fn vlan(id: Option<i32>) -> u16 {
    id.and_then(|id| u16::try_from(id).ok()).unwrap_or(0)
}

fn address(
    network: &api::VMNetwork,
    attachment: Option<&VMNetworkAttachmentSpec>,
) -> Option<StaticAddress> {
    let shared = attachment.and_then(|a| a.ip_allocation.as_ref());
    let pool_dns = shared
        .and_then(|i| i.dns_config.as_ref())
        .map(|d| d.servers.clone())
        .unwrap_or_default();
    let own_dns: Vec<String> = network
        .dns
        .iter()
        .flat_map(|list| list.split(','))
        .map(|server| server.trim().to_owned())
        .filter(|server| !server.is_empty())
        .collect();
    let dns = if own_dns.is_empty() {
        pool_dns
    } else {
        own_dns
    };
    if let Some(ip) = &network.ip_address {
        let prefix = network
            .prefix
            .and_then(|p| u8::try_from(p).ok())
            .unwrap_or(if ip.contains(':') { 64 } else { 24 });
        let gateway = network.gateway.clone().unwrap_or_default();
        return Some(StaticAddress {
            ip: ip.clone(),
            prefix,
            gateway,
            dns,
        });
    }
    let fixed = shared?.static_config.as_ref()?;
    let (ip, prefix) = fixed.address.split_once('/')?;
    Some(StaticAddress {
        ip: ip.to_owned(),
        prefix: prefix.parse().ok()?,
        gateway: fixed.gateway.clone().unwrap_or_default(),
        dns,
    })
}
