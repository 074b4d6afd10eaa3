//! Back to a moment.
//!
//! Disks that came after it are not part of it and stay as they are. A machine that is off has them at once; one that runs on
//! with its memory of then begins without them, for it would not know them, and gets them as if they were added anew.

use std::sync::Arc;

use polyvirt_contract::{Result, SnapshotId, TaskId};

use crate::core::Core;
use crate::errors;
use crate::snapshot::{find, offline};
use crate::state::{Disk, Hardware, Record, Snapshot};
use crate::vm::{self, Begin, Vm, drop_files};

/// Takes the VM back: off as it was, or running on from that moment if its memory was kept.
pub(crate) async fn revert(
    core: &Arc<Core>,
    vm: Arc<Vm>,
    id: SnapshotId,
) -> Result<Option<TaskId>> {
    find(&vm, &id)?;
    let core_of_task = core.clone();
    let key = format!("snapshot-revert {} {id}", vm.uuid());
    let begun = core.tasks.begin(&key, move |_| async move {
        let _alone = vm.change.lock().await;
        vm.must_be_whole()?;
        go_back(&core_of_task, &vm, &find(&vm, &id)?).await
    });
    begun.answer().await
}

/// Whoever dies in between leaves disks of then and a record of now, and is asked again: all of it can be done twice.
async fn go_back(core: &Arc<Core>, vm: &Arc<Vm>, snapshot: &Snapshot) -> Result<()> {
    has_its_disks(vm, snapshot)?;
    let before = vm.copy();
    let whole = vm::with_later(&snapshot.hardware, &on_hand(vm, &before))?;
    vm.halt().await?;
    if !snapshot.memory {
        let then = Record {
            hardware: snapshot.hardware.clone(),
            ..before.clone()
        };
        offline(core, vm, &then, "-a", &snapshot.id).await?;
    }
    let mut after = before.clone();
    set_back(&mut after, snapshot, &whole);
    drop_files(vm, &before, &after);
    vm.keep(|record| set_back(record, snapshot, &whole))?;
    if snapshot.memory {
        vm.start(core, Begin::Snapshot(snapshot.id.as_str()))
            .await?;
        give_later_disks(core, vm, &whole).await;
    }
    vm.update(core, |record| record.fault.clear())
}

/// The machine has gone back whether it can have them now or not: if not, they wait for its next start.
async fn give_later_disks(core: &Arc<Core>, vm: &Arc<Vm>, whole: &Hardware) {
    let Some(live) = vm.live() else { return };
    if let Err(error) = vm::change_live(core, vm, &live, whole).await {
        tracing::warn!(vm = %vm.uuid(), %error, "Disks that came after the snapshot wait for the next start");
    }
}

fn has_its_disks(vm: &Vm, snapshot: &Snapshot) -> Result<()> {
    let mut disks = snapshot.hardware.disks.iter();
    let missing = disks.find(|disk| !vm.dir.file(&disk.file).exists());
    missing.map_or(Ok(()), |disk| {
        Err(errors::precondition(format!(
            "The disk {} of the snapshot is gone; it cannot be gone back to",
            disk.name
        )))
    })
}

/// The disks that the VM has or is about to have, and that have been made.
fn on_hand(vm: &Vm, record: &Record) -> Vec<Disk> {
    let disks = record.wanted().disks.iter();
    disks
        .filter(|disk| vm.dir.file(&disk.file).exists())
        .cloned()
        .collect()
}

/// Memory of then is only understood by a machine of then: what came later waits.
fn set_back(record: &mut Record, snapshot: &Snapshot, whole: &Hardware) {
    let waits = snapshot.memory && *whole != snapshot.hardware;
    record.hardware = if snapshot.memory {
        snapshot.hardware.clone()
    } else {
        whole.clone()
    };
    record.pending = waits.then(|| Box::new(whole.clone()));
    record.plugged = snapshot.plugged.clone();
    record.lineage.reverted(&snapshot.id);
}
