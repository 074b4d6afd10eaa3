//! Three clusters with Machines, and what is done to them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::join_all;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use polyvirt_dialects::vitistack::Settings;
use serde_json::{Value, json};

use crate::manager::Manager;
use crate::proxy::Proxy;
use crate::site::{PATIENCE, Site, introduce, machine};

pub const CLUSTERS: [&str; 3] = ["cluster-east", "cluster-north", "cluster-west"];
/// The KubeVirt of each.
pub const VERSIONS: [&str; 3] = ["v1.8.0", "v1.7.1", "v1.8.0"];
pub const NS: &str = "fleet";
/// Machines of the sick cluster that are edited while it is sick.
pub const EDITED: usize = 10;
/// Machines of each cluster whose reaction is timed.
const TIMED: usize = 3;
/// Machines that name no cluster, so that all have to be asked.
const LOST: usize = 6;
/// A number of Machines that every run of the tests can afford.
const FEW: usize = 60;

pub fn machines() -> usize {
    let said = std::env::var("POLYVIRT_TEST_MACHINES").ok();
    said.and_then(|text| text.parse().ok()).unwrap_or(FEW)
}

/// How long nobody may write.
fn rest() -> Duration {
    Duration::from_secs(if machines() > FEW { 30 } else { 5 })
}

fn name(number: usize) -> String {
    format!("m{number:03}")
}

fn lost(number: usize) -> String {
    format!("lost{number}")
}

pub struct Fleet {
    pub supervisor: Site,
    pub clusters: Vec<Site>,
    pub wire: Proxy,
    pub manager: Manager,
}

impl Fleet {
    pub async fn start() -> Self {
        let supervisor = Site::supervisor().await;
        supervisor.namespace(NS).await;
        let start = |version| async move { Site::bare().await.with_version(version).await };
        let clusters = join_all(VERSIONS.map(start)).await;
        let wire = Proxy::to(&clusters[0].plane.url()).await;
        let slow = format!("https://127.0.0.1:{}", wire.port);
        let east = clusters[0]
            .kubeconfig()
            .replace(&clusters[0].plane.url(), &slow);
        let north = with_token(&clusters[1], "first").await;
        let kubeconfigs = [east, north, clusters[2].kubeconfig()];
        for (cluster, kubeconfig) in CLUSTERS.iter().zip(kubeconfigs) {
            introduce(&supervisor, "default", cluster, &kubeconfig).await;
        }
        let manager = Manager::ready(&supervisor, Settings::default()).await;
        Self {
            supervisor,
            clusters,
            wire,
            manager,
        }
    }

    /// Numbers of the Machines in a cluster.
    pub fn of(&self, cluster: usize) -> Vec<String> {
        let all = (0..machines()).filter(|number| number % CLUSTERS.len() == cluster);
        all.map(name).collect()
    }

    pub async fn declare(&self) {
        let each = (0..machines()).map(|number| async move {
            let mut manifest = machine(NS, &name(number), json!({"template": "small"}));
            let cluster = CLUSTERS[number % CLUSTERS.len()];
            manifest["metadata"]["annotations"] = json!({"vitistack.io/kubevirt-config": cluster});
            self.supervisor.apply(manifest).await;
        });
        let mut done = futures::stream::iter(each).buffer_unordered(8);
        while done.next().await.is_some() {}
    }

