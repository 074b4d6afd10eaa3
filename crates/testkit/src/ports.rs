use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use serde::{Deserialize, Serialize};

use crate::error::Error;

// Below the range from which Linux takes the ports of outgoing connections, so that none of those
// can sit on a port between two starts, and below the node ports of Kubernetes.
const LOWEST: u64 = 20_000;
const COUNT: u64 = 10_000;
const TRIES: usize = 200;

/// Where the components listen on loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) apiserver: u16,
}

impl Ports {
    /// Two ports that were free a moment ago; whoever binds them must be ready to try again.
    pub(crate) fn pick() -> Result<Self, Error> {
        let etcd = listen_somewhere()?;
        let apiserver = listen_somewhere()?;
        Ok(Self {
            etcd: port_of(&etcd)?,
            apiserver: port_of(&apiserver)?,
        })
    }

    pub(crate) fn apiserver_url(self) -> String {
        format!("https://127.0.0.1:{}", self.apiserver)
    }

    pub(crate) fn etcd_url(self) -> String {
        format!("https://127.0.0.1:{}", self.etcd)
    }
}

fn listen_somewhere() -> Result<TcpListener, Error> {
    let mut failure = None;
    for _ in 0..TRIES {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, random_port())) {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = Some(error),
        }
    }
    Err(no_port(failure.unwrap_or_else(|| {
        std::io::Error::other("no port was tried")
    })))
}

fn random_port() -> u16 {
    let random = RandomState::new().build_hasher().finish();
    u16::try_from(LOWEST + random % COUNT).unwrap_or(u16::MAX)
}

fn port_of(listener: &TcpListener) -> Result<u16, Error> {
    listener
        .local_addr()
        .map(|address| address.port())
        .map_err(no_port)
}

fn no_port(source: std::io::Error) -> Error {
    Error::Io {
        doing: "find a free port on 127.0.0.1".to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_two_free_ports_of_its_range() {
        let ports = Ports::pick().unwrap();
        assert_ne!(ports.etcd, ports.apiserver);
        for port in [ports.etcd, ports.apiserver] {
            assert!((20_000..30_000).contains(&port), "{port}");
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        }
    }
}
