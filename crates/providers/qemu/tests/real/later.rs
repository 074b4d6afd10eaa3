//! Disks that came after a snapshot, when it is gone back to. Nothing boots: what is on the disks is written from outside.

use std::path::PathBuf;
use std::process::Command;

use polyvirt_contract::model::{
    CreateVm, DiskSpec, PowerOp, PowerState, SnapshotContents, SnapshotRequest, VmRef,
};
use polyvirt_contract::{Provider as _, SnapshotId};

use crate::lab::{Lab, blank_image, desired};

const MIB: u64 = 1 << 20;

fn bare(lab: &Lab, number: u32) -> CreateVm {
    CreateVm {
        image: blank_image(lab.folder.path()),
        ..desired("later", number)
    }
}

fn with_data(wanted: &CreateVm, size_gib: u32) -> CreateVm {
    let data = DiskSpec {
        name: "data".to_owned(),
        size_gib,
        ..DiskSpec::default()
    };
    CreateVm {
        disks: vec![data],
        ..wanted.clone()
    }
}

async fn reconfigure(lab: &Lab, vm: &VmRef, wanted: &CreateVm) {
    lab.done(lab.provider.reconfigure(vm, wanted.clone()).await)
        .await;
}

async fn snapshot(lab: &Lab, vm: &VmRef, name: &str, contents: SnapshotContents) -> SnapshotId {
    let request = SnapshotRequest {
        name_hint: name.to_owned(),
        contents,
        ..SnapshotRequest::default()
    };
    let taken = lab.provider.snapshot_create(vm, request).await;
    let taken = taken.expect("accepted");
    lab.done(Ok(taken.task)).await;
    taken.id
}

async fn revert(lab: &Lab, vm: &VmRef, id: &SnapshotId) {
    lab.done(lab.provider.snapshot_revert(vm, id).await).await;
}

async fn forget(lab: &Lab, vm: &VmRef, id: &SnapshotId) {
    lab.done(lab.provider.snapshot_delete(vm, id).await).await;
}

fn file(lab: &Lab, vm: &VmRef) -> PathBuf {
    lab.vm_folder(vm).join("run/data1.qcow2")
}

fn qemu_io(lab: &Lab, vm: &VmRef, command: &str) -> bool {
    let done = Command::new("qemu-io")
        .args(["-f", "qcow2", "-c", command])
        .arg(file(lab, vm))
        .output()
        .expect("qemu-io is installed");
    // It ends well even if a pattern was not found.
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    done.status.success() && !said.contains("Pattern verification failed")
}

fn write(lab: &Lab, vm: &VmRef, word: u8, at: u64) {
    let written = qemu_io(lab, vm, &format!("write -P {word} {at} 65536"));
    assert!(written, "the disk cannot be written");
}

fn holds(lab: &Lab, vm: &VmRef, word: u8, at: u64) -> bool {
    qemu_io(lab, vm, &format!("read -P {word} {at} 65536"))
}

