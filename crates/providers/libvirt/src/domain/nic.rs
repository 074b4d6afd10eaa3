//! Cards of a domain.

use polyvirt_contract::model::NicSpec;

use crate::xml::Element;

/// What a card is plugged into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Plug {
    /// The host's own address, without a way in.
    #[default]
    User,
    /// A bridge of the host.
    Bridge(String),
    /// A network of libvirt.
    Network(String),
    /// Something else, which is left alone.
    Other(String),
}

/// A card as a domain has it, or should have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NicPart {
    pub(crate) mac: String,
    pub(crate) plug: Plug,
    pub(crate) model: String,
    pub(crate) vlan: u16,
    pub(crate) mtu: u32,
    /// A port of Open vSwitch.
    pub(crate) ovs: bool,
}

/// What cards of a VM have in common.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Common<'a> {
    /// The network for cards that name none.
    pub(crate) network: Option<&'a str>,
    /// Whether bridges are those of Open vSwitch.
    pub(crate) ovs: bool,
}

impl NicPart {
    pub(crate) fn of(interface: &Element) -> Self {
        let plug = match interface.get("type").as_deref() {
            Some("user") => Plug::User,
            Some("bridge") => Plug::Bridge(interface.attr_at("source", "bridge")),
            Some("network") => Plug::Network(interface.attr_at("source", "network")),
            other => Plug::Other(other.unwrap_or_default().to_owned()),
        };
        Self {
            mac: interface.attr_at("mac", "address").to_ascii_lowercase(),
            plug,
            model: interface.attr_at("model", "type"),
            vlan: interface.attr_at("vlan/tag", "id").parse().unwrap_or(0),
            mtu: interface.attr_at("mtu", "size").parse().unwrap_or(0),
            ovs: interface.attr_at("virtualport", "type") == "openvswitch",
        }
    }

    /// The card that is wanted.
    pub(crate) fn wanted(spec: &NicSpec, mac: String, common: Common<'_>) -> Self {
        let plug = match (spec.bridge.as_str(), spec.network.as_str()) {
            ("", "user") => Plug::User,
            ("", "") => common
                .network
                .map_or(Plug::User, |name| Plug::Network(name.to_owned())),
            ("", network) => Plug::Network(network.to_owned()),
            (bridge, _) => Plug::Bridge(bridge.to_owned()),
        };
        Self {
            mac,
            ovs: common.ovs && matches!(plug, Plug::Bridge(_)),
            // A user-mode network is as wide as QEMU makes it.
            mtu: if plug == Plug::User { 0 } else { spec.mtu },
            vlan: spec.vlan,
            model: model(&spec.model).unwrap_or("virtio").to_owned(),
            plug,
        }
    }

    /// The element of a new card.
    pub(crate) fn element(&self) -> Element {
        let (kind, source) = match &self.plug {
            Plug::User => ("user", None),
            Plug::Bridge(name) => ("bridge", Some(Element::new("source").with("bridge", name))),
            Plug::Network(name) => (
                "network",
                Some(Element::new("source").with("network", name)),
            ),
            Plug::Other(kind) => (kind.as_str(), None),
        };
        let vlan = || Element::new("vlan").holding(Element::new("tag").with("id", self.vlan));
        let port = || Element::new("virtualport").with("type", "openvswitch");
        let mtu = || Element::new("mtu").with("size", self.mtu);
        Element::new("interface")
            .with("type", kind)
            .holding(Element::new("mac").with("address", &self.mac))
            .maybe(source)
            .maybe((self.vlan != 0).then(vlan))
            .maybe(self.ovs.then(port))
            .holding(Element::new("model").with("type", &self.model))
            .maybe((self.mtu != 0).then(mtu))
    }

    /// What it is plugged into, for people.
    pub(crate) fn network(&self) -> &str {
        match &self.plug {
            Plug::User => "user",
            Plug::Bridge(name) | Plug::Network(name) | Plug::Other(name) => name,
        }
    }
}

/// The model as libvirt calls it; `None` if there is none.
pub(crate) fn model(word: &str) -> Option<&'static str> {
    match word.to_ascii_lowercase().as_str() {
        "" | "virtio" | "virtio-net" | "virtio-net-pci" => Some("virtio"),
        "e1000" => Some("e1000"),
        "e1000e" => Some("e1000e"),
        "rtl8139" => Some("rtl8139"),
        "vmxnet3" => Some("vmxnet3"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_read_back_as_it_was_wanted() {
        let spec = |bridge: &str, network: &str| NicSpec {
            bridge: bridge.to_owned(),
            network: network.to_owned(),
            vlan: 7,
            mtu: 9000,
            model: "E1000".to_owned(),
            ..NicSpec::default()
        };
        let common = Common {
            network: Some("lan"),
            ovs: true,
        };
        for (spec, plug) in [
            (spec("br0", ""), Plug::Bridge("br0".to_owned())),
            (spec("", "user"), Plug::User),
            (spec("", ""), Plug::Network("lan".to_owned())),
            (spec("", "dmz"), Plug::Network("dmz".to_owned())),
        ] {
            let wanted = NicPart::wanted(&spec, "02:00:00:00:00:01".to_owned(), common);
            assert_eq!(wanted.plug, plug);
            assert_eq!(NicPart::of(&wanted.element()), wanted);
        }
    }
}
