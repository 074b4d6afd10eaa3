//! `polyvirt up --with kubevirt`: two clusters beside the first one, in which a simulator behaves like KubeVirt.
//!
//! ```text
//!   supervisor: KubevirtConfig cluster-east ──Secret──► kube-apiserver + etcd + kubevirt-sim   in clusters/cluster-east
//!               KubevirtConfig cluster-west ──Secret──► kube-apiserver + etcd + kubevirt-sim   in clusters/cluster-west
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use kube::Client;
use kube::api::DynamicObject;
use polyvirt_testkit::Component;
use polyvirt_testkit::detached::{Service, ensure};
use polyvirt_testkit::kubevirt_sim::until_simulated;
use polyvirt_testkit::local::{self, FixedPorts, LocalPlane};
use serde_json::json;

use super::options::Ports;
use super::progress::{Done, Progress};
use super::{sample, told};

/// Where a newcomer finds them, as in the documents of the Viti Stack.
const NAMES: [&str; 2] = ["cluster-east", "cluster-west"];
/// The ports of a cluster are so far from those of the one before it.
const APART: u16 = 10;
/// The simulator among the processes of a cluster.
pub const SIMULATOR: &str = "kubevirt-sim";
const GRACE: Duration = Duration::from_secs(5);

/// The folders of clusters that were started here once.
pub fn there(folder: &Path) -> Vec<PathBuf> {
    let all = NAMES.map(|name| folder_of(folder, name));
    all.into_iter().filter(|folder| folder.is_dir()).collect()
}

/// The processes of a cluster, in the order in which they are stopped.
pub const PROCESSES: [(&str, Duration); 3] = [
    (SIMULATOR, GRACE),
    (Component::ApiServer.name(), local::GRACE),
    (Component::Etcd.name(), local::GRACE),
];

fn folder_of(folder: &Path, name: &str) -> PathBuf {
    folder.join("clusters").join(name)
}

/// Sees to it that all clusters run, and behave like KubeVirt.
pub async fn start(
    progress: &Progress,
    folder: &Path,
    ports: Ports,
) -> anyhow::Result<Vec<Running>> {
    let mut running = Vec::new();
    for (name, number) in NAMES.into_iter().zip(1_u16..) {
        let work = async {
            let ports = FixedPorts {
                etcd: ports.etcd + number * APART,
                apiserver: ports.api + number * APART,
            };
            let plane = LocalPlane::open(&folder_of(folder, name), ports).await?;
            plane.start_etcd().await?;
            let started = plane.start_apiserver().await?;
            simulate(&plane).await?;
            // A manager that meets a cluster without KubeVirt's kinds warns of it.
            until_simulated(&plane.client()?).await?;
            let done = told(&started, "ready", &plane.url());
            Ok((Running { name, plane }, done))
        };
        running.push(progress.step(name, work).await?);
    }
    Ok(running)
}

/// A cluster that runs.
pub struct Running {
    name: &'static str,
    plane: LocalPlane,
}

/// Sees to it that the supervisor knows the clusters.
pub async fn introduce_all(supervisor: &Client, clusters: &[Running]) -> anyhow::Result<()> {
    for cluster in clusters {
        introduce(supervisor, cluster.name, &cluster.plane).await?;
    }
    Ok(())
}

async fn simulate(plane: &LocalPlane) -> anyhow::Result<()> {
    let kubeconfig = plane.kubeconfig_path().display().to_string();
    let service = Service {
        name: SIMULATOR.to_owned(),
        program: std::env::current_exe().context("Cannot find this program's file")?,
        arguments: vec![SIMULATOR.to_owned(), "--kubeconfig".to_owned(), kubeconfig],
        variables: Vec::new(),
    };
    ensure(plane.folder(), &service, GRACE).await?;
    Ok(())
}

/// The Secret and the KubevirtConfig by which the manager finds the cluster.
async fn introduce(supervisor: &Client, name: &str, plane: &LocalPlane) -> anyhow::Result<()> {
    let kubeconfig = tokio::fs::read_to_string(plane.kubeconfig_path()).await?;
    let secret = format!("{name}-kubeconfig");
    let objects = [
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": secret, "namespace": "default"},
            "stringData": {"kubeconfig": kubeconfig},
        }),
        json!({
            "apiVersion": "vitistack.io/v1alpha1",
            "kind": "KubevirtConfig",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"name": name, "kubeconfigSecretRef": secret},
        }),
    ];
    let objects: Vec<DynamicObject> = objects
        .into_iter()
        .map(serde_json::from_value)
        .collect::<Result<_, _>>()?;
    sample::create_missing(supervisor, &objects).await?;
    Ok(())
}

/// What to try with them.
pub fn hints() -> String {
    let hint = |command: &str, meaning: &str| format!("  {command:<52} {meaning}");
    [
        String::new(),
        "With KubeVirt (simulated) in two clusters:".to_owned(),
        hint(
            "kubectl get kubevirtconfigs",
            "the clusters, and how they are",
        ),
        hint(
            "kubectl apply -f config/samples/machines.yaml",
            "two Machines, one in each",
        ),
        hint("kubectl get machines,vm", "and what became of them"),
    ]
    .join("\n")
}

/// Done when the command line says so.
pub fn wanted(asked: &[super::options::Extra], folder: &Path) -> bool {
    asked.contains(&super::options::Extra::Kubevirt) || !there(folder).is_empty()
}

/// Says how the clusters are stopped.
pub async fn stop(progress: &Progress, folder: &Path) -> anyhow::Result<()> {
    for cluster in there(folder) {
        let name = cluster.file_name().unwrap_or_default().to_string_lossy();
        let work = async {
            let mut stopped = 0;
            for (process, grace) in PROCESSES {
                if let Some(found) = polyvirt_testkit::detached::Detached::find(&cluster, process)?
                {
                    found.stop(grace).await?;
                    stopped += 1;
                }
            }
            let word = if stopped == 0 { "absent" } else { "stopped" };
            Ok(((), Done::new(word, "")))
        };
        progress.step(&name, work).await?;
    }
    Ok(())
}
