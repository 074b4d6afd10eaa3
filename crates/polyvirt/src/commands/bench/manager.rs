//! The manager, and what its counters say.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::running::{Running, free_address};
use crate::commands::probes::fetch;

/// A running manager; dropping it kills it.
pub struct Manager {
    pub process: Running,
    metrics: SocketAddr,
}

/// What the manager's counters say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Passes since it was started.
    pub passes: u64,
    /// Objects that wait to be looked at.
    pub waiting: u64,
}

impl Manager {
    /// Starts this program as a manager of one namespace and returns when its caches are filled.
    pub async fn start(kubeconfig: &Path, namespace: &str, log: PathBuf) -> anyhow::Result<Self> {
        let (probes, metrics) = (free_address().await?, free_address().await?);
        let arguments = arguments(kubeconfig, namespace, probes, metrics);
        let process = Running::start("manager", &arguments, probes, log).await?;
        Ok(Self { process, metrics })
    }

    /// What its counters say.
    pub async fn activity(&mut self) -> anyhow::Result<Activity> {
        self.process.check_alive()?;
        let text = fetch(self.metrics, "/metrics")
            .await
            .context("The manager does not serve its metrics")?;
        Ok(activity(&text))
    }
}

fn arguments(
    kubeconfig: &Path,
    namespace: &str,
    probes: SocketAddr,
    metrics: SocketAddr,
) -> Vec<String> {
    let kubeconfig = kubeconfig.display().to_string();
    let (probes, metrics) = (probes.to_string(), metrics.to_string());
    let words = [
        "manager",
        "--kubeconfig",
        &kubeconfig,
        "--namespaces",
        namespace,
    ];
    let addresses = [
        "--health-probe-bind-address",
        &probes,
        "--metrics-bind-address",
        &metrics,
    ];
    words
        .into_iter()
        .chain(addresses)
        .map(str::to_owned)
        .collect()
}

fn activity(metrics: &str) -> Activity {
    let sum = |name: &str| {
        let lines = metrics.lines().filter(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        lines
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum()
    };
    Activity {
        passes: sum("virtrigaud_manager_reconcile_total"),
        waiting: sum("virtrigaud_queue_depth"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_their_labels() {
        let text = "# TYPE virtrigaud_manager_reconcile counter\n\
                    virtrigaud_manager_reconcile_total{kind=\"VMClass\",outcome=\"success\"} 3\n\
                    virtrigaud_manager_reconcile_total{kind=\"Provider\",outcome=\"wait\"} 4\n\
                    virtrigaud_queue_depth 5\n";
        assert_eq!(
            activity(text),
            Activity {
                passes: 7,
                waiting: 5
            }
        );
    }
}
