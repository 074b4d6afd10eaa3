//! The manager as a process that stays.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::CommandFactory as _;
use polyvirt_testkit::detached::{Detached, Service, Started, ensure};
use polyvirt_testkit::local::claim_port;

use super::options::Ports;
use crate::cli::{Cli, Global};
use crate::commands::probes;

/// Its name among the processes of the folder.
pub const NAME: &str = "manager";
/// Passes under way are given 10 s of it.
pub const GRACE: Duration = Duration::from_secs(20);
/// Says where KubevirtConfigs are.
const CONFIGS_NAMESPACE: &str = "KUBEVIRT_CONFIGS_NAMESPACE";
const READY_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// Sees to it that the manager of this program runs, and returns when it works.
pub async fn start(
    folder: &Path,
    kubeconfig: &Path,
    ports: Ports,
    logs: &Global,
) -> anyhow::Result<(Detached, Started)> {
    let service = service(kubeconfig, ports, logs)?;
    for port in [ports.metrics, ports.health, ports.gateway, ports.webhook] {
        claim_port(folder, &service, port)?;
    }
    let (mut process, started) = ensure(folder, &service, GRACE).await?;
    let begin = Instant::now();
    while let Err(reason) = health(ports).await {
        process.check_alive()?;
        if begin.elapsed() > READY_LIMIT {
            bail!(
                "The manager is not ready after {} s ({reason:#}); its log is {}",
                READY_LIMIT.as_secs(),
                process.log().display()
            );
        }
        tokio::time::sleep(POLL).await;
    }
    Ok((process, started))
}

fn service(kubeconfig: &Path, ports: Ports, logs: &Global) -> anyhow::Result<Service> {
    let here = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string();
    let words = [
        "manager".to_owned(),
        "--kubeconfig".to_owned(),
        kubeconfig.display().to_string(),
        "--metrics-bind-address".to_owned(),
        here(ports.metrics),
        "--health-probe-bind-address".to_owned(),
        here(ports.health),
        "--gateway-bind-address".to_owned(),
        here(ports.gateway),
        "--gateway-host".to_owned(),
        "localhost".to_owned(),
        "--remote-providers=processes".to_owned(),
        "--webhook-bind-address".to_owned(),
        here(ports.webhook),
        "--webhook-url".to_owned(),
        format!("https://{}", here(ports.webhook)),
        "--log-level".to_owned(),
        logs.log_level.clone(),
        "--log-format".to_owned(),
        logs.log_format.word().to_owned(),
    ];
    let mut arguments = words.to_vec();
    if std::env::var_os(CONFIGS_NAMESPACE).is_none() {
        // One user has this machine: nobody's KubevirtConfigs are kept apart by their namespaces.
        arguments.push("--kubevirt-configs-namespace=*".to_owned());
    }
    Ok(Service {
        name: NAME.to_owned(),
        program: std::env::current_exe().context("Cannot find this program's file")?,
        arguments,
        variables: variables(),
    })
}

/// The variables that the manager reads beside its command line.
fn variables() -> Vec<String> {
    let program = Cli::command();
    let manager = program.find_subcommand("manager");
    let options = manager.into_iter().flat_map(clap::Command::get_arguments);
    let named = options.filter_map(|option| option.get_env());
    named
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

/// Fails with the reason if it does not work.
pub async fn health(ports: Ports) -> anyhow::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports.health));
    probes::fetch(address, "/readyz").await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_what_the_manager_reads_is_noticed() {
        let names = variables();
        assert!(
            names.iter().any(|name| name == CONFIGS_NAMESPACE),
            "{names:?}"
        );
        assert!(names.iter().any(|name| name == "DEFAULT_KUBEVIRT_CONFIG"));
    }
}
