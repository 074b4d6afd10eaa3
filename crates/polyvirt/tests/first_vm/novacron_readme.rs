//! The kubectl commands of NovaCron's README, to the letter, whichever API has the short name `vm`.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::machine::{Machine, said};

const PATIENCE: Duration = Duration::from_secs(90);
const WAIT: &str = "--timeout=90s";
/// The VirtualMachine of the README, and what runs it.
const MANIFEST: &str = r#"
apiVersion: infra.virtrigaud.io/v1beta1
kind: Provider
metadata: {name: kvm, namespace: default}
spec: {type: mock, endpoint: "mock://memory", runtime: {mode: InProcess}}
---
apiVersion: novacron.io/v1alpha1
kind: VirtualMachine
metadata:
  name: my-vm
  namespace: default
spec:
  running: true
  template:
    spec:
      resources:
        cpu: 2
        memory: 4Gi
        disk: 50Gi
      image:
        source: "marketplace://ubuntu-22.04-lts"
      networks:
        - name: default
          type: bridge
          ipv4:
            method: dhcp
"#;
const NOVACRON: &str = "virtualmachines.novacron.io/my-vm";
const INFRA: &str = "virtualmachines.infra.virtrigaud.io/my-vm";

/// As a user types it, with a discovery cache of its own.
fn kubectl(machine: &Machine, line: &str) -> Output {
    let words = shell_words(line);
    let mut command = Command::new(polyvirt_testkit::kubectl());
    command
        .args(&words)
        .arg("--cache-dir")
        .arg(machine.folder.path().join("cache"))
        .env("KUBECONFIG", machine.state().join("kubeconfig"));
    command.output().unwrap()
}

/// Splits at spaces outside single quotes.
fn shell_words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(i, part)| match i % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

/// Works, and kubectl has nothing to warn of.
#[track_caller]
fn works(machine: &Machine, line: &str) -> String {
    let output = kubectl(machine, line);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!errors.contains("Warning"), "{line}: {errors}");
    said(&output, 0)
}

/// Is refused with these words.
#[track_caller]
fn refused(machine: &Machine, line: &str, words: &str) {
    let output = kubectl(machine, line);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}: {errors}");
    assert!(errors.contains(words), "{line}: {errors}");
}

fn applied(setting: &str) -> Machine {
    let machine = Machine::new();
    let up = machine.up_with(&["--no-sample", "--vm-short-name", setting]);
    said(&up, 0);
    let file = machine.folder.path().join("my-vm.yaml");
    std::fs::write(&file, MANIFEST).unwrap();
    said(
        &kubectl(&machine, &format!("apply -f {}", file.display())),
        0,
    );
    works(
        &machine,
        &format!("wait {NOVACRON} --for=condition=Ready {WAIT}"),
    );
    machine
}

/// The group comes first a moment after the manager has asked for it; until then kubectl remembers the wrong order.
fn until_first(machine: &Machine, wanted: &str) {
    let begin = Instant::now();
    loop {
        let _ = std::fs::remove_dir_all(machine.folder.path().join("cache"));
        let names = works(machine, "get virtualmachines -o name");
        if names.trim() == wanted {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{names}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Those that read, and those that do not depend on the names.
fn reads(machine: &Machine) {
    works(machine, "get pods -n novacron-system");
    works(machine, "get crd virtualmachines.novacron.io");
    works(machine, "describe nodes");
    let events = works(
        machine,
        "get events --field-selector involvedObject.name=my-vm",
    );
    assert!(events.contains("Running"), "{events}");
    let shown = works(machine, "get vm");
    assert!(shown.contains("my-vm   Running"), "{shown}");
    // A watch ends by itself only when it is asked to.
    let watched = kubectl(machine, "get vm -w --request-timeout=2s");
    let shown = String::from_utf8_lossy(&watched.stdout);
    assert!(shown.contains("my-vm   Running"), "{shown}");
}

#[test]
fn with_the_short_name_every_command_means_novacron() {
    let machine = applied("novacron");
    until_first(&machine, "virtualmachine.novacron.io/my-vm");
    reads(&machine);
    let described = works(&machine, "describe vm my-vm");
    assert!(described.contains("novacron.io/v1alpha1"), "{described}");
    works(
        &machine,
        r#"patch vm my-vm --type merge -p '{"spec":{"running":false}}'"#,
    );
    works(
        &machine,
        &format!("wait {NOVACRON} --for=jsonpath={{.status.phase}}=Stopped {WAIT}"),
    );
    works(
        &machine,
        r#"patch vm my-vm --type merge -p '{"spec":{"running":true}}'"#,
    );
    works(
        &machine,
        &format!("wait {NOVACRON} --for=condition=Ready {WAIT}"),
    );
    let deleted = works(&machine, "delete vm my-vm");
    assert!(
        deleted.contains("virtualmachine.novacron.io \"my-vm\" deleted"),
        "{deleted}"
    );
    let left = works(&machine, "get virtualmachines.infra.virtrigaud.io -o name");
    assert_eq!(left, "", "its VM is deleted with it");
    // The setting is remembered, and can be taken back.
    said(&machine.up_with(&["--no-sample"]), 0);
    until_first_group(&machine, "novacron.io");
    said(
        &machine.up_with(&["--no-sample", "--vm-short-name", "infra"]),
        0,
    );
    until_first_group(&machine, "infra.virtrigaud.io");
}

fn until_first_group(machine: &Machine, group: &str) {
    let begin = Instant::now();
    loop {
        let shown = works(machine, "explain virtualmachines");
        if shown.contains(&format!("GROUP:      {group}\n")) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{shown}");
        let _ = std::fs::remove_dir_all(machine.folder.path().join("cache"));
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn without_it_no_command_loses_a_vm_and_each_says_what_to_type() {
    let machine = applied("infra");
    until_first(&machine, "virtualmachine.infra.virtrigaud.io/my-vm");
    reads(&machine);
    let vm = || {
        works(
            &machine,
            &format!("get {INFRA} -o jsonpath={{.metadata.uid}}/{{.status.id}}"),
        )
    };
    let before = vm();
    let described = works(&machine, "describe vm my-vm");
    assert!(
        described.contains("infra.virtrigaud.io/v1beta1"),
        "{described}"
    );
    for running in ["false", "true"] {
        let patch = format!(r#"--type merge -p '{{"spec":{{"running":{running}}}}}'"#);
        let wanted = format!("kubectl patch {NOVACRON} {patch}");
        refused(&machine, &format!("patch vm my-vm {patch}"), &wanted);
    }
    let stop = r#"patch vm my-vm --type merge -p '{"spec":{"powerState":"Off"}}'"#;
    refused(
        &machine,
        stop,
        &format!("kubectl patch {NOVACRON} --type merge -p '{{\"spec\":{{\"running\":false}}}}'"),
    );
    refused(
        &machine,
        "delete vm my-vm",
        &format!("kubectl delete {NOVACRON} --namespace default"),
    );
    refused(
        &machine,
        "delete vm --all",
        &format!("kubectl delete {NOVACRON} --namespace default"),
    );
    assert_eq!(vm(), before, "nothing was lost");
    works(
        &machine,
        &format!("patch {NOVACRON} --type merge -p '{{\"spec\":{{\"running\":false}}}}'"),
    );
    works(
        &machine,
        &format!("wait {NOVACRON} --for=jsonpath={{.status.phase}}=Stopped {WAIT}"),
    );
    works(&machine, &format!("delete {NOVACRON} --namespace default"));
    assert_eq!(
        works(&machine, "get vm -o name"),
        "",
        "its VM is deleted with it"
    );
}
