//! Network cards, and the networks that they are plugged into.

use polyvirt_api::infra::{
    LibvirtNetwork, NetworkConfig, ObjectRef, ProviderType, ProxmoxNetwork, VMNetwork,
    VMNetworkAttachment, VMNetworkAttachmentSpec, VsphereNetwork,
};
use polyvirt_api::novacron::NetworkSpec;

use super::Surroundings;
use super::address::{Addresses, addresses};
use super::error::LowerError;
use crate::shared::names::{label, shortened};

/// The network that needs no object.
const DEFAULT: &str = "default";
const MOST: usize = 10;
const LONGEST_NAME: usize = 63;

/// How a card is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkKind {
    /// To a bridge.
    Bridge,
    /// To a switch of Open vSwitch.
    Ovs,
    /// By a function of the card itself.
    SrIov,
    /// By an address of its own on the host's card.
    Macvlan,
}

/// A card, before it is known what it is plugged into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Card {
    /// Its place in the list.
    pub index: usize,
    pub name: String,
    /// What the user calls the network.
    pub network: String,
    pub kind: NetworkKind,
    pub addresses: Addresses,
}

/// The cards of a VM.
pub(super) fn cards(networks: &[NetworkSpec]) -> Result<Vec<Card>, LowerError> {
    if networks.len() > MOST {
        let message = format!("A VM has {MOST} network cards at most");
        return Err(LowerError::invalid("spec.template.spec.networks", message));
    }
    let mut cards: Vec<Card> = Vec::new();
    for (index, network) in networks.iter().enumerate() {
        let card = card(index, network)?;
        if cards.iter().any(|known| known.name == card.name) {
            let message = format!(
                "There are two networks {:?}. Rename one of them",
                network.name
            );
            return Err(LowerError::invalid(field(index, "name"), message));
        }
        cards.push(card);
    }
    Ok(cards)
}

fn card(index: usize, network: &NetworkSpec) -> Result<Card, LowerError> {
    let name = shortened(&label(&network.name), LONGEST_NAME);
    if name.is_empty() {
        let message = format!(
            "{:?} is no name: use letters, digits and dashes",
            network.name
        );
        return Err(LowerError::invalid(field(index, "name"), message));
    }
    Ok(Card {
        index,
        name,
        network: network.name.clone(),
        kind: kind(index, &network.type_)?,
        addresses: addresses(index, network)?,
    })
}

fn kind(index: usize, word: &str) -> Result<NetworkKind, LowerError> {
    match word.to_ascii_lowercase().as_str() {
        "bridge" => Ok(NetworkKind::Bridge),
        "ovs" => Ok(NetworkKind::Ovs),
        "sr-iov" | "sriov" => Ok(NetworkKind::SrIov),
        "macvlan" => Ok(NetworkKind::Macvlan),
        _ => {
            let message =
                format!("There is no type {word:?}. Write bridge, ovs, sr-iov or macvlan");
            Err(LowerError::invalid(field(index, "type"), message))
        }
    }
}

pub(super) fn field(index: usize, name: &str) -> String {
    format!("spec.template.spec.networks[{index}].{name}")
}

/// What a card is plugged into, and the object that is made for that.
pub(super) struct Plugged {
    pub network_ref: Option<ObjectRef>,
    pub made: Option<VMNetworkAttachment>,
}

/// What was said before stays: a network that comes later by that name does not move a card.
pub(super) fn plug(card: &Card, around: &Surroundings<'_>) -> Result<Plugged, LowerError> {
    let own = own_name(around.name, &card.name);
    let before = plugged_before(card, around).map(|known| known.network_ref.clone());
    let network_ref = before.unwrap_or_else(|| chosen(card, &own, around));
    let is_own = network_ref.as_ref().is_some_and(|r| r.name == own);
    let made = is_own.then(|| attachment(card, &own, around));
    Ok(Plugged {
        network_ref,
        made: made.transpose()?,
    })
}

/// The card as it was written before.
pub(super) fn plugged_before<'a>(
    card: &Card,
    around: &'a Surroundings<'_>,
) -> Option<&'a VMNetwork> {
    let before = around.before.into_iter().flat_map(|vm| &vm.spec.networks);
    before.into_iter().find(|known| known.name == card.name)
}

/// A network of that name that somebody made, the provider's default, or one that is made for this VM.
fn chosen(card: &Card, own: &str, around: &Surroundings<'_>) -> Option<ObjectRef> {
    if (around.has_network)(&card.network) {
        return Some(ObjectRef::local(card.network.clone()));
    }
    (card.network != DEFAULT).then(|| ObjectRef::local(own))
}

/// The name of a network that is made for one card of one VM.
fn own_name(vm: &str, card: &str) -> String {
    shortened(&format!("{vm}-{card}"), 253)
}

/// The hypervisor knows the network under the name that the user wrote.
fn attachment(
    card: &Card,
    own: &str,
    around: &Surroundings<'_>,
) -> Result<VMNetworkAttachment, LowerError> {
    let name = card.network.clone();
    let mut network = NetworkConfig::default();
    match around.provider_type {
        Some(ProviderType::Vsphere) => {
            network.vsphere = Some(Box::new(VsphereNetwork {
                portgroup: Some(name),
                ..VsphereNetwork::default()
            }));
        }
        Some(ProviderType::Proxmox) => network.proxmox = Some(on_proxmox(card.index, name)?),
        _ => {
            network.libvirt = Some(Box::new(LibvirtNetwork {
                network_name: Some(name),
                ..LibvirtNetwork::default()
            }));
        }
    }
    let spec = VMNetworkAttachmentSpec {
        network,
        ..VMNetworkAttachmentSpec::default()
    };
    Ok(VMNetworkAttachment::new(own, spec))
}

fn on_proxmox(index: usize, name: String) -> Result<ProxmoxNetwork, LowerError> {
    let number = name.strip_prefix("vmbr").unwrap_or_default();
    if number.is_empty() || number.chars().any(|c| !c.is_ascii_digit()) {
        let message = format!(
            "Proxmox VE calls its bridges vmbr0, vmbr1 and so on. Make a VMNetworkAttachment {name} that says which one is meant, or write its name here"
        );
        return Err(LowerError::invalid(field(index, "name"), message));
    }
    Ok(ProxmoxNetwork {
        bridge: Some(name),
        ..ProxmoxNetwork::default()
    })
}

/// The card as our API says it. What it cannot say stands in the network data.
pub(super) fn spec(card: &Card, network_ref: Option<ObjectRef>, mac: Option<String>) -> VMNetwork {
    let fixed = card.addresses.single();
    VMNetwork {
        name: card.name.clone(),
        network_ref,
        ip_address: fixed.map(|f| f.ip.to_string()),
        prefix: fixed.map(|f| i32::from(f.prefix)),
        gateway: fixed.and_then(|f| f.gateway).map(|g| g.to_string()),
        dns: fixed.and_then(|_| card.addresses.name_servers()),
        mac_address: mac,
    }
}
