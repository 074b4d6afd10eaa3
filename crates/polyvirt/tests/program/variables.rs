//! The program with nothing but the variables that the documents of the KubeVirt operator of Viti Stack name: each acts.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use polyvirt_testkit::kubevirt_sim::{self, Settings};
use polyvirt_testkit::{ControlPlane, install_crds};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_polyvirt");
const OWN: &str = "kubevirt-operator-system";
const CONFIGS: &str = "kubevirt-configs";
const PATIENCE: Duration = Duration::from_secs(90);

struct Manager {
    child: Child,
    log: PathBuf,
    metrics: u16,
    health: u16,
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody has at the moment.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn manager(kubeconfig: &Path, log: PathBuf) -> Manager {
    let (metrics, health) = (port(), port());
    let out = std::fs::File::create(&log).unwrap();
    let child = Command::new(PROGRAM)
        .arg("manager")
        .env("KUBECONFIG", kubeconfig)
        .env("RECONCILE_INTERVAL", "2s")
        .env("MAX_CONCURRENT_RECONCILES", "5")
        .env("METRICS_BIND_ADDRESS", format!("127.0.0.1:{metrics}"))
        .env("HEALTH_PROBE_BIND_ADDRESS", format!("127.0.0.1:{health}"))
        .env("LEADER_ELECTION", "true")
        .env("NAMESPACE", OWN)
        .env("KUBEVIRT_CONFIGS_NAMESPACE", CONFIGS)
        .env("DEFAULT_KUBEVIRT_CONFIG", "cluster-east")
        .env("IP_SOURCE", "networkconfiguration")
        .env("VM_NAME_PREFIX", "kv-")
        .env("MANAGED_BY", "the-platform")
        .env("PVC_ACCESS_MODE", "ReadWriteOnce")
        .env("PVC_VOLUME_MODE", "Filesystem")
        .env("STORAGE_CLASS_NAME", "plain")
        .env("MAC_SET", "77")
        .env("CPU_MODEL", "host-passthrough")
        .env("LOG_FORMAT", "json")
        .stdin(Stdio::null())
        .stdout(out.try_clone().unwrap())
        .stderr(out)
        .spawn()
        .unwrap();
    Manager {
        child,
        log,
        metrics,
        health,
    }
}

/// Status and body of a page; `None` if nobody answers.
fn page(port: u16, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    let body = answer.split_once("\r\n\r\n")?.1.to_owned();
    Some((status, body))
}

async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn api(client: &Client, version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let mut resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    if kind == "StorageClass" {
        "storageclasses".clone_into(&mut resource.plural);
    }
    match namespace {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}

async fn apply(client: &Client, object: Value) {
    let word = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let namespace = word("/metadata/namespace");
    let api = api(client, word("/apiVersion"), word("/kind"), namespace);
    let params = PatchParams::apply("somebody").force();
    let applied = api
        .patch(word("/metadata/name"), &params, &Patch::Apply(&object))
        .await;
    applied.unwrap_or_else(|error| panic!("{error}: {object:#}"));
}

async fn look(client: &Client, version: &str, kind: &str, name: &str) -> Value {
    let found = api(client, version, kind, "default").get_opt(name).await;
    serde_json::to_value(found.unwrap()).unwrap()
}

fn machine(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    })
}

async fn runs(client: &Client, name: &str) -> Value {
    until(name, async || {
        let found = look(client, "vitistack.io/v1alpha1", "Machine", name).await;
        (found["status"]["phase"] == "Running").then_some(found)
    })
    .await
}

