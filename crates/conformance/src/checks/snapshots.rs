//! Moments to go back to.

use polyvirt_contract::model::{
    PowerOp, PowerState, Quiesce, SnapshotContents, SnapshotRequest, VmRef,
};
use polyvirt_contract::{ErrorKind, Extension, SnapshotId};

use crate::check::{Check, Checked, Need, check, ensure};
use crate::lab::Lab;

const SNAPSHOTS: Need = Need::Capability("snapshots", |has| has.snapshots);
const MEMORY: Need = Need::Capability("snapshots with memory", |has| has.memory_snapshots);
const IDENTITY: Need = Need::Extension(Extension::Identity);

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(
            "snapshot",
            "A snapshot is taken, gone back to, and deleted.",
            &[SNAPSHOTS],
            whole_life
        ),
        check!(
            "snapshot-memory",
            "One with memory goes back to a running VM.",
            &[MEMORY],
            memory
        ),
        check!(
            "snapshot-twice",
            "One name is one snapshot, for the first reply may have been lost.",
            &[SNAPSHOTS, IDENTITY],
            twice
        ),
    ]
}

async fn take(lab: &Lab, vm: &VmRef, contents: SnapshotContents) -> Checked<SnapshotId> {
    let request = SnapshotRequest {
        name_hint: "conformance".to_owned(),
        description: "Made by the conformance suite".to_owned(),
        contents,
        quiesce: Quiesce::IfPossible,
    };
    let taken = lab.provider().snapshot_create(vm, request).await?;
    ensure!(!taken.id.is_empty(), "the snapshot has no id");
    lab.done(taken.task).await?;
    Ok(taken.id)
}

async fn revert(lab: &Lab, vm: &VmRef, snapshot: &SnapshotId) -> Checked {
    let task = lab.provider().snapshot_revert(vm, snapshot).await?;
    lab.done(task).await
}

async fn whole_life(lab: &Lab) -> Checked {
    let vm = lab.vm().await?;
    let snapshot = take(lab, &vm, SnapshotContents::Disks).await?;
    lab.switch(&vm, PowerOp::On).await?;
    revert(lab, &vm, &snapshot).await?;
    let off = |state: &polyvirt_contract::model::VmState| state.power == PowerState::Off;
    lab.until(&vm.id, "the VM to be off as in the snapshot", off)
        .await?;
    let task = lab.provider().snapshot_delete(&vm, &snapshot).await?;
    lab.done(task).await?;
    let answer = lab.provider().snapshot_revert(&vm, &snapshot).await;
    lab.refused(answer, ErrorKind::NotFound, "a deleted snapshot")?;
    Ok(())
}

async fn memory(lab: &Lab) -> Checked {
    let vm = lab.running().await?;
    let snapshot = take(lab, &vm, SnapshotContents::DisksAndMemory).await?;
    lab.switch(&vm, PowerOp::Off).await?;
    revert(lab, &vm, &snapshot).await?;
    let on = |state: &polyvirt_contract::model::VmState| state.power == PowerState::On;
    lab.until(&vm.id, "the VM to run as in the snapshot", on)
        .await?;
    Ok(())
}

async fn twice(lab: &Lab) -> Checked {
    let vm = lab.vm().await?;
    let first = take(lab, &vm, SnapshotContents::Disks).await?;
    let second = take(lab, &vm, SnapshotContents::Disks).await?;
    ensure!(
        first == second,
        "the second request took {second} beside {first}"
    );
    Ok(())
}
