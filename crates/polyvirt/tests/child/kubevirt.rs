//! KubeVirt behind a process of its own: VMs made, changed and deleted by a manager that reaches its cluster only through it; and the
//! conformance suite over the wire.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use polyvirt_api::infra::{Provider as ProviderObject, RuntimeMode, VirtualMachine};
use polyvirt_conformance::{Profile, run};
use polyvirt_contract::Provider as _;
use polyvirt_contract::grpc::{Pem, ServerCheck, Target, TlsFiles, connect};
use polyvirt_contract::model::{Headers, ImageOrigin, ImageSource, NicSpec, PrepareImage, Pull};
use polyvirt_pki::{Issued, Keyring, Lifetimes, Purpose, Subject, leaf};
use polyvirt_testkit::kubevirt_sim::{self, Settings};
use polyvirt_testkit::{ControlPlane, install_crds, namespace};
use serde_json::{Value, json};

use crate::{PROGRAM, apply, children, manager, until};

const MANAGER: &str = "polyvirt-manager";
const HOST: &str = "provider.test";
const IMAGE: &str = "https://images.example/conformance.qcow2";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubevirt_is_served_by_a_process_of_its_own() {
    let plane = ControlPlane::builder().ephemeral().start().await.unwrap();
    let client = plane.client().unwrap();
    let sim = kubevirt_sim::start(client.clone(), Settings::default());
    let _sim = sim.await.unwrap();
    under_a_manager(&plane, &client).await;
    over_the_wire(&plane).await;
}

/// One Provider of mode Remote, as it would be in a cluster, and one of mode Process: this manager runs both in children.
async fn under_a_manager(plane: &ControlPlane, client: &Client) {
    install_crds(client, &polyvirt_api::crds()).await.unwrap();
    let ns = namespace(client, "remote").await.unwrap();
    let kubeconfig = std::fs::read_to_string(plane.kubeconfig_path()).unwrap();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cluster"},
        "stringData": {"kubeconfig": kubeconfig},
    });
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &ns);
    let secret = serde_json::from_value(secret).unwrap();
    let made = secrets.create(&PostParams::default(), &secret).await;
    made.unwrap();
    let boss = manager(&plane.kubeconfig_path(), &ns);
    let world = World { client, ns: &ns };
    for mode in ["Remote", "Process"] {
        let name = mode.to_lowercase();
        let provider = provider(&name, mode, &plane.url());
        apply(client, &ns, provider).await;
        apply(client, &ns, vm(&name, "On", 1)).await;
        world.runs(&name).await;
        assert_eq!(world.mode(&name).await, RuntimeMode::Process);
    }
    let processes = children(boss.0.id());
    assert_eq!(processes.len(), 2, "a child for each Provider");
    for process in processes {
        has_files(process, &kubeconfig);
    }
    for name in ["remote", "process"] {
        world.changes(name).await;
        world.goes(name).await;
    }
}

fn provider(name: &str, mode: &str, server: &str) -> Value {
    json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "Provider", "metadata": {"name": name},
        "spec": {
            "type": "kubevirt", "endpoint": server,
            "credentialSecretRef": {"name": "cluster"},
            "runtime": {"mode": mode},
        },
    })
}

fn vm(name: &str, power: &str, cpu: u32) -> Value {
    json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine", "metadata": {"name": name},
        "spec": {
            "providerRef": {"name": name},
            "class": {"cpu": cpu, "memory": "1Gi", "diskDefaults": {"size": "5Gi"}},
            "image": {"blank": {}},
            "disks": [{"name": "data", "sizeGiB": 3}],
            "powerState": power,
        },
    })
}

/// The kubeconfig is a file of the child's folder, and neither an argument nor a variable.
fn has_files(child: i32, kubeconfig: &str) {
    let words = |file: &str| {
        let text = std::fs::read_to_string(format!("/proc/{child}/{file}")).unwrap();
        text.split('\0').map(str::to_owned).collect::<Vec<_>>()
    };
    let arguments = words("cmdline");
    let place = arguments.iter().position(|a| a == "--credentials-dir");
    let folder = Path::new(&arguments[place.unwrap() + 1]);
    let file = std::fs::read_to_string(folder.join("kubeconfig")).unwrap();
    assert_eq!(file, kubeconfig);
    for told in [arguments.concat(), words("environ").concat()] {
        assert!(!told.contains("client-key-data"));
    }
}

