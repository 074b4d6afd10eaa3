//! Devices of the host in a domain.

use polyvirt_provider_kit::devices::DeviceAddress;

use crate::xml::Element;

/// The element that lends a device. libvirt takes it from the host's driver at the start, and gives it back at the end.
pub(super) fn element(address: &DeviceAddress) -> Element {
    let hostdev = Element::new("hostdev").with("mode", "subsystem");
    let (hostdev, place) = match address {
        DeviceAddress::Pci {
            domain,
            bus,
            slot,
            function,
        } => (
            hostdev.with("type", "pci").with("managed", "yes"),
            Element::new("address")
                .with("domain", format!("{domain:#06x}"))
                .with("bus", format!("{bus:#04x}"))
                .with("slot", format!("{slot:#04x}"))
                .with("function", format!("{function:#x}")),
        ),
        DeviceAddress::Mediated(uuid) => (
            hostdev.with("type", "mdev").with("model", "vfio-pci"),
            Element::new("address").with("uuid", uuid),
        ),
    };
    hostdev.holding(Element::new("source").holding(place))
}

/// The device that an element lends; `None` if it is of another kind, such as USB.
pub(super) fn address(hostdev: &Element) -> Option<DeviceAddress> {
    let place = hostdev.at("source/address")?;
    let part = |name: &str| place.get(name).unwrap_or_default();
    let hex = |name: &str| part(name).trim_start_matches("0x").to_owned();
    let text = match hostdev.get("type").as_deref()? {
        "pci" => {
            let domain = Some(hex("domain")).filter(|d| !d.is_empty());
            let domain = domain.unwrap_or_else(|| "0".to_owned());
            format!(
                "{domain}:{}:{}.{}",
                hex("bus"),
                hex("slot"),
                hex("function")
            )
        }
        "mdev" => part("uuid"),
        _ => return None,
    };
    DeviceAddress::try_from(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::parse;

    #[test]
    fn what_is_written_is_read_again() {
        for text in [
            "0000:41:00.0",
            "0001:a0:1f.7",
            "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001",
        ] {
            let device = DeviceAddress::try_from(text.to_owned()).expect("an address");
            assert_eq!(address(&element(&device)), Some(device), "{text}");
        }
    }

    #[test]
    fn domains_of_others_are_understood() {
        let read = |xml: &str| address(&parse(xml).expect("XML").root);
        let pci = "<hostdev mode='subsystem' type='pci'><source><address bus='0x3' slot='0x0' function='0x1'/></source></hostdev>";
        assert_eq!(
            read(pci).map(|a| a.to_string()).as_deref(),
            Some("0000:03:00.1")
        );
        let usb =
            "<hostdev mode='subsystem' type='usb'><source><vendor id='0x1'/></source></hostdev>";
        assert_eq!(read(usb), None);
    }
}
