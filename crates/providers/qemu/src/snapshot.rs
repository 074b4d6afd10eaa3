//! Moments to go back to, kept inside the disks: with memory or without, of a machine that runs or not.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use polyvirt_contract::model::{
    GuestDisks, Quiesce, SnapshotContents, SnapshotCreated, SnapshotRequest, SnapshotState,
};
use polyvirt_contract::{ProviderError, Result, SnapshotId, TaskId};
use polyvirt_provider_kit::guest::Quiet;
use polyvirt_provider_kit::held;
use serde_json::json;

use crate::core::Core;
use crate::state::{Disk, FirmwareKind, Hardware, OpenDir, Plugged, Record, Snapshot};
use crate::vm::{Live, Vm, drop_files};
use crate::{agent, cmdline};

/// A QEMU that failed because it ends is gone within this time.
const ENDS: Duration = Duration::from_secs(1);

/// The block nodes that a snapshot is of.
pub(crate) fn nodes(record: &Record) -> Vec<String> {
    let disks = record
        .hardware
        .disks
        .iter()
        .map(|disk| cmdline::disk_id(disk).to_owned());
    let variables = (record.firmware != FirmwareKind::Bios).then(|| "vars".to_owned());
    std::iter::once("root".to_owned())
        .chain(disks)
        .chain(variables)
        .collect()
}

/// The files that a snapshot is of.
pub(crate) fn files(record: &Record) -> Vec<String> {
    nodes(record)
        .into_iter()
        .map(|node| format!("{node}.qcow2"))
        .collect()
}

/// Takes a snapshot. One of the same name that is there is returned: the first reply may have been lost.
pub(crate) async fn create(
    core: &Arc<Core>,
    vm: Arc<Vm>,
    request: SnapshotRequest,
) -> Result<SnapshotCreated> {
    vm.must_be_whole()?;
    let name = request.name_hint.clone();
    let key = format!("snapshot {} {name}", vm.uuid());
    if let Some(id) = named(&vm, &name) {
        let task = match core.tasks.find(&key) {
            Some(begun) => begun.answer().await?,
            None => None,
        };
        return Ok(SnapshotCreated { id, task });
    }
    let id = SnapshotId::from(format!("snap-{:x}", core.next_revision()));
    let (core_of_task, id_of_task) = (core.clone(), id.clone());
    let begun = core.tasks.begin(&key, move |_| async move {
        let _alone = vm.change.lock().await;
        vm.must_be_whole()?;
        take(&core_of_task, &vm, id_of_task, &request).await
    });
    let task = begun.answer().await?;
    Ok(SnapshotCreated { id, task })
}

fn named(vm: &Vm, name: &str) -> Option<SnapshotId> {
    let same = |snapshot: &&Snapshot| snapshot.name == name && !name.is_empty();
    vm.record(|record| {
        record
            .snapshots
            .iter()
            .find(same)
            .map(|snapshot| snapshot.id.clone())
    })
}

async fn take(core: &Core, vm: &Vm, id: SnapshotId, request: &SnapshotRequest) -> Result<()> {
    let live = vm.live();
    let memory = live.is_some() && request.contents == SnapshotContents::DisksAndMemory;
    let record = vm.copy();
    let snapshot = Snapshot {
        id: id.clone(),
        name: request.name_hint.clone(),
        description: request.description.clone(),
        memory,
        frozen: false,
        hardware: record.hardware.clone(),
        plugged: if memory {
            record.plugged.clone()
        } else {
            Plugged::default()
        },
        complete: false,
        taken: unix_seconds(),
        bytes: 0,
    };
    vm.keep(|record| record.snapshots.push(snapshot))?;
    let taken = match live {
        None => offline(core, vm, &record, "-c", &id).await.map(|()| false),
        Some(live) if memory => with_memory(&live, &record, &id).await.map(|()| false),
        Some(live) => {
            let quiet = match request.quiesce {
                Quiesce::No => Quiet::NotAsked,
                _ => agent::freeze(vm).await,
            };
            let taken = disks_of_running(&live, &record, &id).await;
            agent::thaw(vm, quiet).await;
            taken.map(|()| quiet == Quiet::Yes)
        }
    };
    match taken {
        Ok(frozen) => {
            let bytes = held(core, vm, &record, &id).await;
            vm.update(core, |record| {
                let kept = record
                    .snapshots
                    .iter_mut()
                    .find(|snapshot| snapshot.id == id);
                if let Some(kept) = kept {
                    (kept.complete, kept.frozen, kept.bytes) = (true, frozen, bytes);
                }
                record.lineage.taken(&id);
            })
        }
        Err(error) => {
            discard(core, vm, &id).await?;
            Err(error)
        }
    }
}

