//! `polyvirt status`: what `polyvirt up` has started, and how it is.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use polyvirt_api::infra::{VMPhase, VirtualMachine};
use polyvirt_testkit::Component;
use polyvirt_testkit::detached::Detached;
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::table::{Cell, Colours, Paint, Table, age};
use super::up::options::{Ports, StatusFormat, StatusOptions};
use super::up::{clusters, controllers, manager};
use super::vm::phase_cell;
use crate::exit::Failure;

const PATIENCE: Duration = Duration::from_secs(5);

/// Everything that is known.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    healthy: bool,
    folder: String,
    kubeconfig: String,
    components: Vec<ComponentStatus>,
    virtual_machines: Vec<VmStatus>,
}

/// One process.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ComponentStatus {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    healthy: bool,
    message: String,
}

/// One VirtualMachine.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct VmStatus {
    namespace: String,
    name: String,
    phase: VMPhase,
    ips: Vec<String>,
    message: String,
}

/// Shows the status; fails if not all is well.
pub async fn run(options: StatusOptions) -> anyhow::Result<()> {
    let folder = options.folder.path()?;
    let status = look(&folder).await?;
    let text = match options.output {
        StatusFormat::Json => format!("{}\n", serde_json::to_string_pretty(&status)?),
        StatusFormat::Table => tables(&status, Timestamp::now(), Colours::of_stdout()),
    };
    let _ = std::io::stdout().write_all(text.as_bytes());
    if status.healthy {
        return Ok(());
    }
    Err(Failure::Said.into())
}

async fn look(folder: &Path) -> anyhow::Result<Status> {
    let ports = Ports::remembered(folder);
    let kubeconfig = folder.join("kubeconfig");
    let client = client(&kubeconfig).await;
    let mut components = vec![
        component(folder, Component::Etcd.name(), etcd(ports)).await?,
        component(folder, Component::ApiServer.name(), apiserver(&client)).await?,
        component(folder, controllers::NAME, std::future::ready(Ok(()))).await?,
        component(folder, manager::NAME, manager_health(ports)).await?,
    ];
    for cluster in clusters::there(folder) {
        components.extend(cluster_components(&cluster).await?);
    }
    let virtual_machines = match &client {
        Ok(client) => vms(client).await.unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let failed = virtual_machines
        .iter()
        .any(|vm| vm.phase == VMPhase::Failed);
    Ok(Status {
        healthy: components.iter().all(|c| c.healthy) && !failed,
        folder: folder.display().to_string(),
        kubeconfig: kubeconfig.display().to_string(),
        components,
        virtual_machines,
    })
}

/// The processes of a cluster of `--with kubevirt`, each with the name of the cluster before its own.
async fn cluster_components(cluster: &Path) -> anyhow::Result<Vec<ComponentStatus>> {
    let client = client(&cluster.join("kubeconfig")).await;
    let runs = || std::future::ready(Ok(()));
    let mut found = vec![
        component(cluster, Component::Etcd.name(), runs()).await?,
        component(cluster, Component::ApiServer.name(), apiserver(&client)).await?,
        component(cluster, clusters::SIMULATOR, runs()).await?,
    ];
    let name = cluster.file_name().unwrap_or_default().to_string_lossy();
    for part in &mut found {
        part.name = format!("{name}/{}", part.name);
    }
    Ok(found)
}

async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)
        .with_context(|| format!("No {}: run `polyvirt up`", kubeconfig.display()))?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.proxy_url = None;
    Ok(Client::try_from(config)?)
}

async fn component(
    folder: &Path,
    name: &'static str,
    health: impl Future<Output = Result<(), String>>,
) -> anyhow::Result<ComponentStatus> {
    let Some(process) = Detached::find(folder, name)? else {
        return Ok(ComponentStatus {
            name: name.to_owned(),
            pid: None,
            since: None,
            healthy: false,
            message: "does not run: `polyvirt up` starts it".to_owned(),
        });
    };
    let answer = timeout(PATIENCE, health).await;
    let answer = answer.unwrap_or_else(|_| Err("does not answer".to_owned()));
    Ok(ComponentStatus {
        name: name.to_owned(),
        pid: Some(process.pid()),
        since: i64::try_from(process.since())
            .ok()
            .and_then(|seconds| Timestamp::from_second(seconds).ok()),
        healthy: answer.is_ok(),
        message: answer.err().unwrap_or_else(|| "healthy".to_owned()),
    })
}

