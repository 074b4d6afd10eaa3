//! Machines of all forms from their beginning to their end, in a cluster whose KubeVirt is simulated, or real if
//! `POLYVIRT_KUBEVIRT_KUBECONFIG` names one (`hack/kubevirt.sh`).

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use polyvirt_dialects::vitistack::Settings;
use serde_json::{Value, json};

use crate::manager::Manager;
use crate::site::{ALONE, Site, introduce, machine};

const REAL_CLUSTER: &str = "POLYVIRT_KUBEVIRT_KUBECONFIG";

/// A supervisor, and a cluster that is not the supervisor.
struct Walk {
    supervisor: Site,
    cluster: Site,
    namespace: String,
}

impl Walk {
    async fn begin() -> Self {
        let supervisor = Site::supervisor().await;
        let (cluster, kubeconfig) = match std::env::var(REAL_CLUSTER) {
            Ok(path) => {
                let kubeconfig = std::fs::read_to_string(path).unwrap();
                (Site::bare().await.at(client(&kubeconfig).await), kubeconfig)
            }
            Err(_) => {
                let site = Site::bare().await.with_kubevirt().await;
                let kubeconfig = site.kubeconfig();
                (site, kubeconfig)
            }
        };
        let namespace = polyvirt_testkit::namespace(&cluster.client, "machines");
        let namespace = namespace.await.unwrap();
        supervisor.namespace(&namespace).await;
        introduce(&supervisor, "default", "cluster-east", &kubeconfig).await;
        Self {
            supervisor,
            cluster,
            namespace,
        }
    }

    fn at<'a>(&'a self, name: &'a str) -> (&'a str, &'a str) {
        (&self.namespace, name)
    }

    async fn wish(&self, name: &str, spec: Value) {
        let manifest = machine(&self.namespace, name, spec);
        self.supervisor.apply(manifest).await;
    }

    async fn runs(&self, name: &str) -> Value {
        self.supervisor.phase(self.at(name), "Running").await
    }

    async fn switch(&self, name: &str, power: &str) {
        let change = json!({"metadata": {"annotations": {"vitistack.io/power-state": power}}});
        let place = self.at(name);
        self.supervisor.merge("Machine", place, change).await;
    }

    /// Waits until the instance of that Machine is so.
    async fn guest(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let vm = format!("vm-{name}");
        self.cluster.until("VMI", self.at(&vm), what, holds).await
    }
}

async fn client(kubeconfig: &str) -> Client {
    let read = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(read, &options);
    Client::try_from(config.await.unwrap()).unwrap()
}

fn network(namespace: &str, name: &str, vlan: u32) -> Value {
    json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "NetworkConfiguration",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"name": name, "vlan": vlan},
    })
}

/// The forms in which people write Machines.
fn forms() -> Vec<(&'static str, Value)> {
    let card = |name: &str, network: &str, model: &str| json!({"name": name, "networkName": network, "model": model});
    vec![
        ("plain", json!({"template": "medium"})),
        ("typed", json!({"instanceType": "small"})),
        (
            "sized",
            json!({
                "template": "small",
                "resources": {"cpu": {"cores": 4}, "memory": {"size": "8Gi"}},
                "disks": [{"name": "data", "size": "100Gi"}],
            }),
        ),
        (
            "wired",
            json!({
                "template": "small",
                "networks": [card("eth0", "front", "virtio"), card("eth1", "back", "virtio")],
            }),
        ),
        (
            "booted",
            json!({
                "template": "large",
                "cloudInit": {"userData": "#cloud-config\npackages: [curl]\n"},
            }),
        ),
        (
            "whole",
            json!({
                "template": "large",
                "resources": {"cpu": {"cores": 4, "threads": 2, "sockets": 1}, "memory": {"size": "16Gi"}},
                "disks": [
                    {"name": "root", "size": "20Gi", "accessMode": "ReadWriteOnce", "volumeMode": "Filesystem"},
                    {"name": "shared", "size": "100Gi", "accessMode": "ReadWriteMany", "volumeMode": "Block"},
                ],
                "networks": [
                    {"name": "eth0", "networkName": "front", "model": "virtio", "macAddress": "52:54:00:12:34:56"},
                    card("eth1", "back", "e1000"),
                    card("eth2", "back", "rtl8139"),
                ],
                "bootOrder": ["disk", "network", "cdrom"],
                "cloudInit": {
                    "userData": "#cloud-config\n", "networkData": "version: 2\n",
                    "secretRef": {"name": "machine-secrets", "key": "userdata"},
                },
                "domain": {
                    "machine": {"type": "q35"},
                    "features": {"acpi": true, "apic": true, "hyperv": false},
                    "firmware": {"bootloader": {"efi": true, "secureBoot": true}},
                },
            }),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_of_every_form_live_and_end() {
    let _alone = ALONE.lock().await;
    let walk = Walk::begin().await;
    let _manager = Manager::ready(&walk.supervisor, Settings::default()).await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "machine-secrets", "namespace": walk.namespace},
        "stringData": {"userdata": "#cloud-config\n{}\n"},
    });
    walk.supervisor.apply(secret).await;
    for (name, spec) in forms() {
        walk.wish(name, spec).await;
    }
    missing_networks(&walk).await;
    for (name, _) in forms() {
        println!("{name}");
        walk.runs(name).await;
    }
    disk(&walk).await;
    size(&walk).await;
    power(&walk).await;
    foreign_stop(&walk).await;
    end(&walk).await;
}