/// What a snapshot holds that was just taken; 0 if that cannot be found out.
async fn held(core: &Core, vm: &Vm, record: &Record, id: &SnapshotId) -> u64 {
    let counted = async {
        let folder = vm.dir.open_run()?;
        let mut disks = Vec::new();
        for file in files(record) {
            disks.push(core.img.file(&folder, &file).await?);
        }
        Ok::<_, ProviderError>(held::bytes(&disks, id.as_str()))
    };
    counted.await.unwrap_or_else(|error| {
        tracing::debug!(vm = %vm.uuid(), snapshot = %id, %error, "What a snapshot holds is not known");
        0
    })
}

pub(crate) async fn offline(
    core: &Core,
    vm: &Vm,
    record: &Record,
    how: &str,
    id: &SnapshotId,
) -> Result<()> {
    let folder = vm.dir.open_run()?;
    for file in files(record) {
        core.img.snapshot(&folder, how, id.as_str(), &file).await?;
    }
    Ok(())
}

async fn with_memory(live: &Live, record: &Record, id: &SnapshotId) -> Result<()> {
    let tag = id.as_str();
    let job = json!({"job-id": "save", "tag": tag, "vmstate": "root", "devices": nodes(record)});
    live.qmp.run_job("snapshot-save", "save", job, |_| ()).await
}

/// All disks at the same moment.
async fn disks_of_running(live: &Live, record: &Record, id: &SnapshotId) -> Result<()> {
    let actions: Vec<_> = nodes(record)
        .into_iter()
        .map(|node| {
            let data = json!({"device": node, "name": id.as_str()});
            json!({"type": "blockdev-snapshot-internal-sync", "data": data})
        })
        .collect();
    let actions = json!({"actions": actions});
    live.qmp.execute("transaction", actions).await?;
    Ok(())
}

/// The snapshots that are whole, in the words of the contract.
pub(crate) fn shown(record: &Record) -> Vec<SnapshotState> {
    let whole = record.snapshots.iter().filter(|snapshot| snapshot.complete);
    let with_parent = |snapshot: &Snapshot| SnapshotState {
        parent: record.lineage.parent(&snapshot.id).cloned(),
        ..state(snapshot)
    };
    whole.map(with_parent).collect()
}

fn state(snapshot: &Snapshot) -> SnapshotState {
    SnapshotState {
        id: snapshot.id.clone(),
        name: snapshot.name.clone(),
        description: snapshot.description.clone(),
        taken: snapshot.taken,
        size_bytes: snapshot.bytes,
        contents: if snapshot.memory {
            SnapshotContents::DisksAndMemory
        } else {
            SnapshotContents::Disks
        },
        guest: if snapshot.frozen {
            GuestDisks::Quiet
        } else {
            GuestDisks::AsTheyWere
        },
        parent: None,
    }
}

fn unix_seconds() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0))
}

/// Removes a snapshot that was cut short, from whichever disks have it: some of them only, or none.
async fn discard(core: &Core, vm: &Vm, id: &SnapshotId) -> Result<()> {
    let record = vm.copy();
    if off_after(vm, &record, id).await {
        let folder = vm.dir.open_run()?;
        for file in files(&record) {
            let _ = core.img.snapshot(&folder, "-d", id.as_str(), &file).await;
        }
    }
    vm.keep(|record| record.snapshots.retain(|snapshot| snapshot.id != *id))
}

