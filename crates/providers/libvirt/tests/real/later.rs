//! Disks that came after a snapshot, when it is gone back to. What is on them is written from outside.

use std::process::Command;

use polyvirt_contract::model::{
    CreateVm, DiskSpec, DiskState, PowerOp, PowerState, SnapshotContents, SnapshotRequest, VmRef,
};
use polyvirt_contract::{Provider as _, SnapshotId};

use crate::lab::Lab;

const MIB: u64 = 1 << 20;

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

async fn disk(lab: &Lab, vm: &VmRef) -> DiskState {
    let disks = lab.state(vm).await.disks.expect("told");
    assert_eq!(disks.len(), 1, "{disks:?}");
    disks[0].clone()
}

fn qemu_io(disk: &DiskState, command: &str) -> bool {
    let done = Command::new("qemu-io")
        .args(["-f", "qcow2", "-c", command, &disk.path])
        .output()
        .expect("qemu-io is installed");
    // It ends well even if a pattern was not found.
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    done.status.success() && !said.contains("Pattern verification failed")
}

fn write(disk: &DiskState, word: u8, at: u64) {
    let written = qemu_io(disk, &format!("write -P {word} {at} 65536"));
    assert!(written, "the disk cannot be written");
}

fn holds(disk: &DiskState, word: u8, at: u64) -> bool {
    qemu_io(disk, &format!("read -P {word} {at} 65536"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_came_later_is_kept_and_so_is_every_other_snapshot() {
    let lab = Lab::new().await;
    let wanted = lab.desired("later", 90);
    let vm = lab.create(&wanted).await;
    let first = snapshot(&lab, &vm, "first", SnapshotContents::Disks).await;
    reconfigure(&lab, &vm, &with_data(&wanted, 1)).await;
    let data = disk(&lab, &vm).await;
    write(&data, 7, 0);
    for _ in 0..2 {
        revert(&lab, &vm, &first).await;
        assert_eq!(disk(&lab, &vm).await, data);
        reconfigure(&lab, &vm, &with_data(&wanted, 1)).await;
        assert!(holds(&data, 7, 0), "what was on the disk is lost");
    }
    // As if somebody had died between the machine of then and the disks of now.
    let detach = ["detach-disk", vm.id.as_str(), "vdb", "--config"];
    lab.host.virsh(&detach);
    revert(&lab, &vm, &first).await;
    assert_eq!(disk(&lab, &vm).await, data);
    let second = snapshot(&lab, &vm, "second", SnapshotContents::Disks).await;
    write(&data, 8, MIB);
    revert(&lab, &vm, &first).await;
    reconfigure(&lab, &vm, &with_data(&wanted, 1)).await;
    assert!(holds(&data, 8, MIB), "it is not in the first");
    lab.power(&vm, PowerOp::On).await;
    assert_eq!(disk(&lab, &vm).await, data);
    revert(&lab, &vm, &second).await;
    assert_eq!(disk(&lab, &vm).await, data);
    assert!(holds(&data, 7, 0) && holds(&data, 0, MIB));
    goes_on_with_its_memory(&lab, &vm, &wanted).await;
    lab.delete(&vm).await;
}

/// The machine of then does not know the disk, and gets it as if it were added anew.
async fn goes_on_with_its_memory(lab: &Lab, vm: &VmRef, wanted: &CreateVm) {
    let state = lab.state(vm).await;
    for known in state.snapshots.expect("told") {
        lab.done(lab.provider.snapshot_delete(vm, &known.id).await)
            .await;
    }
    reconfigure(lab, vm, wanted).await;
    lab.power(vm, PowerOp::On).await;
    let first = snapshot(lab, vm, "memory", SnapshotContents::DisksAndMemory).await;
    lab.power(vm, PowerOp::Off).await;
    reconfigure(lab, vm, &with_data(wanted, 1)).await;
    let data = disk(lab, vm).await;
    write(&data, 9, 0);
    revert(lab, vm, &first).await;
    assert_eq!(lab.state(vm).await.power, PowerState::On);
    assert_eq!(disk(lab, vm).await, data);
    assert!(lab.state(vm).await.restart_required.is_empty());
    lab.power(vm, PowerOp::Off).await;
    assert_eq!(disk(lab, vm).await, data);
    assert!(holds(&data, 9, 0), "what was on the disk is lost");
}

/// The definition of a VM that went back under an earlier version does not know the disk, and a snapshot does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_only_a_snapshot_knows_is_that_disk() {
    let lab = Lab::new().await;
    let wanted = lab.desired("later", 91);
    let vm = lab.create(&wanted).await;
    snapshot(&lab, &vm, "first", SnapshotContents::Disks).await;
    reconfigure(&lab, &vm, &with_data(&wanted, 1)).await;
    let data = disk(&lab, &vm).await;
    write(&data, 7, 0);
    let second = snapshot(&lab, &vm, "second", SnapshotContents::Disks).await;
    let name = vm.id.as_str();
    lab.host
        .virsh(&["snapshot-revert", name, "first", "--force"]);
    reconfigure(&lab, &vm, &with_data(&wanted, 1)).await;
    assert_eq!(disk(&lab, &vm).await, data);
    assert!(holds(&data, 7, 0), "what was on the disk is lost");
    revert(&lab, &vm, &second).await;
    assert!(holds(&data, 7, 0), "the snapshot is damaged");
    lab.delete(&vm).await;
}