async fn starts_and_stops(lab: &Lab, vm: &VmRef) {
    lab.power(vm, PowerOp::On).await;
    assert_eq!(lab.state(vm).await.power, PowerState::On);
    lab.power(vm, PowerOp::Off).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_came_later_is_kept_with_what_is_on_it() {
    let lab = Lab::new().await;
    let wanted = bare(&lab, 90);
    let vm = lab.create(&wanted).await;
    let first = snapshot(&lab, &vm, "first", SnapshotContents::Disks).await;
    reconfigure(&lab, &vm, &with_data(&wanted, 1)).await;
    write(&lab, &vm, 7, 0);
    for _ in 0..2 {
        revert(&lab, &vm, &first).await;
        let disks = lab.state(&vm).await.disks.expect("told");
        assert_eq!(disks.len(), 1, "{disks:?}");
        reconfigure(&lab, &vm, &with_data(&wanted, 1)).await;
        assert!(holds(&lab, &vm, 7, 0), "what was on the disk is lost");
        starts_and_stops(&lab, &vm).await;
    }
    reconfigure(&lab, &vm, &wanted).await;
    assert!(!file(&lab, &vm).exists(), "no snapshot has it");
    lab.delete(&vm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_snapshot_is_touched() {
    let mut lab = Lab::new().await;
    let wanted = bare(&lab, 91);
    let vm = lab.create(&wanted).await;
    let first = snapshot(&lab, &vm, "first", SnapshotContents::Disks).await;
    reconfigure(&lab, &vm, &with_data(&wanted, 1)).await;
    write(&lab, &vm, 7, 0);
    let second = snapshot(&lab, &vm, "second", SnapshotContents::Disks).await;
    reconfigure(&lab, &vm, &with_data(&wanted, 2)).await;
    write(&lab, &vm, 8, MIB);
    revert(&lab, &vm, &first).await;
    lab.restart().await;
    reconfigure(&lab, &vm, &with_data(&wanted, 2)).await;
    assert!(holds(&lab, &vm, 8, MIB), "it is not in the first");
    starts_and_stops(&lab, &vm).await;
    revert(&lab, &vm, &second).await;
    assert!(holds(&lab, &vm, 7, 0) && holds(&lab, &vm, 0, MIB));
    reconfigure(&lab, &vm, &with_data(&wanted, 2)).await;
    let size = lab.state(&vm).await.disks.expect("told")[0].size_gib;
    assert_eq!(size, 2, "what has grown since grows again");
    starts_and_stops(&lab, &vm).await;
    for id in [&first, &second] {
        forget(&lab, &vm, id).await;
    }
    lab.delete(&vm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_goes_on_with_its_memory_gets_its_later_disks_again() {
    let lab = Lab::new().await;
    let wanted = bare(&lab, 92);
    let vm = lab.create(&wanted).await;
    lab.power(&vm, PowerOp::On).await;
    let first = snapshot(&lab, &vm, "first", SnapshotContents::DisksAndMemory).await;
    reconfigure(&lab, &vm, &with_data(&wanted, 1)).await;
    lab.power(&vm, PowerOp::Off).await;
    write(&lab, &vm, 7, 0);
    let second = snapshot(&lab, &vm, "second", SnapshotContents::Disks).await;
    for _ in 0..2 {
        revert(&lab, &vm, &first).await;
        let state = lab.state(&vm).await;
        assert_eq!(state.power, PowerState::On);
        assert_eq!(state.disks.expect("told").len(), 1);
        assert!(state.restart_required.is_empty());
    }
    forget(&lab, &vm, &second).await;
    reconfigure(&lab, &vm, &with_data(&wanted, 1)).await;
    lab.power(&vm, PowerOp::Off).await;
    assert!(holds(&lab, &vm, 7, 0), "what was on the disk is lost");
    lab.delete(&vm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_on_its_way_out_stays_as_long_as_a_snapshot_has_it() {
    let lab = Lab::new().await;
    let mut wanted = bare(&lab, 93);
    let vm = lab.create(&with_data(&wanted, 1)).await;
    write(&lab, &vm, 7, 0);
    lab.power(&vm, PowerOp::On).await;
    // Nothing runs in there that could let go of it.
    reconfigure(&lab, &vm, &wanted).await;
    let waits = lab.state(&vm).await.restart_required;
    assert_eq!(waits, ["spec.disks"]);
    let taken = snapshot(&lab, &vm, "taken", SnapshotContents::Disks).await;
    lab.power(&vm, PowerOp::Off).await;
    wanted.class.cpu = 2;
    reconfigure(&lab, &vm, &wanted).await;
    starts_and_stops(&lab, &vm).await;
    assert_eq!(lab.state(&vm).await.disks.expect("told"), []);
    revert(&lab, &vm, &taken).await;
    assert!(holds(&lab, &vm, 7, 0), "what was on the disk is lost");
    lab.power(&vm, PowerOp::On).await;
    forget(&lab, &vm, &taken).await;
    assert!(file(&lab, &vm).exists(), "the machine has it");
    lab.power(&vm, PowerOp::Off).await;
    reconfigure(&lab, &vm, &wanted).await;
    assert!(!file(&lab, &vm).exists(), "nothing has it");
    lab.delete(&vm).await;
}