/// The cluster is supervisor and runs VMs; it is there under two names, so that the default has something to decide.
async fn furnish(client: &Client, kubeconfig: &str) {
    for name in [OWN, CONFIGS] {
        apply(
            client,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        )
        .await;
    }
    apply(
        client,
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "plain"},
            "provisioner": "sim.polyvirt.io/storage",
        }),
    )
    .await;
    for name in ["cluster-east", "cluster-west"] {
        apply(
            client,
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": CONFIGS},
                "stringData": {"kubeconfig": kubeconfig},
            }),
        )
        .await;
        apply(
            client,
            json!({
                "apiVersion": "vitistack.io/v1alpha1", "kind": "KubevirtConfig",
                "metadata": {"name": name, "namespace": CONFIGS},
                "spec": {"name": name, "kubeconfigSecretRef": name},
            }),
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_variable_acts() {
    let folder = tempfile::tempdir().unwrap();
    let plane = ControlPlane::builder().ephemeral().start().await.unwrap();
    let client = plane.client().unwrap();
    install_crds(&client, &polyvirt_api::crds()).await.unwrap();
    let _sim = kubevirt_sim::start(client.clone(), Settings::default())
        .await
        .unwrap();
    let kubeconfig = plane.kubeconfig_path();
    furnish(&client, &std::fs::read_to_string(&kubeconfig).unwrap()).await;

    let manager = manager(&kubeconfig, folder.path().join("log"));
    health(&manager).await;
    leads(&client).await;
    settings(&client).await;
    addresses(&client).await;
    interval(&client).await;
    metrics(&manager);
    log_lines(&manager);
    plane.kill_apiserver().unwrap();
    assert_eq!(
        page(manager.health, "/healthz").unwrap().0,
        200,
        "it lives on"
    );
}

/// Alive at once, ready when it works, and the clusters are told.
async fn health(manager: &Manager) {
    until("alive", async || {
        page(manager.health, "/healthz").filter(|p| p.0 == 200)
    })
    .await;
    let ready = until("ready", async || {
        let (status, body) = page(manager.health, "/readyz")?;
        assert!([200, 500].contains(&status), "{status}: {body}");
        (status == 200 && body.matches(": Ready").count() == 2).then_some(body)
    });
    assert!(ready.await.contains("KubevirtConfig cluster-east: Ready"));
}

/// LEADER_ELECTION, and NAMESPACE for its Lease.
async fn leads(client: &Client) {
    let leases = api(client, "coordination.k8s.io/v1", "Lease", OWN);
    let found = leases.get("polyvirt-manager").await.unwrap();
    assert!(found.data["spec"]["holderIdentity"].is_string());
}

/// What shows in the objects that are made.
async fn settings(client: &Client) {
    apply(client, machine("web", &json!({"template": "small"}))).await;
    let found = runs(client, "web").await;
    let chosen = &found["metadata"]["annotations"]["vitistack.io/kubevirt-config"];
    assert_eq!(chosen, "cluster-east", "DEFAULT_KUBEVIRT_CONFIG");
    let vm = look(client, "kubevirt.io/v1", "VirtualMachine", "kv-web").await;
    let label = &vm["metadata"]["labels"]["vitistack.io/managed-by"];
    assert_eq!(label, "the-platform", "VM_NAME_PREFIX, MANAGED_BY: {vm:#}");
    let domain = &vm["spec"]["template"]["spec"]["domain"];
    assert_eq!(domain["cpu"]["model"], "host-passthrough", "CPU_MODEL");
    let mac = domain["devices"]["interfaces"][0]["macAddress"].as_str();
    assert!(
        mac.is_some_and(|mac| mac.starts_with("02:77:")),
        "MAC_SET: {mac:?}"
    );
    let claim = look(client, "v1", "PersistentVolumeClaim", "web-root").await;
    assert_eq!(
        claim["spec"]["storageClassName"], "plain",
        "STORAGE_CLASS_NAME"
    );
    assert_eq!(
        claim["spec"]["accessModes"],
        json!(["ReadWriteOnce"]),
        "PVC_ACCESS_MODE"
    );
    assert_eq!(claim["spec"]["volumeMode"], "Filesystem", "PVC_VOLUME_MODE");
}

/// IP_SOURCE: not what the VM says counts, but what was handed out.
async fn addresses(client: &Client) {
    let machine = runs(client, "web").await;
    assert_eq!(machine["status"]["ipAddresses"], Value::Null, "{machine:#}");
    let networks = api(
        client,
        "vitistack.io/v1alpha1",
        "NetworkConfiguration",
        "default",
    );
    let found = networks.get("web").await.unwrap();
    let card = &found.data["spec"]["networkInterfaces"][0];
    let told = json!({
        "name": card["name"], "macAddress": card["macAddress"], "ipv4Addresses": ["192.0.2.17"],
    });
    let change = json!({"status": {"networkInterfaces": [told]}});
    let params = PatchParams::default();
    networks
        .patch_status("web", &params, &Patch::Merge(&change))
        .await
        .unwrap();
    until("the address is told", async || {
        let found = look(client, "vitistack.io/v1alpha1", "Machine", "web").await;
        (found["status"]["ipAddresses"] == json!(["192.0.2.17"])).then_some(())
    })
    .await;
}

/// RECONCILE_INTERVAL: a ConfigMap tells nobody that it has come.
async fn interval(client: &Client) {
    let reference = json!({"name": "seed", "key": "userdata"});
    let spec = json!({"template": "small", "cloudInit": {"userDataConfigMapRef": reference}});
    apply(client, machine("waits", &spec)).await;
    until("it waits", async || {
        let found = look(client, "vitistack.io/v1alpha1", "Machine", "waits").await;
        let status = &found["status"];
        assert_ne!(
            status["phase"], "Running",
            "without what it was told to read"
        );
        status["conditions"]
            .to_string()
            .contains("seed")
            .then_some(())
    })
    .await;
    apply(
        client,
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seed", "namespace": "default"},
            "data": {"userdata": "#cloud-config\n{}\n"},
        }),
    )
    .await;
    let begin = Instant::now();
    runs(client, "waits").await;
    let took = begin.elapsed();
    assert!(
        took < Duration::from_secs(20),
        "as if it were the 30 s of the default: {took:?}"
    );
}