async fn etcd(ports: Ports) -> Result<(), String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports.etcd));
    let connection = TcpStream::connect(address).await;
    connection.map(drop).map_err(|error| error.to_string())
}

async fn apiserver(client: &anyhow::Result<Client>) -> Result<(), String> {
    match client {
        Ok(client) => polyvirt_testkit::probe(client).await,
        Err(error) => Err(format!("{error:#}")),
    }
}

async fn manager_health(ports: Ports) -> Result<(), String> {
    let health = manager::health(ports).await;
    health.map_err(|error| format!("{error:#}"))
}

async fn vms(client: &Client) -> Result<Vec<VmStatus>, String> {
    let api = Api::<VirtualMachine>::all(client.clone());
    let list = timeout(PATIENCE, api.list(&ListParams::default())).await;
    let list = list
        .map_err(|_| "no answer".to_owned())?
        .map_err(|error| error.to_string())?;
    Ok(list.items.into_iter().map(vm_status).collect())
}

fn vm_status(vm: VirtualMachine) -> VmStatus {
    let (namespace, name) = (vm.namespace().unwrap_or_default(), vm.name_any());
    let status = vm.status.unwrap_or_default();
    VmStatus {
        namespace,
        name,
        phase: status.phase.unwrap_or_default(),
        ips: status.ips,
        message: status.message.unwrap_or_default(),
    }
}

fn tables(status: &Status, now: Timestamp, colours: Colours) -> String {
    let mut components = Table::new(&["COMPONENT", "PID", "SINCE", "HEALTH"]);
    for part in &status.components {
        let pid = part.pid.map(|pid| pid.to_string()).unwrap_or_default();
        let since = part.since.map(|since| age(since, now)).unwrap_or_default();
        let paint = if part.healthy {
            Paint::Good
        } else {
            Paint::Bad
        };
        let health = Cell::new(&part.message, paint);
        components.row(vec![
            part.name.as_str().into(),
            pid.into(),
            since.into(),
            health,
        ]);
    }
    let mut text = components.render(colours);
    if !status.virtual_machines.is_empty() {
        text.push('\n');
        text.push_str(&vm_table(&status.virtual_machines).render(colours));
    }
    text
}

fn vm_table(vms: &[VmStatus]) -> Table {
    let mut table = Table::new(&["NAMESPACE", "VM", "PHASE", "IPS", "MESSAGE"]);
    for vm in vms {
        table.row(vec![
            vm.namespace.as_str().into(),
            vm.name.as_str().into(),
            phase_cell(vm.phase),
            vm.ips.join(",").into(),
            vm.message.as_str().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_empty_folder_is_not_healthy_and_says_what_to_do() {
        let dir = tempfile::tempdir().expect("a folder");
        let status = look(dir.path()).await.expect("looked at");
        assert!(!status.healthy);
        let text = tables(&status, Timestamp::now(), Colours::Off);
        assert!(text.contains("polyvirt up"), "{text}");
        assert_eq!(text.lines().count(), 5, "{text}");
    }

    #[tokio::test]
    async fn the_clusters_of_kubevirt_are_listed() {
        let dir = tempfile::tempdir().expect("a folder");
        let cluster = dir.path().join("clusters/cluster-east");
        std::fs::create_dir_all(&cluster).expect("a folder");
        let status = look(dir.path()).await.expect("looked at");
        let names: Vec<_> = status.components.iter().map(|c| c.name.as_str()).collect();
        let expected = [
            "cluster-east/etcd",
            "cluster-east/kube-apiserver",
            "cluster-east/kubevirt-sim",
        ];
        assert_eq!(names[4..], expected);
        assert!(!status.healthy);
    }
}