    pub async fn all_running(&self) {
        let deadline = Instant::now() + PATIENCE * 2;
        loop {
            let all = self.supervisor.list("Machine", NS).await;
            let waiting = all.iter().find(|m| m["status"]["phase"] != "Running");
            let Some(waiting) = waiting else { return };
            assert!(Instant::now() < deadline, "one never runs: {waiting:#}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    pub async fn power(&self, machine: &str, state: &str) {
        let change = json!({"metadata": {"annotations": {"vitistack.io/power-state": state}}});
        self.supervisor
            .merge("Machine", (NS, machine), change)
            .await;
    }

    /// The median time from an edit of a Machine to the status that shows its effect.
    pub async fn reaction(&self, clusters: &[usize]) -> Duration {
        let mut took = Vec::new();
        for cluster in clusters {
            for machine in self.of(*cluster).iter().take(TIMED) {
                for (state, phase) in [("Off", "Stopped"), ("On", "Running")] {
                    let begin = Instant::now();
                    self.power(machine, state).await;
                    self.supervisor.phase((NS, machine), phase).await;
                    took.push(begin.elapsed());
                }
            }
        }
        took.sort();
        took[took.len() / 2]
    }

    /// Has work for a cluster that cannot do it.
    pub async fn edit(&self, cluster: usize, state: &str) {
        for machine in self.of(cluster).iter().take(EDITED) {
            self.power(machine, state).await;
        }
    }

    pub async fn edited(&self, cluster: usize, phase: &str) {
        for machine in self.of(cluster).iter().take(EDITED) {
            self.supervisor.phase((NS, machine), phase).await;
        }
    }

    pub async fn config(&self, cluster: usize, phase: &str) -> Value {
        let is = |c: &Value| c["status"]["phase"] == phase;
        let place = ("default", CLUSTERS[cluster]);
        self.supervisor
            .until("KubevirtConfig", place, phase, is)
            .await
    }

    /// What tells the VMs of a cluster from others of their names.
    pub async fn uids(&self, cluster: usize) -> BTreeSet<String> {
        let vms = self.clusters[cluster].list("VM", NS).await.into_iter();
        vms.map(|vm| vm["metadata"]["uid"].to_string()).collect()
    }

    fn writes(&self) -> Vec<usize> {
        let sites = std::iter::once(&self.supervisor).chain(&self.clusters);
        sites.map(|site| site.writes().len()).collect()
    }

    pub fn tell_costs(&self) {
        let places = CLUSTERS.len() + 1;
        println!("0 writes in {places} clusters in {:?} of rest", rest());
        let writes = self.supervisor.writes();
        let of = |kind: &str| {
            writes
                .iter()
                .filter(|w| w.resource.starts_with(kind))
                .count()
        };
        for kind in ["machines", "virtualmachines", "networkconfigurations"] {
            println!(
                "{kind}: {:.1} writes a Machine",
                of(kind) as f64 / machines() as f64
            );
        }
    }

    /// Machines of which nobody says where they go.
    pub async fn lose(&self) {
        for number in 0..LOST {
            let spec = json!({"template": "small"});
            self.supervisor
                .apply(machine(NS, &lost(number), spec))
                .await;
        }
    }

    pub async fn undecided(&self) {
        for number in 0..LOST {
            let told = |m: &Value| {
                let message = m["status"]["message"].as_str().unwrap_or_default();
                message.contains("cannot determine placement")
            };
            let place = (NS, &*lost(number));
            self.supervisor
                .until("Machine", place, "undecided", told)
                .await;
            self.supervisor.delete("Machine", place).await;
        }
    }

    /// Waits for a time in which nobody writes. The simulators have to come to rest too.
    pub async fn rests(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let before = self.writes();
            tokio::time::sleep(rest()).await;
            let after = self.writes();
            if before == after {
                return;
            }
            let last: Vec<_> = self.supervisor.writes().into_iter().rev().take(5).collect();
            assert!(
                Instant::now() < deadline,
                "no rest: {before:?} {after:?}: {last:#?}"
            );
        }
    }
}

/// A kubeconfig with the token of a ServiceAccount that may do everything.
pub async fn with_token(site: &Site, account: &str) -> String {
    site.apply(json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": account, "namespace": "default"},
    }))
    .await;
    site.apply(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": account},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    }))
    .await;
    let api: Api<ServiceAccount> = Api::namespaced(site.client.clone(), "default");
    let wish = TokenRequest {
        spec: TokenRequestSpec::default(),
        ..TokenRequest::default()
    };
    let made = api
        .create_token_request(account, &PostParams::default(), &wish)
        .await
        .unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&site.kubeconfig()).unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": made.status.unwrap().token});
    kubeconfig.to_string()
}
