//! The network cards of a Machine, and what they are attached to.

use polyvirt_api::kubevirt::{Attachment, NetworkOption};
use polyvirt_api::vitistack::{
    MANAGED_BY_LABEL, Machine, MachineNetwork, MachineNicModel, NetworkConfiguration,
    NetworkNamespace, VLAN_LABEL,
};
use serde_json::json;

use super::Surroundings;
use super::error::LowerError;
use super::mac::Maker;
use crate::shared::names::label;
use crate::vitistack::settings::Settings;

const BRIDGE: &str = "br0";
const LARGEST_VLAN: i64 = 4094;

/// A network card of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoweredNic {
    /// Its name in the VM.
    pub name: String,
    /// Hardware address.
    pub mac: String,
    /// VLAN that it is in; `None` on the network of pods.
    pub vlan: Option<u16>,
    /// Model; `None` for virtio.
    pub model: Option<String>,
    attachment: Option<Attachment>,
}

impl LoweredNic {
    pub(super) fn as_option(&self) -> (String, NetworkOption) {
        let option = NetworkOption {
            attachment: self.attachment.clone(),
            binding: None,
            model: self.model.clone(),
        };
        (self.name.clone(), option)
    }
}

/// The cards, in the order in which the guest sees them.
pub fn resolve(
    machine: &Machine,
    around: &Surroundings<'_>,
) -> Result<Vec<LoweredNic>, LowerError> {
    let maker = Maker {
        uid: machine.metadata.uid.as_deref().unwrap_or_default(),
        set: around.settings.mac_set,
        known: around.known_macs,
        is_taken: around.is_taken,
    };
    if machine.spec.networks.is_empty() {
        return Ok(vec![only(machine, around, &maker)?]);
    }
    let cards = machine.spec.networks.iter().enumerate();
    cards
        .map(|(index, card)| one(index, card, around, &maker))
        .collect()
}

fn one(
    index: usize,
    card: &MachineNetwork,
    around: &Surroundings<'_>,
    maker: &Maker<'_>,
) -> Result<LoweredNic, LowerError> {
    let net = match card.network_name.as_deref().filter(|n| !n.is_empty()) {
        Some(name) => Some(named(index, name, around)?),
        None => None,
    };
    let model = card
        .model
        .filter(|model| *model != MachineNicModel::default());
    Ok(LoweredNic {
        mac: maker.address(card.mac_address.as_deref(), &card.name, index),
        name: card.name.clone(),
        vlan: net.as_ref().map(|net| net.vlan),
        model: model.map(|model| model.as_str().to_owned()),
        attachment: net.map(|net| net.attachment(around.settings)),
    })
}

/// What a card is attached to.
struct Net {
    vlan: u16,
    bridge: String,
}

impl Net {
    fn attachment(&self, settings: &Settings) -> Attachment {
        let mut plugin = json!({"type": "bridge", "bridge": self.bridge, "ipam": {}});
        if self.vlan > 0 {
            plugin["vlan"] = self.vlan.into();
        }
        let config = json!({
            "cniVersion": settings.cni_version,
            "name": self.bridge,
            "plugins": [plugin],
        });
        let labels = [
            (MANAGED_BY_LABEL.to_owned(), settings.managed_by.clone()),
            (VLAN_LABEL.to_owned(), self.vlan.to_string()),
        ];
        Attachment {
            name: self.name(),
            config: Some(config.to_string()),
            labels: labels.into(),
        }
    }

    fn name(&self) -> String {
        match (self.vlan, self.bridge.as_str()) {
            (0, bridge) => format!("bridge-{}", label(bridge)),
            (vlan, BRIDGE) => format!("vlan{vlan}"),
            (vlan, bridge) => format!("vlan{vlan}-{}", label(bridge)),
        }
    }
}

fn named(index: usize, name: &str, around: &Surroundings<'_>) -> Result<Net, LowerError> {
    let field = format!("spec.networks[{index}].networkName");
    let Some(network) = around.networks.get(name) else {
        return Err(LowerError::NetworkNotFound {
            field,
            kind: "NetworkConfiguration",
            name: name.to_owned(),
        });
    };
    let vlan = vlan_of(network).ok_or_else(|| LowerError::NetworkUnusable {
        field,
        message: format!(
            "NetworkConfiguration {name} has a VLAN that is no number from 0 to {LARGEST_VLAN}. Correct it"
        ),
        name: name.to_owned(),
    })?;
    let bridge = network.spec.bridge.clone().filter(|b| !b.is_empty());
    Ok(Net {
        vlan,
        bridge: bridge.unwrap_or_else(|| BRIDGE.to_owned()),
    })
}

/// `None` if what stands there is no VLAN.
fn vlan_of(network: &NetworkConfiguration) -> Option<u16> {
    let spec = &network.spec;
    if let Some(vlan) = spec.vlan {
        return in_range(i64::from(vlan));
    }
    let first = spec.network_interfaces.first();
    let text = first.and_then(|i| i.vlan.as_deref()).unwrap_or_default();
    match text.trim() {
        "" => Some(0),
        number => in_range(number.parse().ok()?),
    }
}

fn in_range(vlan: i64) -> Option<u16> {
    (0..=LARGEST_VLAN)
        .contains(&vlan)
        .then(|| u16::try_from(vlan).ok())
        .flatten()
}

/// The one card of a Machine that lists none: in its NetworkNamespace, or on the network of pods.
fn only(
    machine: &Machine,
    around: &Surroundings<'_>,
    maker: &Maker<'_>,
) -> Result<LoweredNic, LowerError> {
    let network = machine.spec.network.as_ref();
    let first = network.and_then(|n| n.interfaces.first());
    let name = first.and_then(|i| i.name.as_deref()).map(label);
    let name = name.filter(|n| !n.is_empty());
    let name = name.unwrap_or_else(|| "default".to_owned());
    let space = network.and_then(|n| n.network_namespace_name.as_deref());
    let net = space
        .filter(|s| !s.is_empty())
        .map(|space| in_namespace(space, around.network_namespace))
        .transpose()?;
    Ok(LoweredNic {
        mac: maker.address(None, &name, 0),
        name,
        vlan: net.as_ref().map(|net| net.vlan),
        model: None,
        attachment: net.map(|net| net.attachment(around.settings)),
    })
}

fn in_namespace(name: &str, found: Option<&NetworkNamespace>) -> Result<Net, LowerError> {
    let field = "spec.network.networkNamespaceName".to_owned();
    let name = name.to_owned();
    let Some(space) = found else {
        let kind = "NetworkNamespace";
        return Err(LowerError::NetworkNotFound { field, kind, name });
    };
    let declared = space.spec.ip_allocation.as_ref();
    let declared = declared.and_then(|ip| ip.static_.as_ref()?.vlan_id);
    let given = space.status.as_ref().and_then(|s| s.vlan_id).or(declared);
    let settled = space.status.is_some();
    match given.map(|vlan| in_range(i64::from(vlan))) {
        Some(Some(vlan)) => Ok(Net {
            vlan,
            bridge: BRIDGE.to_owned(),
        }),
        None if settled => Ok(Net {
            vlan: 0,
            bridge: BRIDGE.to_owned(),
        }),
        None => Err(LowerError::NetworkUnusable {
            message: format!("NetworkNamespace {name} has no VLAN yet. Work goes on when it has"),
            field,
            name,
        }),
        Some(None) => Err(LowerError::NetworkUnusable {
            message: format!("NetworkNamespace {name} has a VLAN that does not exist"),
            field,
            name,
        }),
    }
}
