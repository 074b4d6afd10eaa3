//! Network cards: what they are, and what they are plugged into.

use polyvirt_api::kubevirt::{KubevirtOptions, NetworkOption};
use polyvirt_contract::model::NicSpec;
use polyvirt_contract::{ProviderError, Result};
use serde_json::{Value, json};

use crate::names;

/// Models that KubeVirt takes.
const MODELS: &[&str] = &["virtio", "e1000", "e1000e", "rtl8139", "ne2k_pci"];
/// Words for the network of the pods.
const POD: &[&str] = &["", "pod", "default"];

/// A card as the VirtualMachine has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    pub(crate) name: String,
    pub(crate) mac: String,
    model: String,
    binding: Binding,
    /// A NetworkAttachmentDefinition; `None` for the network of the pods.
    attachment: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binding {
    Masquerade,
    Bridge,
    Sriov,
}

/// The cards of a VM. One without an address gets one that follows from the identity.
pub(crate) fn cards(
    nics: &[NicSpec],
    options: &KubevirtOptions,
    identity: &str,
) -> Result<Vec<Card>> {
    let unsaid = NetworkOption::default();
    let one = |(index, nic): (usize, &NicSpec)| {
        let option = options.networks.get(&nic.name).unwrap_or(&unsaid);
        card(index, nic, option, identity)
    };
    let cards: Vec<Card> = nics.iter().enumerate().map(one).collect::<Result<_>>()?;
    let on_pods = cards
        .iter()
        .filter(|card| card.attachment.is_none())
        .count();
    if on_pods > 1 {
        let message = "KubeVirt plugs one card at most into the network of the pods; name a NetworkAttachmentDefinition for the others";
        return Err(ProviderError::invalid("spec.networks", message));
    }
    Ok(cards)
}

fn card(index: usize, nic: &NicSpec, option: &NetworkOption, identity: &str) -> Result<Card> {
    let given = option.attachment.as_ref().map(|a| a.name.clone());
    let named = (!POD.contains(&nic.network.as_str())).then(|| nic.network.clone());
    let attachment = given.filter(|name| !name.is_empty()).or(named);
    let mac = match nic.mac.as_str() {
        "" => names::mac(identity, &nic.name),
        mac => mac.to_ascii_lowercase(),
    };
    Ok(Card {
        name: nic.name.clone(),
        mac,
        model: model(option.model.as_deref().unwrap_or(&nic.model))?,
        binding: binding(index, option, attachment.is_some())?,
        attachment,
    })
}

fn model(word: &str) -> Result<String> {
    let word = word.to_ascii_lowercase();
    let word = if word.is_empty() { "virtio" } else { &word };
    if MODELS.contains(&word) {
        return Ok(word.to_owned());
    }
    let message = format!("KubeVirt has no card {word:?}; use {}", MODELS.join(", "));
    Err(ProviderError::invalid("network.libvirt.model", message))
}

fn binding(index: usize, option: &NetworkOption, attached: bool) -> Result<Binding> {
    match (option.binding.as_deref().unwrap_or_default(), attached) {
        ("bridge", _) | ("", true) => Ok(Binding::Bridge),
        ("sriov", true) => Ok(Binding::Sriov),
        ("masquerade" | "", false) => Ok(Binding::Masquerade),
        (word, _) => {
            let message = format!(
                "A card cannot be bound by {word:?} there; on the network of the pods use masquerade or bridge, elsewhere bridge or sriov"
            );
            let field = format!("spec.networks[{index}]");
            Err(ProviderError::invalid(field, message))
        }
    }
}

impl Card {
    /// The entry of `domain.devices.interfaces`.
    pub(crate) fn interface(&self, boot_order: Option<usize>) -> Value {
        let mut entry = json!({"name": self.name, "macAddress": self.mac});
        match self.binding {
            Binding::Masquerade => entry["masquerade"] = json!({}),
            Binding::Bridge => entry["bridge"] = json!({}),
            Binding::Sriov => entry["sriov"] = json!({}),
        }
        if self.binding != Binding::Sriov {
            entry["model"] = json!(self.model);
        }
        if let Some(order) = boot_order {
            entry["bootOrder"] = json!(order);
        }
        entry
    }

    /// The entry of `networks`.
    pub(crate) fn network(&self) -> Value {
        match &self.attachment {
            None => json!({"name": self.name, "pod": {}}),
            Some(name) => json!({"name": self.name, "multus": {"networkName": name}}),
        }
    }
}
