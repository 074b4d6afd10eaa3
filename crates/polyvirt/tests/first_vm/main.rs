//! The first five minutes of a user, with VMs that only look real: up, look around, get in, stop, down.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod kubevirt;
mod libvirt;
mod machine;
mod novacron_readme;
mod samples;

use std::io::Write;
use std::net::TcpListener;
use std::process::Stdio;

use machine::{Machine, complained, processes_of, said};

#[test]
fn the_first_five_minutes() {
    let machine = Machine::new();
    comes_up(&machine);
    shows_vms(&machine);
    changes_power(&machine);
    gets_into_guests(&machine);
    serves_novacron(&machine);
    deletes_a_namespace(&machine);
    comes_up_again(&machine);
    comes_back(&machine);
    goes_down(&machine);
}

fn comes_up(machine: &Machine) {
    complained(&machine.run(&["status"]), 1, "");
    let text = said(&machine.up(), 0);
    for word in [
        "kube-apiserver",
        "manager",
        "Running",
        "boot 1 of web",
        "export KUBECONFIG=",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains('\x1b'), "no terminal, no colours: {text}");
    let status = said(&machine.run(&["status", "--output", "json"]), 0);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["healthy"], true);
    assert_eq!(status["virtualMachines"][0]["phase"], "Running");
}

fn shows_vms(machine: &Machine) {
    let list = said(&machine.run(&["vm", "list"]), 0);
    assert!(list.starts_with("NAME   PHASE     POWER   READY"), "{list}");
    let names = said(&machine.run(&["vm", "list", "-A", "-o", "name"]), 0);
    assert_eq!(names, "virtualmachine.infra.virtrigaud.io/web\n");
    let json = said(&machine.run(&["vm", "list", "-o", "json"]), 0);
    assert!(json.contains("\"kind\": \"List\""), "{json}");
    let described = said(&machine.run(&["vm", "describe", "web"]), 0);
    for word in ["Addresses:", "Conditions:", "Events:"] {
        assert!(described.contains(word), "{described}");
    }
    assert!(said(&machine.run(&["vm", "events", "web"]), 0).contains("Created"));
    let object = said(&machine.run(&["vm", "describe", "web", "-o", "yaml"]), 0);
    assert!(object.contains("kind: VirtualMachine"), "{object}");
    let events = said(&machine.run(&["vm", "events", "web", "-o", "json"]), 0);
    let events: serde_json::Value = serde_json::from_str(&events).unwrap();
    assert_eq!(events["items"][0]["involvedObject"]["name"], "web");
    let none = machine.run(&["vm", "list", "-n", "nowhere"]);
    complained(&none, 0, "No VMs in the namespace nowhere");
    complained(&machine.run(&["vm", "describe", "nope"]), 3, "vm list -A");
    complained(&machine.run(&["vm", "explode", "web"]), 2, "explode");
}

fn changes_power(machine: &Machine) {
    assert!(said(&machine.run(&["vm", "stop", "web", "--wait"]), 0).contains("stop done"));
    complained(&machine.run(&["vm", "restart", "web"]), 1, "vm start web");
    for part in ["console", "vnc", "ssh"] {
        complained(&machine.run(&["vm", part, "web"]), 1, "vm start web");
    }
    let off = machine.run(&["vm", "exec", "web", "--", "hostname"]);
    complained(&off, 1, "vm start web");
    assert!(said(&machine.run(&["vm", "start", "web", "--wait"]), 0).contains("start done"));
    assert!(said(&machine.run(&["vm", "restart", "web", "-w"]), 0).contains("restart done"));
    is_told_as_late(machine);
}

/// A manager may be quicker than whoever waits for no time at all, now and then.
fn is_told_as_late(machine: &Machine) {
    let late = (0..5).any(|_| {
        let stopped = machine.run(&["vm", "stop", "web", "--wait", "--timeout", "0"]);
        let late = stopped.status.code() != Some(0);
        if late {
            complained(&stopped, 4, "did not stop");
        }
        said(&machine.run(&["vm", "start", "web", "--wait"]), 0);
        late
    });
    assert!(late, "it was never told as late");
}

fn gets_into_guests(machine: &Machine) {
    assert_eq!(
        said(&machine.run(&["vm", "exec", "web", "--", "hostname"]), 0),
        "web\n"
    );
    said(&machine.run(&["vm", "exec", "web", "--", "false"]), 1);
    complained(
        &machine.run(&["vm", "exec", "nope", "--", "true"]),
        3,
        "vm list -A",
    );
    assert!(said(&machine.run(&["vm", "logs", "web"]), 0).contains("of web"));
    let mut console = machine.command(&["vm", "console", "web"]);
    console
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut console = console.spawn().unwrap();
    console
        .stdin
        .take()
        .unwrap()
        .write_all(b"echo hello\n")
        .unwrap();
    let shown = said(&console.wait_with_output().unwrap(), 0);
    assert!(shown.contains("echo hello\r\nhello\r\n"), "{shown}");
}

