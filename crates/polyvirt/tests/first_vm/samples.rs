//! What one `kubectl apply -f` has made, one `kubectl delete -f` takes away.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::machine::{Machine, said};

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples");
const PATIENCE: Duration = Duration::from_secs(90);
const KINDS: &str = "virtualmachines.infra.virtrigaud.io,providers,vmclasses,vmimages,vmnetworkattachments,vmsnapshots,machines,kubevirtconfigs,networkconfigurations,virtualmachines.novacron.io";

fn samples() -> Vec<PathBuf> {
    let files = std::fs::read_dir(SAMPLES).unwrap().flatten();
    let mut files: Vec<_> = files.map(|file| file.path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "yaml"));
    files.sort();
    files
}

fn apply(machine: &Machine, sample: &Path) -> String {
    machine.kubectl(&["apply", "-f", &sample.display().to_string()])
}

/// Fails if anything is refused, or left after a minute.
fn delete(machine: &Machine, sample: &Path) {
    let file = sample.display().to_string();
    machine.kubectl(&["delete", "-f", &file, "--timeout=60s"]);
    // The Provider of a KubevirtConfig is deleted by its controller, half a minute later if Machines used it.
    let begin = Instant::now();
    loop {
        let left = machine.kubectl(&["get", KINDS, "-A", "-o", "name"]);
        if left.is_empty() {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{file} leaves {left}");
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[test]
fn every_sample_is_deleted_by_one_command() {
    let machine = Machine::new();
    said(&machine.up_with(&["--no-sample"]), 0);
    for sample in samples() {
        // Before the manager has seen much of it, and after.
        apply(&machine, &sample);
        delete(&machine, &sample);
        apply(&machine, &sample);
        if sample.ends_with("mock.yaml") {
            machine.kubectl(&["wait", "vm/web", "--for=condition=Ready", "--timeout=60s"]);
        }
        delete(&machine, &sample);
    }
}

#[test]
fn the_same_manifest_applied_twice_is_unchanged() {
    let machine = Machine::new();
    said(&machine.up_with(&["--no-sample"]), 0);
    let disks = machine.folder.path().join("disks.yaml");
    std::fs::write(&disks, DISKS).unwrap();
    for sample in samples().into_iter().chain([disks]) {
        apply(&machine, &sample);
        let again = apply(&machine, &sample);
        let changed = again.lines().filter(|line| !line.ends_with(" unchanged"));
        assert_eq!(changed.count(), 0, "{}: {again}", sample.display());
        delete(&machine, &sample);
    }
}

const DISKS: &str = "
apiVersion: infra.virtrigaud.io/v1beta1
kind: VirtualMachine
metadata: {name: disks, namespace: default}
spec:
  providerRef: {name: nowhere}
  class: {cpu: 1, memory: 1Gi}
  image: {libvirt: {path: /a.qcow2}}
  disks:
  - {name: data, sizeGiB: 1}
  - {name: more, sizeGiB: 1, scsi: {controller: 1}}
  resources: {devices: [{name: card, type: gpu}]}
";
