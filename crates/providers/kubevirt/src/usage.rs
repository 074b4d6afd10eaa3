//! What VMs use, as the metrics API of the cluster tells it: one list for all of them, and only when somebody asks.
//!
//! It tells rates, averaged over a window that ended a moment ago, and the contract asks for time. So rates are added up here.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::core::DynamicObject;
use polyvirt_api::duration::GoDuration;
use polyvirt_contract::Result;
use polyvirt_contract::model::VmUsage;

use crate::cluster::Cluster;
use crate::kinds::{Kind, VmKey, items, label, text};
use crate::quantity;
use crate::vm::Core;

/// The pods in which machines run.
const LAUNCHERS: &str = "kubevirt.io=virt-launcher";
const PREFIX: &str = "virt-launcher-";
/// Label of such a pod: the host name of its machine.
const HOST_NAME: &str = "vm.kubevirt.io/name";
/// Kubernetes cuts the names that it makes up here.
const LONGEST_NAME: usize = 63;

/// The processor time that each VM has used since somebody asked first.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<BTreeMap<VmKey, Spent>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spent {
    until: Timestamp,
    time: Duration,
}

/// What one pod used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    at: Timestamp,
    window: Duration,
    nanocores: u64,
    memory_bytes: u64,
}

/// Whether the cluster tells.
pub(crate) async fn is_told(cluster: &Cluster) -> bool {
    let group = Kind::PodMetrics.api_version();
    let client = cluster.client();
    let served = client.list_api_group_resources(&group);
    cluster.ask("Looking for metrics", served).await.is_ok()
}

/// What the running VMs use. One that has just started is not told of yet.
pub(crate) async fn of_all(core: &Core) -> Result<Vec<VmUsage>> {
    let pods = core.cluster.everywhere(Kind::PodMetrics);
    let launchers = ListParams::default().labels(LAUNCHERS);
    let listed = core
        .cluster
        .list_served(Kind::PodMetrics, pods, &launchers)
        .await?;
    let objects = listed.unwrap_or_default().objects;
    Ok(core.usage.add(&by_vm(&objects)))
}

/// A VM on its way to another node has two pods.
fn by_vm(pods: &[DynamicObject]) -> BTreeMap<VmKey, Reading> {
    let mut found: BTreeMap<VmKey, Reading> = BTreeMap::new();
    for (key, reading) in pods.iter().filter_map(|pod| Some((of(pod)?, read(pod)?))) {
        let sum = |known: &mut Reading| {
            known.nanocores += reading.nanocores;
            known.memory_bytes += reading.memory_bytes;
        };
        found.entry(key).and_modify(sum).or_insert(reading);
    }
    found
}

/// The VM of a pod. Its name is in the name of the pod, unless that was cut.
fn of(pod: &DynamicObject) -> Option<VmKey> {
    let name = pod.metadata.name.as_deref()?;
    let (whole, _) = name.strip_prefix(PREFIX)?.rsplit_once('-')?;
    let vm = match name.len() {
        ..LONGEST_NAME => whole,
        _ => label(pod, HOST_NAME)?,
    };
    Some(VmKey::new(pod.metadata.namespace.as_deref()?, vm))
}

fn read(pod: &DynamicObject) -> Option<Reading> {
    let containers = items(&pod.data, "/containers");
    let cores = containers.iter().map(|c| text(c, "/usage/cpu"));
    let memory = containers.iter().map(|c| text(c, "/usage/memory"));
    let window = GoDuration::new(text(&pod.data, "/window")).parse();
    Some(Reading {
        at: text(&pod.data, "/timestamp").parse().ok()?,
        window: window.unwrap_or_default(),
        nanocores: cores.filter_map(quantity::billionths).sum(),
        memory_bytes: memory.filter_map(quantity::parse).sum(),
    })
}

impl Ledger {
    /// Adds what was used since the last time. A VM that is not among the readings does not run, and is forgotten.
    fn add(&self, readings: &BTreeMap<VmKey, Reading>) -> Vec<VmUsage> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let spent = |(key, reading): (&VmKey, &Reading)| {
            (key.clone(), spent(known.get(key).copied(), reading))
        };
        let now: BTreeMap<VmKey, Spent> = readings.iter().map(spent).collect();
        let told = |(key, reading): (&VmKey, &Reading)| VmUsage {
            id: key.id(),
            cpu_time: now.get(key).map(|spent| spent.time).unwrap_or_default(),
            memory_bytes: Some(reading.memory_bytes),
        };
        let told = readings.iter().map(told).collect();
        *known = now;
        told
    }
}

/// The same reading twice counts once.
fn spent(before: Option<Spent>, reading: &Reading) -> Spent {
    let (passed, so_far) = match before {
        Some(before) => (reading.at.duration_since(before.until), before.time),
        None => (
            reading.window.try_into().unwrap_or_default(),
            Duration::ZERO,
        ),
    };
    let passed = Duration::try_from(passed).unwrap_or_default();
    let cores = u32::try_from(reading.nanocores / 1000).unwrap_or(u32::MAX);
    Spent {
        until: before.map_or(reading.at, |before| before.until.max(reading.at)),
        time: so_far + passed * cores / 1_000_000,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, second: u8, cpu: &str, memory: &str) -> DynamicObject {
        let container =
            |cpu: &str, memory: &str| json!({"name": "c", "usage": {"cpu": cpu, "memory": memory}});
        let object: Value = json!({
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "PodMetrics",
            "metadata": {"name": name, "namespace": "team", "labels": {HOST_NAME: "by-label"}},
            "timestamp": format!("2026-01-01T00:00:{second:02}Z"),
            "window": "15s",
            "containers": [container(cpu, memory), container("1m", "1Mi")],
        });
        serde_json::from_value(object).expect("an object")
    }

    #[test]
    fn a_pod_is_of_the_vm_that_its_name_says() {
        let cut = format!("virt-launcher-{}-abcde", "x".repeat(43));
        for (name, vm) in [
            ("virt-launcher-web-x7k2p", Some("web")),
            ("virt-launcher-web.prod-1-x7k2p", Some("web.prod-1")),
            (cut.as_str(), Some("by-label")),
            ("something-else", None),
        ] {
            let key = of(&pod(name, 0, "1", "1Gi"));
            assert_eq!(key, vm.map(|vm| VmKey::new("team", vm)), "{name}");
        }
    }

    #[test]
    fn rates_become_time() {
        let ledger = Ledger::default();
        let ask = |pods: &[DynamicObject]| ledger.add(&by_vm(pods));
        let used = |millis, memory_bytes| {
            vec![VmUsage {
                id: "team/web".into(),
                cpu_time: Duration::from_millis(millis),
                memory_bytes: Some(memory_bytes),
            }]
        };
        let mib = 1 << 20;
        let first = pod("virt-launcher-web-a", 10, "499m", "63Mi");
        assert_eq!(ask(std::slice::from_ref(&first)), used(7_500, 64 * mib));
        assert_eq!(ask(&[first]), used(7_500, 64 * mib), "told before");
        let later = pod("virt-launcher-web-a", 40, "999000000n", "127Mi");
        let moves = pod("virt-launcher-web-b", 40, "999m", "127Mi");
        let both = [later, moves];
        assert_eq!(ask(&both), used(67_500, 256 * mib));
        assert_eq!(ask(&[]), Vec::new());
    }
}
