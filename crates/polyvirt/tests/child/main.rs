//! A provider in a child process of the manager: it comes, it comes again when it is killed, and it goes with the manager.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests"
)]

mod kubevirt;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use polyvirt_api::infra::{Provider, RuntimeMode, VirtualMachine};
use polyvirt_testkit::{install_crds, namespace, shared};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_polyvirt");

struct Manager(Child);

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn manager(kubeconfig: &std::path::Path, namespace: &str) -> Manager {
    let child = Command::new(PROGRAM)
        .args(["manager", "--metrics-bind-address=0"])
        .arg("--remote-providers=processes")
        .args(["--health-probe-bind-address=0", "--namespaces", namespace])
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .stdin(Stdio::null())
        .spawn();
    Manager(child.unwrap())
}

/// The children of a process.
fn children(parent: u32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok())
        .filter_map(|stat| {
            let (pid, rest) = stat.split_once(" (")?;
            let after = rest.rsplit_once(") ")?.1;
            let mut words = after.split(' ');
            let (state, parent_word) = (words.next()?, words.next()?);
            (parent_word == parent.to_string() && state != "Z").then(|| pid.parse().ok())?
        })
        .collect()
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn apply(client: &Client, namespace: &str, object: Value) {
    let (kind, name) = (object["kind"].clone(), object["metadata"]["name"].clone());
    let params = PatchParams::apply("test");
    let name = name.as_str().unwrap();
    let patch = Patch::Apply(object);
    if kind == "Provider" {
        let api: Api<Provider> = Api::namespaced(client.clone(), namespace);
        api.patch(name, &params, &patch).await.unwrap();
    } else {
        let api: Api<VirtualMachine> = Api::namespaced(client.clone(), namespace);
        api.patch(name, &params, &patch).await.unwrap();
    }
}

async fn phase(client: &Client, namespace: &str, vm: &str) -> Option<Value> {
    let api: Api<VirtualMachine> = Api::namespaced(client.clone(), namespace);
    let vm = serde_json::to_value(api.get(vm).await.unwrap()).unwrap();
    Some(vm["status"]["phase"].clone())
}

fn vm(name: &str) -> Value {
    json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1",
        "kind": "VirtualMachine",
        "metadata": {"name": name},
        "spec": {
            "providerRef": {"name": "lab"},
            "class": {"cpu": 1, "memory": "512Mi"},
            "image": {"http": {"url": "http://images.test/a.qcow2"}},
            "powerState": "On",
        },
    })
}

/// Variables in the environment, credentials in files that nobody else can read, and no secret among the arguments.
fn is_given_what_a_pod_would_be(child: i32) {
    let words = |file: &str| {
        let text = std::fs::read_to_string(format!("/proc/{child}/{file}")).unwrap();
        text.split('\0').map(str::to_owned).collect::<Vec<_>>()
    };
    let variables = words("environ");
    for expected in [
        "PLAIN=said",
        "FROM_SECRET=root",
        "LOG_LEVEL=debug",
        "PROVIDER_NAME=lab",
    ] {
        assert!(variables.iter().any(|v| v == expected), "{expected}");
    }
    let arguments = words("cmdline");
    assert!(!arguments.concat().contains("s3cret"));
    let place = arguments
        .iter()
        .position(|a| a == "--credentials-dir")
        .unwrap();
    let folder = Path::new(&arguments[place + 1]);
    let password = std::fs::read_to_string(folder.join("password")).unwrap();
    assert_eq!(password, "s3cret");
    let above = std::fs::metadata(folder.parent().unwrap()).unwrap();
    assert_eq!(above.permissions().mode() & 0o077, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_in_a_child_process_comes_again_and_goes_with_the_manager() {
    let plane = shared().await.unwrap();
    let client = plane.client().unwrap();
    install_crds(&client, &polyvirt_api::crds()).await.unwrap();
    let ns = namespace(&client, "child").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let provider = json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1",
        "kind": "Provider",
        "metadata": {"name": "lab"},
        "spec": {
            "type": "mock",
            "endpoint": format!("mock://{}", folder.path().display()),
            "credentialSecretRef": {"name": "login"},
            // As it would be in a cluster; this manager has no pods.
            "runtime": {"mode": "Remote", "logLevel": "debug", "env": [
                {"name": "PLAIN", "value": "said"},
                {"name": "FROM_SECRET", "valueFrom": {"secretKeyRef": {"name": "login", "key": "username"}}},
            ]},
        },
    });
    let login = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
        "stringData": {"username": "root", "password": "s3cret"},
    });
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &ns);
    let login = serde_json::from_value(login).unwrap();
    secrets
        .create(&PostParams::default(), &login)
        .await
        .unwrap();
    apply(&client, &ns, provider).await;
    apply(&client, &ns, vm("first")).await;
    let mut boss = manager(&plane.kubeconfig_path(), &ns);
    let running = json!("Running");
    let runs = async |name: &str| phase(&client, &ns, name).await.filter(|p| *p == running);
    until("the first VM runs", async || runs("first").await).await;
    let api: Api<Provider> = Api::namespaced(client.clone(), &ns);
    let status = api.get("lab").await.unwrap().status.unwrap();
    let runtime = status.runtime.unwrap();
    assert!(runtime.endpoint.clone().unwrap().starts_with("127.0.0.1:"));
    assert_eq!(runtime.mode, Some(RuntimeMode::Process));
    let secure = status
        .conditions
        .iter()
        .find(|c| c.type_ == "TLSConfigured");
    assert_eq!(secure.unwrap().status, "True");

    let [first] = children(boss.0.id())[..] else {
        panic!("one child");
    };
    is_given_what_a_pod_would_be(first);
    kill(first);
    apply(&client, &ns, vm("second")).await;
    until("the second VM runs", async || runs("second").await).await;
    let [second] = children(boss.0.id())[..] else {
        panic!("one child");
    };
    assert_ne!(first, second);

    boss.0.kill().unwrap();
    boss.0.wait().unwrap();
    let exists = |pid: i32| std::path::Path::new(&format!("/proc/{pid}")).exists();
    until("the child is gone too", async || {
        (!exists(second)).then_some(())
    })
    .await;
}
