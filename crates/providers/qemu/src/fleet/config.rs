//! `qemu+tls://hv-a.example:9443,qemu+tls://hv-b.example:9443`.

use polyvirt_contract::Credentials;
use polyvirt_contract::grpc::{Pem, ServerCheck, Target, TlsFiles};

/// What every address of a host begins with.
const ENCRYPTED: &str = "qemu+tls://";
const PLAIN: &str = "qemu+tcp://";

/// Hosts that are one provider.
#[derive(Clone, Debug)]
pub struct FleetConfig {
    pub(super) hosts: Vec<HostConfig>,
}

/// One host.
#[derive(Clone, Debug)]
pub(super) struct HostConfig {
    pub(super) target: Target,
    /// Where it is, without the port: other hosts reach it there, unless it says otherwise.
    pub(super) address: String,
    pub(super) link: Link,
}

/// Whether others can read what is said to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Encrypted,
    /// For a laboratory only.
    Plain,
}

/// Why a configuration could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleetConfigError {
    /// It is no list of hosts.
    #[error(
        "Cannot read {0:?} as a host of QEMU; write qemu+tls://HOST:PORT for each, with commas between them"
    )]
    NotAHost(String),
    /// A host is there twice.
    #[error("The host {0:?} is in the list twice; name each once")]
    Twice(String),
    /// Certificates are missing.
    #[error(
        "The credentials have no key {0}; the Secret of the Provider needs ca.crt, tls.crt and tls.key to reach hosts by qemu+tls"
    )]
    NoCertificate(&'static str),
}

impl FleetConfig {
    /// Whether an endpoint names hosts by their addresses, and not a folder of this machine.
    pub fn is_fleet(url: &str) -> bool {
        url.starts_with(ENCRYPTED) || url.starts_with(PLAIN)
    }

    /// Says what is wrong with an endpoint.
    pub fn check(url: &str) -> Result<(), FleetConfigError> {
        addresses(url).map(drop)
    }

    /// Reads a `Provider.spec.endpoint` and the certificates in the credentials.
    pub fn from_url(
        url: &str,
        credentials: &Credentials,
        check: ServerCheck,
    ) -> Result<Self, FleetConfigError> {
        let host = |(link, address): (Link, String)| {
            let mut target = Target::new(address.clone());
            if link == Link::Encrypted {
                target = target.with_tls(certificates(credentials, check)?);
            }
            Ok(HostConfig {
                target,
                address: without_port(&address).to_owned(),
                link,
            })
        };
        let hosts: Result<Vec<_>, _> = addresses(url)?.into_iter().map(host).collect();
        Ok(Self { hosts: hosts? })
    }
}

fn certificates(
    credentials: &Credentials,
    check: ServerCheck,
) -> Result<TlsFiles, FleetConfigError> {
    let pem = |key: &'static str| {
        let found = credentials.iter().find(|(name, _)| *name == key);
        let found = found.map(|(_, value)| Pem::Inline(value.clone()));
        found.ok_or(FleetConfigError::NoCertificate(key))
    };
    Ok(TlsFiles {
        ca: pem("ca.crt")?,
        cert: pem("tls.crt")?,
        key: pem("tls.key")?,
        domain_name: None,
        check,
    })
}

fn addresses(url: &str) -> Result<Vec<(Link, String)>, FleetConfigError> {
    let mut all: Vec<(Link, String)> = Vec::new();
    for part in url.split(',').map(str::trim) {
        let bad = || FleetConfigError::NotAHost(part.to_owned());
        let encrypted = part.strip_prefix(ENCRYPTED).map(|a| (Link::Encrypted, a));
        let plain = || part.strip_prefix(PLAIN).map(|a| (Link::Plain, a));
        let (link, address) = encrypted.or_else(plain).ok_or_else(bad)?;
        let address = address.trim_end_matches('/');
        if !is_address(address) {
            return Err(bad());
        }
        if all.iter().any(|(_, known)| known == address) {
            return Err(FleetConfigError::Twice(address.to_owned()));
        }
        all.push((link, address.to_owned()));
    }
    Ok(all)
}

fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
    !host.is_empty() && host.chars().all(fits) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn without_port(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_matches(['[', ']'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Credentials {
        let keys = ["ca.crt", "tls.crt", "tls.key"];
        keys.into_iter().map(|key| (key, "pem")).collect()
    }

    #[test]
    fn the_example_of_the_documentation_is_read() {
        let url = "qemu+tls://hv-a.example:9443, qemu+tls://[fd00::2]:9443/";
        assert!(FleetConfig::is_fleet(url));
        let config = FleetConfig::from_url(url, &secret(), ServerCheck::Full).expect("readable");
        let addresses: Vec<_> = config.hosts.iter().map(|h| h.address.as_str()).collect();
        assert_eq!(addresses, ["hv-a.example", "fd00::2"]);
        assert!(config.hosts.iter().all(|h| h.link == Link::Encrypted));
        assert!(config.hosts.iter().all(|h| h.target.tls.is_some()));
        assert!(!FleetConfig::is_fleet("qemu:///var/lib/polyvirt/qemu"));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (url, word) in [
            ("qemu+tls://a", "HOST:PORT"),
            ("qemu+tls://a:0", "HOST:PORT"),
            ("qemu+tls://a:1,", "HOST:PORT"),
            ("qemu+tls://a:1,qemu:///var", "qemu:///var"),
            ("qemu+tls://a b:1", "HOST:PORT"),
            ("qemu+tls://a:1,qemu+tls://a:1", "twice"),
        ] {
            let error = FleetConfig::check(url).expect_err(url).to_string();
            assert!(error.contains(word), "{url}: {error}");
        }
        let none = Credentials::default();
        let error = FleetConfig::from_url("qemu+tls://a:1", &none, ServerCheck::Full);
        assert!(error.expect_err("no key").to_string().contains("ca.crt"));
        FleetConfig::from_url("qemu+tcp://a:1", &none, ServerCheck::Full).expect("plain");
    }
}
