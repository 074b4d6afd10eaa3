//! The libvirt of a newcomer: a daemon that has never run here, and a guest that really boots.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::machine::{Machine, processes_of, said};

/// A daemon that asks QEMU again and again what it can do takes minutes. A busy machine does not.
const SOON: Duration = Duration::from_secs(140);

#[test]
fn a_libvirt_that_starts_for_the_first_time_boots_a_guest_soon() {
    let machine = Machine::new();
    let images = machine.state().join("images");
    std::fs::create_dir_all(&images).unwrap();
    let guest = polyvirt_testkit::guest::image().unwrap();
    std::fs::copy(guest, images.join("guest.qcow2")).unwrap();
    let begin = Instant::now();
    let text = said(&machine.up_with(&["--with", "libvirt"]), 0);
    assert!(text.contains("VM demo-libvirt        Running"), "{text}");
    assert!(begin.elapsed() < SOON, "{text}");
    let shown = said(&machine.run(&["vm", "describe", "demo-libvirt"]), 0);
    assert!(!shown.contains("does not answer"), "{shown}");

    let uname = ["vm", "exec", "demo-libvirt", "--", "uname", "-s"];
    assert_eq!(said(&machine.run(&uname), 0), "Linux\n");
    starts_again(&machine);
    let down = said(&machine.run(&["down"]), 0);
    assert!(down.contains("1 guests are off"), "{down}");
    assert_eq!(processes_of(machine.folder.path()), Vec::<String>::new());
}

/// Somebody pulls the plug behind the declaration, which is not corrected. `vm start` is one all the same.
fn starts_again(machine: &Machine) {
    let vm = "virtualmachines.infra.virtrigaud.io/demo-libvirt";
    let kubectl = |words: &[&str]| machine.kubectl(words);
    let left_alone = r#"{"spec": {"driftPolicy": null}}"#;
    kubectl(&["patch", vm, "--type", "merge", "--patch", left_alone]);
    let socket = machine.state().join("libvirt/run/libvirt-sock");
    let endpoint = format!("qemu+unix:///system?socket={}", socket.display());
    let mut virsh = Command::new("virsh");
    virsh.args(["--connect", &endpoint, "destroy", "demo-libvirt"]);
    said(&virsh.output().unwrap(), 0);
    kubectl(&["wait", vm, "--for=jsonpath={.status.powerState}=Off"]);
    let start = ["vm", "start", "demo-libvirt", "--wait", "--timeout", "90"];
    let text = said(&machine.run(&start), 0);
    assert!(text.contains("start done"), "{text}");
}