/// The catalogue came with `up`: a VM as NovaCron writes it finds its image.
fn serves_novacron(machine: &Machine) {
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../config/samples/novacron.yaml"
    );
    let vm = "virtualmachines.novacron.io/my-vm";
    let kubectl = |words: &[&str]| machine.kubectl(words);
    kubectl(&["apply", "-f", sample]);
    let runs = "--for=jsonpath={.status.phase}=Running";
    kubectl(&["wait", runs, vm, "--timeout=30s"]);
    for object in [vm, "provider/novacron-playground"] {
        kubectl(&["delete", object, "--timeout=30s"]);
    }
}

/// With all that is in it, although no kube-controller-manager runs: VMs leave the hypervisor first.
fn deletes_a_namespace(machine: &Machine) {
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../config/samples/mock.yaml"
    );
    let text = std::fs::read_to_string(sample).unwrap();
    let copy = machine.folder.path().join("team.yaml");
    std::fs::write(&copy, text.replace("namespace: default", "namespace: team")).unwrap();
    machine.kubectl(&["create", "namespace", "team"]);
    machine.kubectl(&["apply", "-f", copy.to_str().unwrap()]);
    let ready = [
        "wait",
        "--for=condition=Ready",
        "vm/web",
        "-n",
        "team",
        "--timeout=30s",
    ];
    machine.kubectl(&ready);
    machine.kubectl(&["delete", "namespace", "team", "--timeout=60s"]);
    let left = machine.kubectl(&["get", "virt", "-A", "-o", "name"]);
    assert_eq!(left.matches("virtualmachine").count(), 1, "{left}");
}

/// What was asked for on the command line reaches the manager, which is started again for it.
#[test]
fn the_manager_logs_as_it_was_asked_to() {
    let machine = Machine::new();
    let log = || std::fs::read_to_string(machine.state().join("manager.log")).unwrap();
    said(&machine.up_with(&["--no-sample", "--log-level", "warn"]), 0);
    assert!(!log().contains("manager starts"), "{}", log());
    said(
        &machine.up_with(&["--no-sample", "--log-format", "json"]),
        0,
    );
    let starts = r#""level":"info","message":"manager starts""#;
    assert!(log().contains(starts), "{}", log());
}

fn comes_up_again(machine: &Machine) {
    let text = said(&machine.up(), 0);
    assert_eq!(
        text.matches(" runs ").count(),
        4,
        "nothing was started: {text}"
    );
    assert!(text.contains("0 of 5 objects were missing"), "{text}");
}

/// What the last manager said is no news: the guest counts when the new one has looked at it.
fn comes_back(machine: &Machine) {
    said(&machine.run(&["down"]), 0);
    let gone = machine.run(&["vm", "list"]);
    complained(&gone, 1, "`polyvirt up` starts one");
    let text = said(&machine.up(), 0);
    assert_eq!(text.matches(" runs ").count(), 0, "all was started: {text}");
    assert!(text.contains("Running"), "{text}");
}

fn goes_down(machine: &Machine) {
    said(&machine.run(&["down"]), 0);
    assert_eq!(processes_of(machine.folder.path()), Vec::<String>::new());
    complained(&machine.run(&["status"]), 1, "");
    said(&machine.run(&["down", "--purge"]), 0);
    assert!(!machine.state().exists());
}

#[test]
fn a_port_that_is_taken_is_named_with_its_holder() {
    let mut machine = Machine::new();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port().to_string();
    machine.ports[3].clone_from(&port);
    let refused = machine.up();
    complained(&refused, 1, &format!("Port {port}"));
    complained(&refused, 1, &format!("process {}", std::process::id()));
    complained(&refused, 1, "--etcd-port");
}

#[test]
fn an_image_that_cannot_be_used_is_told_before_anything_is_started() {
    let machine = Machine::new();
    let empty = machine.folder.path().join("empty.img");
    std::fs::write(&empty, "").unwrap();
    for (image, words) in [
        (
            "/no/such/image.qcow2",
            "There is no image at /no/such/image.qcow2",
        ),
        (empty.to_str().unwrap(), "The image is empty"),
        ("ftp://images.example.com/a", "file: address"),
    ] {
        complained(&machine.run(&["up", "--image", image]), 1, words);
    }
    let url = "http://images.example.com/a";
    let digits = machine.run(&["up", "--image", url, "--image-checksum", "12"]);
    complained(&digits, 1, "--image-checksum");
    complained(
        &machine.run(&["up", "--image-checksum", "12"]),
        2,
        "--image",
    );
    assert!(!machine.state().exists(), "nothing was begun");
}

#[test]
fn the_cluster_that_was_named_is_the_only_one() {
    let machine = Machine::new();
    let named = machine.run(&["vm", "list", "--kubeconfig", "/no/such/file"]);
    complained(&named, 1, "Cannot read /no/such/file");
    let state = machine.state().display().to_string();
    let in_environment = machine.run(&["vm", "list"]);
    complained(&in_environment, 1, &format!("KUBECONFIG names {state}"));
}