/// A Machine whose network is not there says so, and runs when it comes.
async fn missing_networks(walk: &Walk) {
    let said = |m: &Value| m["status"]["failureReason"] == "NetworkConfigurationNotFound";
    for name in ["wired", "whole"] {
        let place = walk.at(name);
        walk.supervisor
            .until("Machine", place, "refused", said)
            .await;
    }
    for (name, vlan) in [("front", 100), ("back", 200)] {
        let network = network(&walk.namespace, name, vlan);
        walk.supervisor.apply(network).await;
    }
}

fn volumes(guest: &Value) -> Vec<(String, String)> {
    let all = guest["status"]["volumeStatus"].as_array();
    let hot = all
        .into_iter()
        .flatten()
        .filter(|v| v.get("hotplugVolume").is_some());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    hot.map(|v| (text(&v["name"]), text(&v["phase"]))).collect()
}

/// A disk that comes and goes while the guest runs; on a real KubeVirt it is plugged in by a pod, and only by one.
async fn disk(walk: &Walk) {
    println!("a disk comes and goes");
    let data = json!([{"name": "data", "size": "1Gi"}]);
    walk.wish("plain", json!({"template": "medium", "disks": data}))
        .await;
    let has = |guest: &Value| {
        let all = guest["spec"]["volumes"].as_array();
        all.is_some_and(|all| all.iter().any(|v| v["name"] == "data"))
    };
    walk.guest("plain", "with the disk", has).await;
    if std::env::var_os(REAL_CLUSTER).is_some() {
        let ready = |guest: &Value| volumes(guest) == [("data".to_owned(), "Ready".to_owned())];
        walk.guest("plain", "with a disk that can be used", ready)
            .await;
        stays(walk).await;
    }
    walk.wish("plain", json!({"template": "medium"})).await;
    walk.guest("plain", "without the disk", |guest| !has(guest))
        .await;
    walk.guest("plain", "without a trace of it", |guest| {
        volumes(guest).is_empty()
    })
    .await;
    let claim = walk.at("plain-data");
    walk.cluster
        .until("PVC", claim, "gone", Value::is_null)
        .await;
}

/// The pod that holds a disk is made once.
async fn stays(walk: &Walk) {
    let holders = || async {
        let pods = walk.cluster.list("v1/Pod", &walk.namespace).await;
        let holds = |pod: &&Value| pod["metadata"]["labels"]["kubevirt.io"] == "hotplug-disk";
        let uid = |pod: &Value| {
            pod["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        pods.iter().filter(holds).map(uid).collect::<Vec<_>>()
    };
    let first = holders().await;
    assert_eq!(first.len(), 1);
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(holders().await, first, "it is made over and over");
}

/// More memory comes while the guest runs; cores come with the next start, and the Machine says so.
async fn size(walk: &Walk) {
    println!("a machine grows");
    let bigger = json!({"template": "medium", "resources": {"memory": {"size": "6Gi"}}});
    walk.wish("plain", bigger).await;
    let has = |guest: &Value| guest["status"]["memory"]["guestCurrent"] == "6Gi";
    walk.guest("plain", "bigger", has).await;
    walk.runs("plain").await;
}

async fn power(walk: &Walk) {
    println!("paused, stopped and started");
    walk.switch("typed", "Paused").await;
    let paused = |guest: &Value| {
        let all = guest["status"]["conditions"].as_array();
        all.is_some_and(|all| {
            all.iter()
                .any(|c| c["type"] == "Paused" && c["status"] == "True")
        })
    };
    walk.guest("typed", "paused", paused).await;
    walk.switch("typed", "On").await;
    walk.guest("typed", "going on", |guest| !paused(guest))
        .await;
    walk.switch("typed", "Off").await;
    walk.supervisor.phase(walk.at("typed"), "Stopped").await;
    walk.guest("typed", "gone", Value::is_null).await;
    walk.switch("typed", "On").await;
    walk.runs("typed").await;
}

/// Somebody stops a VM in its cluster: the Machine tells what is, and starts it again when it is told to.
async fn foreign_stop(walk: &Walk) {
    println!("stopped by somebody else");
    let halted = json!({"spec": {"runStrategy": "Halted"}});
    walk.cluster.merge("VM", walk.at("vm-booted"), halted).await;
    walk.supervisor.phase(walk.at("booted"), "Stopped").await;
    walk.switch("booted", "Off").await;
    walk.switch("booted", "On").await;
    walk.runs("booted").await;
}

/// Nothing is left of a Machine that is deleted.
async fn end(walk: &Walk) {
    println!("the end");
    for (name, _) in forms() {
        walk.supervisor.delete("Machine", walk.at(name)).await;
    }
    for (name, _) in forms() {
        let place = walk.at(name);
        walk.supervisor
            .until("Machine", place, "gone", Value::is_null)
            .await;
        let vm = format!("vm-{name}");
        for kind in ["VM", "VMI"] {
            assert_eq!(
                walk.cluster.look(kind, walk.at(&vm)).await,
                Value::Null,
                "{kind}"
            );
        }
        let claim = format!("{name}-root");
        walk.cluster
            .until("PVC", walk.at(&claim), "gone", Value::is_null)
            .await;
    }
}
