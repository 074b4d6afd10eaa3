//! The walk of docs/howto/kubevirt-multi-cluster.md: two clusters beside the first, Machines in both, and one that is stopped.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::machine::{Machine, processes_of, said};

const SAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../config/samples/machines.yaml"
);
/// "In a minute", on a machine that has other things to do as well.
const SOON: Duration = Duration::from_secs(150);
const PATIENCE: &str = "--timeout=60s";

#[test]
fn two_clusters_beside_the_first_run_machines() {
    let machine = Machine::with_room();
    comes_up(&machine);
    runs_machines(&machine);
    asks_where_to_go(&machine);
    let before = uid(&machine);
    loses_a_cluster(&machine);
    comes_back(&machine);
    assert_eq!(uid(&machine), before, "the VM is the one that it was");
    takes_machines_down(&machine);
    leaves_nothing(&machine);
}

fn comes_up(machine: &Machine) {
    let begin = Instant::now();
    let text = said(&machine.up_with(&["--with", "kubevirt"]), 0);
    for word in [
        "cluster-east           ready",
        "cluster-west           ready",
        "kubectl apply -f config/samples/machines.yaml",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    for cluster in ["cluster-east", "cluster-west"] {
        stands(machine, cluster, "Ready");
    }
    assert!(begin.elapsed() < SOON, "{text}");
    let status = said(&machine.run(&["status"]), 0);
    assert!(status.contains("cluster-west/kubevirt-sim"), "{status}");
}

/// Waits until the KubevirtConfig says so, and checks that it says the other half of it too.
fn stands(machine: &Machine, cluster: &str, phase: &str) {
    let config = format!("kubevirtconfig/{cluster}");
    let says = format!("--for=jsonpath={{.status.phase}}={phase}");
    machine.kubectl(&["wait", &config, &says, PATIENCE]);
    let shown = machine.kubectl(&["get", &config]);
    let connection = match phase {
        "Ready" => " Connected",
        _ => " Disconnected",
    };
    assert!(shown.contains(connection), "{shown}");
}

fn waits(machine: &Machine, name: &str, path: &str, value: &str) {
    let says = format!("--for=jsonpath={{{path}}}={value}");
    let object = format!("machine/{name}");
    machine.kubectl(&["wait", &object, &says, PATIENCE]);
}

fn runs_machines(machine: &Machine) {
    machine.kubectl(&["apply", "-f", SAMPLE]);
    for (name, cluster) in [("frontend", "cluster-east"), ("database", "cluster-west")] {
        waits(machine, name, ".status.phase", "Running");
        waits(machine, name, ".status.kubevirtConfigRef", cluster);
    }
    let shown = machine.kubectl(&["get", "machines"]);
    assert!(shown.starts_with("NAME"), "{shown}");
    assert_eq!(shown.matches("Running   Running").count(), 2, "{shown}");
    let vm = machine.kubectl(&["get", "virtualmachines.infra.virtrigaud.io/database"]);
    assert!(vm.contains("Running"), "{vm}");
    let there = in_cluster(machine, "cluster-west", "database");
    for word in [
        "virtualmachine.kubevirt.io/vm-database",
        "virtualmachineinstance.kubevirt.io/vm-database",
        "persistentvolumeclaim/database-root",
        "persistentvolumeclaim/database-data",
    ] {
        assert!(there.contains(word), "{word}: {there}");
    }
    assert_eq!(in_cluster(machine, "cluster-east", "database"), "");
}

/// What a cluster has of a Machine, by the command of the page.
fn in_cluster(machine: &Machine, cluster: &str, name: &str) -> String {
    let label = format!("vitistack.io/machine={name}");
    of_cluster(machine, cluster, &["get", "vm,vmi,pvc", "-l", &label])
}

fn of_cluster(machine: &Machine, cluster: &str, words: &[&str]) -> String {
    let config = machine.state().join("clusters").join(cluster);
    let mut kubectl = Command::new(polyvirt_testkit::kubectl());
    kubectl.arg("--kubeconfig").arg(config.join("kubeconfig"));
    said(&kubectl.args(words).output().unwrap(), 0)
}

/// With two clusters a Machine has to say where it goes, and is told how.
fn asks_where_to_go(machine: &Machine) {
    let manifest = machine.folder.path().join("lost.yaml");
    let text = "apiVersion: vitistack.io/v1alpha1\nkind: Machine\nmetadata: {name: lost}\nspec: {template: small}\n";
    std::fs::write(&manifest, text).unwrap();
    machine.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    waits(machine, "lost", ".status.phase", "Failed");
    let message = machine.kubectl(&["get", "machine/lost", "-o", "jsonpath={.status.message}"]);
    let words = "Machine lost has no KubevirtConfig reference and 2 configs are available - cannot determine placement";
    assert!(message.starts_with(words), "{message}");
    let word = "vitistack.io/kubevirt-config=cluster-east";
    machine.kubectl(&["annotate", "machine/lost", word]);
    waits(machine, "lost", ".status.phase", "Running");
}

fn uid(machine: &Machine) -> String {
    let words = ["get", "vm/vm-database", "-o", "jsonpath={.metadata.uid}"];
    of_cluster(machine, "cluster-west", &words)
}

/// The API server of one cluster is gone. Its Machine is not taken for gone, and says what an edit of it waits for; the other
/// cluster's Machine is not kept from anything.
fn loses_a_cluster(machine: &Machine) {
    kill(process_of(machine, "cluster-west/kube-apiserver"));
    stands(machine, "cluster-west", "Failed");
    let row = machine.kubectl(&["get", "machine/database"]);
    assert!(row.contains("Running   Running"), "{row}");
    power(machine, "database", "Off");
    waits(
        machine,
        "database",
        ".status.failureReason",
        "KubeVirtApiError",
    );
    let told = "jsonpath={.status.phase} {.status.message}";
    let told = machine.kubectl(&["get", "machine/database", "-o", told]);
    let words = "Running Failed to get VirtualMachine from remote cluster: ";
    assert!(told.starts_with(words), "{told}");
    power(machine, "frontend", "Off");
    waits(machine, "frontend", ".status.phase", "Stopped");
    stands(machine, "cluster-east", "Ready");
    let status = said(&machine.run(&["status"]), 1);
    assert!(status.contains("`polyvirt up` starts it"), "{status}");
}

fn power(machine: &Machine, name: &str, state: &str) {
    let word = format!("vitistack.io/power-state={state}");
    let object = format!("machine/{name}");
    machine.kubectl(&["annotate", &object, &word]);
}

fn process_of(machine: &Machine, name: &str) -> i32 {
    let status = said(&machine.run(&["status", "--output", "json"]), 0);
    let status: Value = serde_json::from_str(&status).unwrap();
    let mut parts = status["components"].as_array().unwrap().iter();
    let part = parts.find(|part| part["name"] == name).unwrap();
    i32::try_from(part["pid"].as_i64().unwrap()).unwrap()
}

fn kill(pid: i32) {
    let process = Pid::from_raw(pid).unwrap();
    kill_process(process, Signal::KILL).unwrap();
    let there = format!("/proc/{pid}");
    let begin = Instant::now();
    while Path::new(&there).exists() {
        assert!(begin.elapsed() < SOON, "process {pid} does not end");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// `polyvirt up` starts what is missing, without being told of KubeVirt again, and what was asked for meanwhile is done.
fn comes_back(machine: &Machine) {
    let text = said(&machine.up(), 0);
    assert!(text.contains("cluster-west           ready"), "{text}");
    assert!(text.contains("cluster-east           runs"), "{text}");
    stands(machine, "cluster-west", "Ready");
    waits(machine, "database", ".status.phase", "Stopped");
}

fn takes_machines_down(machine: &Machine) {
    machine.kubectl(&["delete", "machines", "--all", PATIENCE]);
    for cluster in ["cluster-east", "cluster-west"] {
        let gone = Instant::now();
        loop {
            let left = of_cluster(machine, cluster, &["get", "vm,vmi,pvc", "-A"]);
            if left.is_empty() {
                break;
            }
            assert!(gone.elapsed() < SOON, "{left}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

fn leaves_nothing(machine: &Machine) {
    let text = said(&machine.run(&["down", "--purge"]), 0);
    assert!(text.contains("cluster-west           stopped"), "{text}");
    assert!(text.contains("is removed"), "{text}");
    assert_eq!(processes_of(machine.folder.path()), Vec::<String>::new());
    assert!(!machine.state().exists());
}
