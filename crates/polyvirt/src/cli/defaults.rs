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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn manager(words: &[&str]) -> Manager {
        let all = ["polyvirt", "manager"].iter().chain(words);
        match Cli::parse_from(all).command {
            Command::Manager(manager) => *manager,
            other => panic!("{other:?}"),
        }
    }

    fn shown(address: Option<SocketAddr>) -> String {
        address.map_or_else(|| "none".to_owned(), |a| a.to_string())
    }

    /// The words on the command line, and what holds in a pod and elsewhere: metrics, probes, election.
    #[test]
    fn a_pod_has_the_defaults_of_the_operators_table() {
        let rows: [(&[&str], [&str; 3], [&str; 3]); 4] = [
            (
                &[],
                ["0.0.0.0:8080", "0.0.0.0:8081", "true"],
                ["127.0.0.1:8080", "127.0.0.1:8081", "false"],
            ),
            (
                &["--metrics-bind-address=:9", "--health-probe-bind-address=0"],
                ["0.0.0.0:9", "none", "true"],
                ["0.0.0.0:9", "none", "false"],
            ),
            (
                &["--leader-election=false"],
                ["0.0.0.0:8080", "0.0.0.0:8081", "false"],
                ["127.0.0.1:8080", "127.0.0.1:8081", "false"],
            ),
            (
                &["--leader-elect"],
                ["0.0.0.0:8080", "0.0.0.0:8081", "true"],
                ["127.0.0.1:8080", "127.0.0.1:8081", "true"],
            ),
        ];
        for (words, pod, elsewhere) in rows {
            let manager = manager(words);
            for (home, expected) in [(Home::Pod, pod), (Home::Elsewhere, elsewhere)] {
                let found = [
                    shown(manager.metrics_address(home)),
                    shown(manager.probes_address(home)),
                    manager.elects(home).to_string(),
                ];
                assert_eq!(found, expected, "{words:?} {home:?}");
            }
        }
    }

    #[test]
    fn kubernetes_tells_a_container_that_it_is_one() {
        let with = |value: Option<&str>| Home::of(|_| value.map(str::to_owned));
        assert_eq!(with(Some("10.0.0.1")), Home::Pod);
        assert_eq!(with(Some("")), Home::Elsewhere);
        assert_eq!(with(None), Home::Elsewhere);
    }
}
