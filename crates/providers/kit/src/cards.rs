//! The cards of a copy: by DHCP, or with the addresses that its customization gives them. Those of its source stay there.

use polyvirt_contract::model::{NicSpec, StaticAddress};
use polyvirt_contract::rules::CardCustomization;
use polyvirt_contract::{ProviderError, Result};

const FIELD: &str = "spec.customization.networks";

/// The cards as the guest is told of them, from those that the copy has. A customization that none of them can follow is
/// refused.
pub fn of_copy(cards: &[NicSpec], custom: &[CardCustomization]) -> Result<Vec<NicSpec>> {
    for card in custom {
        if !cards.iter().any(|nic| nic.name == card.name) {
            let message = format!(
                "The source has no network {:?}; name one of its own",
                card.name
            );
            return Err(ProviderError::invalid(FIELD, message));
        }
    }
    let card = |nic: &NicSpec| {
        let wanted = custom.iter().find(|card| card.name == nic.name);
        Ok(NicSpec {
            address: wanted.map_or(Ok(None), address)?,
            ..nic.clone()
        })
    };
    cards.iter().map(card).collect()
}

fn address(card: &CardCustomization) -> Result<Option<StaticAddress>> {
    if card.ip_address.is_empty() {
        return dynamic(card).map(|()| None);
    }
    if card.ip_address.parse::<std::net::IpAddr>().is_err() {
        let message = format!("{:?} is no IP address", card.ip_address);
        return Err(ProviderError::invalid(FIELD, message));
    }
    if card.dhcp == Some(true) {
        let message = "Give dhcp or ipAddress, not both";
        return Err(ProviderError::invalid(FIELD, message));
    }
    Ok(Some(StaticAddress {
        ip: card.ip_address.clone(),
        prefix: prefix_of(card)?,
        gateway: card.gateway.clone(),
        dns: card.dns.clone(),
    }))
}

/// Without an address of its own a card asks a server, which also tells it all the rest.
fn dynamic(card: &CardCustomization) -> Result<()> {
    let rest = [&card.subnet_mask, &card.gateway];
    let alone = rest.iter().all(|text| text.is_empty()) && card.dns.is_empty();
    if alone && card.dhcp != Some(false) {
        return Ok(());
    }
    let message = format!(
        "The network {:?} has no ipAddress; give one, or leave all of it to DHCP",
        card.name
    );
    Err(ProviderError::invalid(FIELD, message))
}

fn prefix_of(card: &CardCustomization) -> Result<u8> {
    if card.ip_address.contains(':') {
        return Ok(64);
    }
    prefix(&card.subnet_mask).ok_or_else(|| {
        let message = format!(
            "{:?} is no subnet mask; write one like 255.255.255.0",
            card.subnet_mask
        );
        ProviderError::invalid(FIELD, message)
    })
}

/// From `255.255.255.0` to 24; `None` for a mask with holes.
fn prefix(mask: &str) -> Option<u8> {
    let bits = u32::from(mask.parse::<std::net::Ipv4Addr>().ok()?);
    let ones = bits.leading_ones();
    (bits.count_ones() == ones).then(|| u8::try_from(ones).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> CardCustomization {
        CardCustomization {
            name: "eth0".to_owned(),
            ip_address: "10.0.0.5".to_owned(),
            subnet_mask: "255.255.255.0".to_owned(),
            ..CardCustomization::default()
        }
    }

    #[test]
    fn an_address_is_whole_or_refused() {
        let whole = address(&card()).expect("sound").expect("fixed");
        assert_eq!((whole.ip.as_str(), whole.prefix), ("10.0.0.5", 24));
        let by_server = CardCustomization::default();
        assert_eq!(address(&by_server), Ok(None));
        let refused = |change: fn(&mut CardCustomization)| {
            let mut card = card();
            change(&mut card);
            address(&card).expect_err("refused").message
        };
        assert!(refused(|card| card.ip_address.clear()).contains("no ipAddress"));
        assert!(refused(|card| card.ip_address = "x".into()).contains("no IP address"));
        assert!(refused(|card| card.dhcp = Some(true)).contains("not both"));
        assert!(refused(|card| card.subnet_mask.clear()).contains("no subnet mask"));
    }

    #[test]
    fn masks_become_prefixes() {
        for (mask, expected) in [
            ("255.255.255.0", Some(24)),
            ("255.255.255.255", Some(32)),
            ("0.0.0.0", Some(0)),
            ("255.0.255.0", None),
            ("x", None),
        ] {
            assert_eq!(prefix(mask), expected, "{mask}");
        }
    }
}
