//! Moments to go back to.

use polyvirt_contract::model::{
    DiskState, PowerOp, PowerState, Quiesce, SnapshotContents, SnapshotRequest, VmRef, VmState,
};
use polyvirt_contract::{ErrorKind, Extension, SnapshotId};

use super::reconfigure::{reconfigure, with_disk};
use crate::check::{Check, Checked, Failure, Need, check, ensure};
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
            "snapshot-later-disk",
            "Going back leaves disks that came later, and other snapshots, as they are.",
            &[SNAPSHOTS, Need::Full, Need::Fields("spec.disks")],
            later_disk
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
    take_named(lab, vm, "conformance", contents).await
}

async fn take_named(
    lab: &Lab,
    vm: &VmRef,
    name: &str,
    contents: SnapshotContents,
) -> Checked<SnapshotId> {
    let request = SnapshotRequest {
        name_hint: name.to_owned(),
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

async fn later_disk(lab: &Lab) -> Checked {
    let desired = lab.desired();
    let vm = lab.make(desired.clone()).await?;
    let before = take_named(lab, &vm, "before", SnapshotContents::Disks).await?;
    let with_data = with_disk(&desired, 1);
    let made = data(&reconfigure(lab, &vm, &with_data).await?)?;
    let after = take_named(lab, &vm, "after", SnapshotContents::Disks).await?;
    // Back and forth: neither may cost the other.
    for snapshot in [&before, &after, &before] {
        revert(lab, &vm, snapshot).await?;
        let kept = data(&reconfigure(lab, &vm, &with_data).await?)?;
        ensure!(kept == made, "{made:?} became {kept:?}");
    }
    lab.switch(&vm, PowerOp::On).await?;
    Ok(())
}

/// The disk that came later.
fn data(state: &VmState) -> Checked<DiskState> {
    let disks = state.disks.clone().unwrap_or_default();
    let found = disks.iter().find(|disk| disk.name == "data").cloned();
    found.ok_or_else(|| Failure::new(format!("the disk is gone, there is {disks:?}")))
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
