//! Which servers an image may come from. Whoever may write an image's address must not be able to have us ask the machine that we
//! run on, or its cloud, for things that only we can see.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::error::FetchError;
use super::source::{Source, public};

/// Which servers an image may come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// All but this machine and the addresses at which clouds tell secrets.
    #[default]
    Others,
    /// All, this machine too.
    Anywhere,
}

/// Addresses at which clouds answer whoever asks from inside, beside the link-local ones.
const METADATA: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// The IPv4 address that a gateway makes of an IPv6 one (64:ff9b::/96), or the address itself.
fn behind_the_gateway(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if v6.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0] => {
            let [.., a, b, c, d] = v6.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        canonical => canonical,
    }
}

/// Whether an address leads to this machine or its cloud.
pub fn is_inside(address: IpAddr) -> bool {
    let address = behind_the_gateway(address);
    let local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast() || v4.octets()[0] == 0,
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    local
        || address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || METADATA.contains(&address)
}

/// Refuses a server before anything is sent to it. A redirect is a server like any other.
pub(super) async fn check(reach: Reach, url: &Url) -> Result<(), FetchError> {
    if reach == Reach::Anywhere {
        return Ok(());
    }
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(80);
    let inside = match bare.parse() {
        Ok(address) => is_inside(address),
        Err(_) => match tokio::net::lookup_host((bare, port)).await {
            Ok(mut found) => found.all(|place| is_inside(place.ip())),
            // The connection tells why.
            Err(_) => false,
        },
    };
    if inside {
        return Err(FetchError::Inside {
            address: public(url),
        });
    }
    Ok(())
}

/// How long a name may take to be looked up for somebody else.
const LOOKUP: Duration = Duration::from_secs(3);

/// Refuses an address that somebody else is to fetch from: whoever that is looks its name up again, and takes any of the addresses
/// that it has. So one inside is one too many; a name that is not known here may be known there.
pub async fn refuse_inside(reach: Reach, address: &str) -> Result<(), FetchError> {
    let url = match Source::parse(address)? {
        Source::Http(url) => url,
        Source::Registry(image) => image.address()?,
        Source::File(_) => return Ok(()),
    };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let inside = match host.parse() {
        Ok(address) => is_inside(address),
        Err(_) => any_inside(host).await,
    };
    match (reach, inside) {
        (Reach::Others, true) => Err(FetchError::Inside {
            address: public(&url),
        }),
        _ => Ok(()),
    }
}

async fn any_inside(host: &str) -> bool {
    let found = tokio::time::timeout(LOOKUP, tokio::net::lookup_host((host, 0)));
    let Ok(Ok(mut found)) = found.await else {
        return false;
    };
    found.any(|place| is_inside(place.ip()))
}

/// Looks names up, and forgets answers that lead inside: a name may have another address the second time.
pub(super) struct Outside;

impl Resolve for Outside {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let outside: Vec<SocketAddr> = found.filter(|place| !is_inside(place.ip())).collect();
            let addresses: Addrs = Box::new(outside.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_and_its_cloud_are_inside_and_private_networks_are_not() {
        for inside in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "169.254.169.254",
            "100.100.100.200",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "224.0.0.1",
        ] {
            assert!(is_inside(inside.parse().unwrap()), "{inside}");
        }
        for outside in [
            "10.0.0.1",
            "192.168.1.1",
            "172.16.0.9",
            "8.8.8.8",
            "2001:db8::1",
            "fd12::1",
        ] {
            assert!(!is_inside(outside.parse().unwrap()), "{outside}");
        }
    }

    #[tokio::test]
    async fn addresses_are_refused_however_they_are_written() {
        for text in [
            "http://127.0.0.1/a",
            "http://2130706433/a",
            "http://0x7f.1/a",
            "http://[::1]:8080/a",
            "http://[::ffff:7f00:1]/a",
            "http://localhost/a",
            "http://169.254.169.254/latest/meta-data",
        ] {
            let url = Url::parse(text).unwrap();
            let refused = check(Reach::Others, &url).await;
            assert!(
                matches!(refused, Err(FetchError::Inside { .. })),
                "{text}: {refused:?}"
            );
            assert!(check(Reach::Anywhere, &url).await.is_ok(), "{text}");
        }
        let url = Url::parse("http://10.1.2.3/a").unwrap();
        assert!(check(Reach::Others, &url).await.is_ok());
    }

    #[tokio::test]
    async fn what_others_fetch_is_refused_by_its_server() {
        for (text, refused) in [
            ("http://169.254.169.254/latest/meta-data", true),
            ("http://0xa9fea9fe/x", true),
            ("https://[::ffff:169.254.169.254]/x", true),
            ("http://localhost:8080/x", true),
            ("docker://169.254.169.254/a/b:1", true),
            ("docker://localhost:5000/a", true),
            ("docker://quay.invalid/a/b:1", false),
            ("http://10.1.2.3/a", false),
            ("https://nowhere.invalid/a", false),
        ] {
            let answer = refuse_inside(Reach::Others, text).await;
            let inside = matches!(answer, Err(FetchError::Inside { .. }));
            assert_eq!(inside, refused, "{text}: {answer:?}");
            assert!(refuse_inside(Reach::Anywhere, text).await.is_ok(), "{text}");
        }
    }
}
