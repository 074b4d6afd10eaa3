//! Which addresses may be called. Pure.

use std::net::IpAddr;
use std::str::FromStr;

use polyvirt_disks::fetch::is_inside;

/// Addresses such as `10.96.0.0/12`; one alone is a range, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    first: IpAddr,
    bits: u8,
}

/// What is no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no range of addresses; write 10.96.0.0/12, fd00:96::/112 or one address")]
pub struct BadRange(String);

impl FromStr for Range {
    type Err = BadRange;

    fn from_str(text: &str) -> Result<Self, BadRange> {
        let bad = || BadRange(text.to_owned());
        let (first, bits) = match text.trim().split_once('/') {
            Some((first, bits)) => (first, Some(bits)),
            None => (text.trim(), None),
        };
        let first: IpAddr = first.parse().map_err(|_| bad())?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| bad())?;
        (bits <= most)
            .then_some(Self { first, bits })
            .ok_or_else(bad)
    }
}

impl Range {
    /// Whether the address lies in it. One of IPv4 that is written as IPv6 is one of IPv4.
    pub fn covers(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let differ = from_the_left(self.first) ^ from_the_left(address);
        self.first.is_ipv4() == address.is_ipv4() && differ.leading_zeros() >= u32::from(self.bits)
    }
}

fn from_the_left(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Which addresses may be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Whatever else holds, these may.
    pub allowed: Vec<Range>,
    /// These may not, beside this machine and its cloud.
    pub denied: Vec<Range>,
}

impl Policy {
    /// Whether the address may be called.
    pub fn permits(&self, address: IpAddr) -> bool {
        let any = |ranges: &[Range]| ranges.iter().any(|range| range.covers(address));
        any(&self.allowed) || !(is_inside(address) || any(&self.denied))
    }

    /// The same, with more that may not be called.
    #[must_use]
    pub fn but(mut self, denied: Vec<Range>) -> Self {
        self.denied.extend(denied);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Range {
        text.parse().expect("a range")
    }

    #[test]
    fn a_range_covers_what_begins_as_it_does() {
        for (text, inside, outside) in [
            ("10.96.0.0/12", "10.111.255.255", "10.112.0.0"),
            ("10.96.0.1", "10.96.0.1", "10.96.0.2"),
            ("0.0.0.0/0", "255.1.2.3", "::1"),
            ("fd00:96::/112", "fd00:96::ffff", "fd00:96::1:0"),
            ("10.0.0.0/8", "::ffff:10.1.1.1", "::a01:101"),
        ] {
            let at = |text: &str| text.parse().expect("an address");
            assert!(range(text).covers(at(inside)), "{text} {inside}");
            assert!(!range(text).covers(at(outside)), "{text} {outside}");
        }
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0/8",
            "fd00::/129",
            "name",
            "1.2.3.4/-1",
        ] {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_allowed_goes_before_what_is_not() {
        let policy = Policy {
            allowed: vec![range("10.96.7.0/24"), range("127.0.0.1")],
            denied: vec![range("10.96.0.0/12")],
        };
        for (address, permitted) in [
            ("10.96.7.1", true),
            ("127.0.0.1", true),
            ("10.96.0.1", false),
            ("127.0.0.2", false),
            ("169.254.169.254", false),
            ("fd00:ec2::254", false),
            ("::ffff:169.254.169.254", false),
            ("64:ff9b::a9fe:a9fe", false),
            ("192.168.1.9", true),
            ("2001:db8::1", true),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(policy.permits(address), permitted, "{address}");
        }
    }
}
