//! What holds for a manager that is not told: in a pod as operators know it, elsewhere so that nobody else can reach it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{Bind, Manager};

const METRICS: u16 = 8080;
const PROBES: u16 = 8081;

/// Where a manager runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In a pod: kubelet and Prometheus come from outside, and there may be more than one.
    Pod,
    /// On somebody's machine.
    Elsewhere,
}

impl Home {
    /// That of this process.
    pub fn here() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    /// As the variables say that Kubernetes gives to every container.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        match variable("KUBERNETES_SERVICE_HOST") {
            Some(host) if !host.is_empty() => Self::Pod,
            _ => Self::Elsewhere,
        }
    }

    const fn address(self, port: u16) -> SocketAddr {
        let ip = match self {
            Self::Pod => Ipv4Addr::UNSPECIFIED,
            Self::Elsewhere => Ipv4Addr::LOCALHOST,
        };
        SocketAddr::new(IpAddr::V4(ip), port)
    }
}

impl Manager {
    /// Whether this manager works only while it holds a Lease.
    pub fn elects(&self, home: Home) -> bool {
        let told = self.vitistack.leader_election;
        told.unwrap_or(self.leader_elect || home == Home::Pod)
    }

    /// Where /metrics is served, if anywhere.
    pub fn metrics_address(&self, home: Home) -> Option<SocketAddr> {
        or(self.metrics_bind_address, home.address(METRICS))
    }

    /// Where /healthz and /readyz are served, if anywhere.
    pub fn probes_address(&self, home: Home) -> Option<SocketAddr> {
        or(self.health_probe_bind_address, home.address(PROBES))
    }
}

fn or(told: Option<Bind>, unsaid: SocketAddr) -> Option<SocketAddr> {
    told.map_or(Some(unsaid), |bind| bind.0)
}