fn metrics(manager: &Manager) {
    let (status, text) = page(manager.metrics, "/metrics").unwrap();
    assert_eq!(status, 200);
    for name in [
        "kubevirt_operator_machines_total{",
        "kubevirt_operator_reconciliation_duration_seconds_count{",
        "kubevirt_operator_virtual_machines_total{",
        "kubevirt_operator_storage_provisioning_duration_seconds_count{",
        "# TYPE kubevirt_operator_reconciliation_errors ",
    ] {
        assert!(text.contains(name), "{name} is not in {text}");
    }
}

/// The fields of a line, as they are on the program's own output.
fn log_lines(manager: &Manager) {
    let text = std::fs::read_to_string(&manager.log).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .filter_map(|l| serde_json::from_str(l).ok())
        .collect();
    let about = |line: &&Value| line["machine"] == "web" && line["phase"] == "Running";
    let line = lines.iter().find(about).unwrap_or_else(|| panic!("{text}"));
    for (field, value) in [
        ("level", "info"),
        ("controller", "Machine"),
        ("namespace", "default"),
    ] {
        assert_eq!(line[field], value, "{line}");
    }
    let time = line["timestamp"].as_str().unwrap();
    assert!(time.contains('T') && time.ends_with('Z'), "{time}");
    assert!(line["message"].as_str().is_some_and(|m| !m.is_empty()));
    assert!(
        !text.contains("client-key-data"),
        "no credentials in the log"
    );
}

#[test]
fn a_value_that_makes_no_sense_is_named() {
    for (variable, value) in [
        ("MAX_CONCURRENT_RECONCILES", "many"),
        ("RECONCILE_INTERVAL", "soon"),
        ("IP_SOURCE", "dns"),
        ("MAC_SET", "xyz"),
        ("LEADER_ELECTION", "maybe"),
        ("METRICS_BIND_ADDRESS", "here"),
        ("HOOK_ALLOW", "10.0.0.0/99"),
    ] {
        let output = Command::new(PROGRAM)
            .arg("manager")
            .env(variable, value)
            .env("KUBECONFIG", "/nonexistent")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{variable}: {text}");
        assert!(text.contains(value), "{variable}: {text}");
    }
}