/// Lets QEMU remove the snapshot; true if there is none any more, and the files are free to be worked on.
async fn off_after(vm: &Vm, record: &Record, id: &SnapshotId) -> bool {
    let Some(live) = vm.live() else { return true };
    if delete_live(&live, record, id).await.is_ok() || !live.process.gone_within(ENDS).await {
        return false;
    }
    vm.stopped().await;
    true
}

/// Removes what an earlier life of the provider began and did not finish.
pub(crate) async fn sweep(core: &Core, vm: &Vm) {
    let half = |snapshot: &&Snapshot| !snapshot.complete;
    let cut: Vec<_> = vm.record(|record| {
        record
            .snapshots
            .iter()
            .filter(half)
            .map(|snapshot| snapshot.id.clone())
            .collect()
    });
    for id in cut {
        if let Err(error) = discard(core, vm, &id).await {
            tracing::warn!(vm = %vm.uuid(), snapshot = %id, %error, "Half a snapshot is left behind");
        }
    }
}

pub(crate) fn find(vm: &Vm, id: &SnapshotId) -> Result<Snapshot> {
    let found = vm.record(|record| record.snapshots.iter().find(|s| s.id == *id).cloned());
    found.ok_or_else(|| {
        ProviderError::not_found(format!("The snapshot {id} of the VM {}", vm.uuid()))
    })
}

/// Deletes a snapshot.
pub(crate) async fn delete(
    core: &Arc<Core>,
    vm: Arc<Vm>,
    id: SnapshotId,
) -> Result<Option<TaskId>> {
    find(&vm, &id)?;
    let core_of_task = core.clone();
    let key = format!("snapshot-delete {} {id}", vm.uuid());
    let begun = core.tasks.begin(&key, move |_| async move {
        let _alone = vm.change.lock().await;
        vm.must_be_whole()?;
        forget(&core_of_task, &vm, &find(&vm, &id)?).await
    });
    begun.answer().await
}

/// Deletes it from the disks that the machine has, and from those that only snapshots know. Disks that no other snapshot knows
/// go with it.
async fn forget(core: &Core, vm: &Vm, snapshot: &Snapshot) -> Result<()> {
    let (record, id) = (vm.copy(), &snapshot.id);
    let (has, mut resting) = parts(&record, &snapshot.hardware);
    match vm.live() {
        Some(live) => delete_live(&live, &has, id).await?,
        None => resting.extend(files(&has)),
    }
    let folder = vm.dir.open_run()?;
    for file in resting.iter().filter(|file| vm.dir.file(file).exists()) {
        delete_inside(core, &folder, file, id).await?;
    }
    let without = |record: &mut Record| {
        record.snapshots.retain(|other| other.id != *id);
        record.lineage.deleted(id);
    };
    let mut after = record.clone();
    without(&mut after);
    drop_files(vm, &record, &after);
    vm.update(core, without)
}

/// Deletes it from a file that nobody uses. One that has it no more was reached before, by somebody who died.
async fn delete_inside(core: &Core, folder: &OpenDir, file: &str, id: &SnapshotId) -> Result<()> {
    let tags = core.img.info(folder, file).await?.snapshots;
    if tags.iter().all(|tag| tag.name != id.as_str()) {
        return Ok(());
    }
    core.img.snapshot(folder, "-d", id.as_str(), file).await
}

/// A machine with the disks of then that it has now, and the files of those that it has not.
fn parts(record: &Record, then: &Hardware) -> (Record, Vec<String>) {
    let has = |disk: &&Disk| {
        record
            .hardware
            .disks
            .iter()
            .any(|now| now.file == disk.file)
    };
    let (here, left): (Vec<_>, Vec<_>) = then.disks.iter().partition(has);
    let hardware = Hardware {
        disks: here.into_iter().cloned().collect(),
        ..then.clone()
    };
    let machine = Record {
        hardware,
        ..record.clone()
    };
    (
        machine,
        left.into_iter().map(|disk| disk.file.clone()).collect(),
    )
}

async fn delete_live(live: &Live, record: &Record, id: &SnapshotId) -> Result<()> {
    let job = json!({"job-id": "forget", "tag": id.as_str(), "devices": nodes(record)});
    live.qmp
        .run_job("snapshot-delete", "forget", job, |_| ())
        .await
}
