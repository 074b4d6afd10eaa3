//! Addresses of network cards.

use std::net::IpAddr;

use polyvirt_api::novacron::{IpConfig, NetworkSpec};

use super::error::LowerError;
use super::networks::field;

/// Where the addresses of a card come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// IPv4.
    pub v4: Method,
    /// IPv6.
    pub v6: Method,
    /// Name servers of both.
    pub dns: Vec<IpAddr>,
}

/// Where the addresses of one family come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// There are none.
    #[default]
    None,
    /// A DHCP server.
    Dhcp,
    /// The announcements of the router.
    Auto,
    /// This one.
    Fixed(Fixed),
}

/// A fixed address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// The address.
    pub ip: IpAddr,
    /// Length of its network part.
    pub prefix: u8,
    /// Where the rest of the world is.
    pub gateway: Option<IpAddr>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Addresses {
    /// The one fixed address, if there is nothing else to say.
    pub fn single(&self) -> Option<&Fixed> {
        match (&self.v4, &self.v6) {
            (Method::Fixed(fixed), Method::None) | (Method::None, Method::Fixed(fixed)) => {
                Some(fixed)
            }
            _ => None,
        }
    }

    /// Name servers, as our API takes them.
    pub fn name_servers(&self) -> Option<String> {
        let words: Vec<_> = self.dns.iter().map(ToString::to_string).collect();
        (!words.is_empty()).then(|| words.join(","))
    }

    /// Whether one address, or DHCP for IPv4, is all there is to say.
    pub fn is_simple(&self) -> bool {
        let leased = self.v4 == Method::Dhcp && self.v6 == Method::None && self.dns.is_empty();
        leased || self.single().is_some()
    }
}

pub(super) fn addresses(index: usize, network: &NetworkSpec) -> Result<Addresses, LowerError> {
    let mut found = Addresses::default();
    if let Some(config) = &network.ipv4 {
        found.v4 = method(&field(index, "ipv4"), config, Family::V4)?;
        found.dns.extend(servers(&field(index, "ipv4"), config)?);
    }
    if let Some(config) = &network.ipv6 {
        found.v6 = method(&field(index, "ipv6"), config, Family::V6)?;
        found.dns.extend(servers(&field(index, "ipv6"), config)?);
    }
    if network.ipv4.is_none() && network.ipv6.is_none() {
        found.v4 = Method::Dhcp;
    }
    Ok(found)
}

fn method(field: &str, config: &IpConfig, family: Family) -> Result<Method, LowerError> {
    match (config.method.to_ascii_lowercase().as_str(), family) {
        ("static", _) => fixed(field, config, family).map(Method::Fixed),
        ("dhcp", _) => Ok(Method::Dhcp),
        ("auto" | "slaac", Family::V6) => Ok(Method::Auto),
        ("none" | "disabled", _) => Ok(Method::None),
        (word, Family::V4) => Err(LowerError::invalid(
            format!("{field}.method"),
            format!("There is no method {word:?}. Write dhcp or static"),
        )),
        (word, Family::V6) => Err(LowerError::invalid(
            format!("{field}.method"),
            format!("There is no method {word:?}. Write dhcp, static or auto"),
        )),
    }
}

fn fixed(field: &str, config: &IpConfig, family: Family) -> Result<Fixed, LowerError> {
    let at = format!("{field}.address");
    let Some(text) = config.address.as_deref().filter(|a| !a.is_empty()) else {
        let message = "Method static needs an address and its prefix, such as 10.0.1.10/24";
        return Err(LowerError::invalid(at, message));
    };
    let read = text.split_once('/').and_then(|(ip, prefix)| {
        let ip = ip.parse::<IpAddr>().ok().filter(|ip| is_of(ip, family))?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let prefix = prefix
            .parse::<u8>()
            .ok()
            .filter(|p| (1..=most).contains(p))?;
        Some((ip, prefix))
    });
    let example = match family {
        Family::V4 => "10.0.1.10/24",
        Family::V6 => "2001:db8::10/64",
    };
    let message = || format!("{text:?} is no address with a prefix, such as {example}");
    let (ip, prefix) = read.ok_or_else(|| LowerError::invalid(at, message()))?;
    Ok(Fixed {
        ip,
        prefix,
        gateway: gateway(field, config, family)?,
    })
}

fn gateway(field: &str, config: &IpConfig, family: Family) -> Result<Option<IpAddr>, LowerError> {
    let Some(text) = config.gateway.as_deref().filter(|g| !g.is_empty()) else {
        return Ok(None);
    };
    let read = text.parse().ok().filter(|ip| is_of(ip, family));
    read.map(Some).ok_or_else(|| {
        let message = format!("{text:?} is no address of the family. Write one without a prefix");
        LowerError::invalid(format!("{field}.gateway"), message)
    })
}

fn servers(field: &str, config: &IpConfig) -> Result<Vec<IpAddr>, LowerError> {
    let read = |(index, text): (usize, &String)| {
        text.parse().map_err(|_| {
            let message = format!("{text:?} is no address of a name server");
            LowerError::invalid(format!("{field}.dns[{index}]"), message)
        })
    };
    config.dns.iter().enumerate().map(read).collect()
}

const fn is_of(ip: &IpAddr, family: Family) -> bool {
    ip.is_ipv4() == matches!(family, Family::V4)
}