struct World<'a> {
    client: &'a Client,
    ns: &'a str,
}

impl World<'_> {
    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let group = match kind {
            "PersistentVolumeClaim" => "",
            _ => "kubevirt.io",
        };
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        Api::namespaced_with(self.client.clone(), self.ns, &kind)
    }

    /// An object of the cluster as JSON; null if it is not there.
    async fn there(&self, kind: &str, name: &str) -> Value {
        let found = self.api(kind).get_opt(name).await.unwrap();
        serde_json::to_value(found).unwrap()
    }

    async fn status(&self, name: &str) -> Value {
        let api: Api<VirtualMachine> = Api::namespaced(self.client.clone(), self.ns);
        let vm = serde_json::to_value(api.get(name).await.unwrap()).unwrap();
        vm["status"].clone()
    }

    async fn mode(&self, name: &str) -> RuntimeMode {
        let api: Api<ProviderObject> = Api::namespaced(self.client.clone(), self.ns);
        let status = api.get(name).await.unwrap().status.unwrap();
        let mut conditions = status.conditions.iter();
        let secure = conditions.find(|c| c.type_ == "TLSConfigured");
        assert_eq!(secure.unwrap().status, "True");
        status.runtime.unwrap().mode.unwrap()
    }

    async fn says(&self, name: &str, path: &str, value: &Value) {
        let what = format!("{name} has {path} {value}");
        let holds = async || {
            let status = self.status(name).await;
            (status.pointer(path) == Some(value)).then_some(())
        };
        until(&what, holds).await;
    }

    async fn runs(&self, name: &str) {
        self.says(name, "/phase", &json!("Running")).await;
        let instance = self.there("VirtualMachineInstance", name).await;
        assert_eq!(instance["status"]["phase"], "Running", "{instance:#}");
        let claims = self.api("PersistentVolumeClaim");
        let claims = claims.list(&ListParams::default()).await.unwrap();
        let names: Vec<_> = claims
            .items
            .iter()
            .map(|c| c.metadata.name.clone())
            .collect();
        assert!(names.contains(&Some(format!("{name}-data"))), "{names:?}");
    }

    /// Off, bigger, on again; and what somebody else does there is told by the stream.
    async fn changes(&self, name: &str) {
        apply(self.client, self.ns, vm(name, "Off", 2)).await;
        self.says(name, "/phase", &json!("Stopped")).await;
        self.says(name, "/currentResources/cpu", &json!(2)).await;
        let there = self.there("VirtualMachine", name).await;
        let cpu = &there["spec"]["template"]["spec"]["domain"]["cpu"];
        assert_eq!(cpu["sockets"], 2, "{there:#}");
        apply(self.client, self.ns, vm(name, "On", 2)).await;
        self.says(name, "/phase", &json!("Running")).await;
        let stop = json!({"spec": {"runStrategy": "Halted"}});
        let (api, begin) = (self.api("VirtualMachine"), Instant::now());
        let params = PatchParams::default();
        api.patch(name, &params, &Patch::Merge(&stop))
            .await
            .unwrap();
        self.says(name, "/powerState", &json!("Off")).await;
        println!("{name}: a foreign stop is told after {:?}", begin.elapsed());
    }

    async fn goes(&self, name: &str) {
        let api: Api<VirtualMachine> = Api::namespaced(self.client.clone(), self.ns);
        api.delete(name, &DeleteParams::default()).await.unwrap();
        until("the VM is gone", async || {
            api.get_opt(name).await.unwrap().is_none().then_some(())
        })
        .await;
        for kind in ["VirtualMachine", "VirtualMachineInstance"] {
            assert_eq!(self.there(kind, name).await, Value::Null, "{kind}");
        }
        until("its claims are gone", async || {
            let claim = format!("{name}-data");
            let found = self.there("PersistentVolumeClaim", &claim).await;
            found.is_null().then_some(())
        })
        .await;
    }
}

/// Ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program as somebody else would start it, and the suite that every provider must pass.
async fn over_the_wire(plane: &ControlPlane) {
    let keyring = Keyring::make(&Lifetimes::default(), jiff::Timestamp::now()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let _served = serve(plane, &keyring, folder.path(), port);
    let address = format!("127.0.0.1:{port}");
    let files = files(&keyring, issue(&keyring, MANAGER, Purpose::Client));
    let client = Arc::new(connect(Target::new(&address).with_tls(files)).unwrap());
    until("it serves", async || client.validate().await.ok()).await;
    let stranger = connect(Target::new(&address)).unwrap();
    assert!(stranger.validate().await.is_err(), "nobody without TLS");

    let begin = Instant::now();
    let report = run(client, &profile()).await;
    println!("{report}\nin {:?}", begin.elapsed());
    assert!(report.conforms(), "{report}");
    let kept = report.outcomes.len() - report.not_applicable().count();
    assert!(kept >= 40, "{kept} promises apply: {report}");
}

/// A port that nobody has at the moment.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn issue(keyring: &Keyring, name: &str, purpose: Purpose) -> Issued {
    let subject = Subject {
        name: name.to_owned(),
        names: vec![name.to_owned()],
        purpose,
    };
    let (lifetimes, now) = (Lifetimes::default(), jiff::Timestamp::now());
    leaf::issue(keyring, &subject, &lifetimes, now).unwrap().0
}

fn files(keyring: &Keyring, own: Issued) -> TlsFiles {
    let pem = |text: String| Pem::Inline(text.into_bytes().into());
    TlsFiles {
        ca: pem(keyring.bundle()),
        cert: pem(own.certificate),
        key: pem(own.key),
        domain_name: Some(HOST.to_owned()),
        check: ServerCheck::Full,
    }
}

fn serve(plane: &ControlPlane, keyring: &Keyring, folder: &Path, port: u16) -> Served {
    let (tls, credentials) = (folder.join("tls"), folder.join("credentials"));
    let own = issue(keyring, HOST, Purpose::Server);
    for place in [&tls, &credentials] {
        std::fs::create_dir(place).unwrap();
    }
    for (name, text) in [
        ("ca.crt", keyring.bundle()),
        ("tls.crt", own.certificate),
        ("tls.key", own.key),
    ] {
        std::fs::write(tls.join(name), text).unwrap();
    }
    std::fs::copy(plane.kubeconfig_path(), credentials.join("kubeconfig")).unwrap();
    let child = Command::new(PROGRAM)
        .args([
            "provider",
            "kubevirt",
            "--bind",
            "127.0.0.1",
            "--health-port",
            "0",
        ])
        .args(["--port", &port.to_string(), "--allowed-sans", MANAGER])
        .args(["--endpoint", &plane.url(), "--credentials-dir"])
        .arg(credentials)
        .arg("--tls-dir")
        .arg(tls)
        .stdin(Stdio::null())
        .spawn();
    Served(child.unwrap())
}

fn profile() -> Profile {
    let card = |name: &str, network: &str| NicSpec {
        name: name.to_owned(),
        network: network.to_owned(),
        ..NicSpec::default()
    };
    Profile {
        image: ImageSource {
            url: IMAGE.to_owned(),
            ..ImageSource::default()
        },
        networks: vec![card("first", ""), card("second", "vlan7")],
        prepare: Some(PrepareImage {
            target_name: "conformance".to_owned(),
            origin: ImageOrigin::Http {
                url: IMAGE.to_owned(),
                headers: Headers::default(),
            },
            checksum: String::new(),
            checksum_type: String::new(),
            storage_hint: String::new(),
            pull: Pull::default(),
            identity: None,
        }),
        interval: Duration::from_millis(50),
        ..Profile::simulated()
    }
}
