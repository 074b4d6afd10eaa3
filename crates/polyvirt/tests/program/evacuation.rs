//! `polyvirt host drain`: a host is closed and emptied, VMs that are off included, and says which VMs had to stay.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_polyvirt");

struct Machine {
    folder: tempfile::TempDir,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.run(&["down"]);
    }
}

impl Machine {
    /// A control plane, a manager, and a Provider with three hosts that are only imagined.
    fn new() -> Self {
        let machine = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let listeners: Vec<_> = (0..6)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let names = ["api", "etcd", "gateway", "metrics", "health", "webhook"];
        let ports = names.iter().zip(&listeners).flat_map(|(name, listener)| {
            let port = listener.local_addr().unwrap().port();
            [format!("--{name}-port"), port.to_string()]
        });
        let ports: Vec<_> = ports.collect();
        drop(listeners);
        let mut up = machine.command(&["up", "--provider", "mock", "--no-sample"]);
        said(&up.args(&ports).output().unwrap(), 0);
        machine
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(words)
            .env("POLYVIRT_STATE_DIR", self.state())
            .env("KUBECONFIG", self.state().join("kubeconfig"))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn kubectl(&self, words: &[&str]) -> String {
        let mut command = Command::new(polyvirt_testkit::kubectl());
        command.env("KUBECONFIG", self.state().join("kubeconfig"));
        said(&command.args(words).output().unwrap(), 0)
    }

    fn apply(&self, manifests: &str) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(manifests.as_bytes()).unwrap();
        self.kubectl(&["apply", "-f", &file.path().display().to_string()]);
    }

    fn host_of(&self, vm: &str) -> String {
        let vm = format!("virtualmachines.infra.virtrigaud.io/{vm}");
        self.kubectl(&["get", &vm, "-o", "jsonpath={.status.host}"])
    }
}

#[track_caller]
fn said(output: &Output, code: i32) -> String {
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{out}\n{errors}");
    out
}

fn provider(hosts: u8) -> String {
    format!(
        "apiVersion: infra.virtrigaud.io/v1beta1
kind: Provider
metadata: {{name: lab}}
spec: {{type: mock, endpoint: \"mock://memory?hosts={hosts}\", runtime: {{mode: InProcess}}}}
"
    )
}

/// On the first host, to begin with.
fn vm(name: &str, power: &str) -> String {
    format!(
        "---
apiVersion: infra.virtrigaud.io/v1beta1
kind: VirtualMachine
metadata: {{name: {name}}}
spec:
  providerRef: {{name: lab}}
  class: {{cpu: 1, memory: 1Gi}}
  image: {{libvirt: {{path: /images/any.qcow2}}}}
  powerState: \"{power}\"
  placement: {{host: host-1}}
"
    )
}

fn fleet(machine: &Machine, hosts: u8) {
    let vms = [vm("web", "On"), vm("db", "On"), vm("spare", "Off")];
    machine.apply(&format!("{}{}", provider(hosts), vms.concat()));
    for name in ["web", "db", "spare"] {
        let vm = format!("virtualmachines.infra.virtrigaud.io/{name}");
        machine.kubectl(&["wait", &vm, "--for=condition=Ready", "--timeout=60s"]);
    }
}

#[test]
fn a_host_is_emptied_and_takes_nothing_more_until_it_is_opened() {
    let machine = Machine::new();
    fleet(&machine, 3);
    let list = said(&machine.run(&["host", "list", "lab"]), 0);
    assert!(list.contains("host-1   3     Open"), "{list}");
    let told = said(&machine.run(&["host", "drain", "lab", "host-1"]), 0);
    assert!(told.ends_with("host/host-1: empty\n"), "{told}");
    for name in ["web", "db", "spare"] {
        assert_ne!(machine.host_of(name), "host-1", "{name}: {told}");
        assert!(told.contains(&format!("default/{name}: ")), "{told}");
    }
    let list = said(&machine.run(&["host", "list", "lab"]), 0);
    assert!(list.contains("host-1   0     Cordoned"), "{list}");
    // Once more there is nothing to do.
    let again = said(&machine.run(&["host", "evacuate", "lab", "host-1"]), 0);
    assert_eq!(again, "host/host-1: empty\n");
    said(&machine.run(&["host", "uncordon", "lab", "host-1"]), 0);
    let list = said(&machine.run(&["host", "list", "lab"]), 0);
    assert!(!list.contains("Cordoned"), "{list}");
}

#[test]
fn vms_that_can_go_nowhere_stay_and_are_named() {
    let machine = Machine::new();
    fleet(&machine, 2);
    said(&machine.run(&["host", "cordon", "lab", "host-2"]), 0);
    let drain = ["host", "drain", "lab", "host-1", "--timeout", "3"];
    let output = machine.run(&drain);
    said(&output, 1);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("default/web stays"), "{errors}");
    assert!(
        errors.contains("3 of 3 VMs are still on host-1"),
        "{errors}"
    );
    assert_eq!(machine.host_of("web"), "host-1");
    // Once there is room, it goes on with what was asked for.
    said(&machine.run(&["host", "uncordon", "lab", "host-2"]), 0);
    let told = said(
        &machine.run(&["host", "drain", "lab", "host-1", "--timeout", "60"]),
        0,
    );
    assert!(told.ends_with("host/host-1: empty\n"), "{told}");
    assert_ne!(machine.host_of("web"), "host-1");
    let moves = machine.kubectl(&["get", "vmmigrations", "-o", "name"]);
    assert_eq!(moves.lines().count(), 3, "{moves}");
    let unknown = machine.run(&["host", "drain", "lab", "host-7"]);
    said(&unknown, 3);
}
