//! Towards what is desired: at once where the machine allows, else at the next start.

use std::sync::Arc;

use polyvirt_contract::model::{CreateVm, Owner};
use polyvirt_contract::{ErrorKind, ProviderError, Result, TaskId};
use polyvirt_provider_kit::check::fits_host;

use crate::core::Core;
use crate::errors;
use crate::inventory::memory_mib;
use crate::state::{Disk, Hardware, OpenDir, Record};
use crate::vm::{self, Live, Vm, check, create, hotplug};

/// Brings size, disks, cards and tags to what is desired. An unmarked VM gets the mark of whoever asks.
pub(crate) async fn reconfigure(
    core: &Arc<Core>,
    vm: Arc<Vm>,
    desired: CreateVm,
) -> Result<Option<TaskId>> {
    check::request(&desired)?;
    let record = vm.copy();
    let target = vm::hardware(&desired, vm.uuid(), Some(&record))?;
    check::growth(record.wanted(), &target)?;
    // One that is too large already may be changed in any other way.
    if target.memory_mib > record.wanted().memory_mib {
        fits_host(target.memory_mib, &core.host, memory_mib())?;
    }
    check_mark(core, &vm, desired.owner.as_ref())?;
    create::check_places(core, &desired, Some(vm.uuid()))?;
    keeps_snapshots_whole(&record, &target)?;
    let key = format!("reconfigure {} {desired:?}", vm.uuid());
    if is_so(&record, &target, &desired) && core.tasks.find(&key).is_none() {
        return Ok(None);
    }
    let core_of_task = core.clone();
    let begun = core.tasks.begin(&key, move |_| async move {
        let _alone = vm.change.lock().await;
        vm.must_be_whole()?;
        carry_out(&core_of_task, &vm, &desired).await
    });
    begun.answer().await
}

fn is_so(record: &Record, target: &Hardware, desired: &CreateVm) -> bool {
    let marked = record.owner.is_some() || desired.owner.is_none();
    record.wanted() == target && record.tags == desired.tags && marked
}

/// One identity is on one VM at most.
fn check_mark(core: &Core, vm: &Vm, owner: Option<&Owner>) -> Result<()> {
    let holder = owner.and_then(|owner| core.by_identity(&owner.identity));
    match holder {
        Some(other) if other.uuid() != vm.uuid() => Err(ProviderError::new(
            ErrorKind::IdentityConflict,
            format!("The VM {} carries this identity already", other.uuid()),
        )),
        _ => Ok(()),
    }
}

/// A disk that a snapshot goes back to cannot be taken away. One that is on its way out already does not hold up anything else.
fn keeps_snapshots_whole(record: &Record, target: &Hardware) -> Result<()> {
    let goes = |disk: &&Disk| !has_file(target, &disk.file);
    for disk in record.wanted().disks.iter().filter(goes) {
        let mut snapshots = record.snapshots.iter();
        if let Some(snapshot) = snapshots.find(|then| has_file(&then.hardware, &disk.file)) {
            let message = format!(
                "The disk {} is part of the snapshot {}; delete the snapshot before the disk",
                disk.name, snapshot.name
            );
            return Err(errors::precondition(message).at("spec.disks"));
        }
    }
    Ok(())
}

fn has_file(hardware: &Hardware, file: &str) -> bool {
    hardware.disks.iter().any(|disk| disk.file == file)
}

async fn carry_out(core: &Arc<Core>, vm: &Arc<Vm>, desired: &CreateVm) -> Result<()> {
    let record = vm.copy();
    let target = vm::hardware(desired, vm.uuid(), Some(&record))?;
    check::growth(record.wanted(), &target)?;
    // One may have been taken since somebody asked.
    keeps_snapshots_whole(&record, &target)?;
    match vm.live() {
        None => {
            fit_disks(core, vm, &record, &target).await?;
            vm.keep(|record| {
                record.hardware = target;
                record.pending = None;
            })?;
        }
        Some(live) => {
            change_live(core, vm, &live, &target).await?;
            drop_files(vm, &record, &vm.copy());
        }
    }
    vm.update(core, |record| {
        record.tags.clone_from(&desired.tags);
        if record.owner.is_none() {
            record.owner.clone_from(&desired.owner);
        }
    })
}

/// Gives the running machine what it can have now; the rest waits for its next start.
pub(crate) async fn change_live(
    core: &Arc<Core>,
    vm: &Arc<Vm>,
    live: &Live,
    target: &Hardware,
) -> Result<()> {
    hotplug::approach(core, vm, live, target).await?;
    vm.keep(|record| {
        let differs = record.hardware != *target;
        record.pending = differs.then(|| Box::new(target.clone()));
    })
}

/// Makes the files of a machine that is off fit its hardware. It can be done again and again.
pub(super) async fn fit_disks(
    core: &Core,
    vm: &Vm,
    before: &Record,
    target: &Hardware,
) -> Result<()> {
    if before.hardware == *target {
        return Ok(());
    }
    let folder = vm.dir.open_run()?;
    if target.root_gib > before.hardware.root_gib {
        grow(core, &folder, Record::ROOT, target.root_gib).await?;
    }
    for disk in &target.disks {
        let same = |old: &&Disk| old.file == disk.file && old.size_gib == disk.size_gib;
        let exists = vm.dir.file(&disk.file).exists();
        match before.hardware.disk(&disk.name).filter(same) {
            Some(_) if exists => {}
            _ => fit_disk(core, vm, &folder, disk).await?,
        }
    }
    let after = Record {
        hardware: target.clone(),
        pending: None,
        ..before.clone()
    };
    drop_files(vm, before, &after);
    Ok(())
}

/// Makes the disk if there is none. A file that is there is never written over, whoever has made it: it grows if it must.
async fn fit_disk(core: &Core, vm: &Vm, folder: &OpenDir, disk: &Disk) -> Result<()> {
    if vm.dir.file(&disk.file).exists() {
        return grow(core, folder, &disk.file, disk.size_gib).await;
    }
    make_disk(core, folder, disk).await
}

/// Makes an empty disk. It gets its name when it is whole, so that one that is there can be relied upon.
pub(super) async fn make_disk(core: &Core, folder: &OpenDir, disk: &Disk) -> Result<()> {
    let half = format!("{}.half", disk.file);
    let bytes = u64::from(disk.size_gib) << 30;
    core.img.create(folder, &half, bytes, disk.thick).await?;
    let path = folder.join(&disk.file);
    std::fs::rename(folder.join(&half), &path)
        .map_err(|error| errors::file("Making a disk", &path, &error))
}

/// Growing to a size that the disk has or is beyond already is done.
async fn grow(core: &Core, folder: &OpenDir, file: &str, gib: u32) -> Result<()> {
    let bytes = u64::from(gib) << 30;
    if core.img.info(folder, file).await?.virtual_size >= bytes {
        return Ok(());
    }
    core.img.grow(folder, file, bytes).await
}

impl Vm {
    /// Makes the first disk of a machine that is off as large as its record says.
    pub(crate) async fn fit_root(&self, core: &Core) -> Result<()> {
        let gib = self.record(|record| record.hardware.root_gib);
        grow(core, &self.dir.open_run()?, Record::ROOT, gib).await
    }
}

/// Removes the files that the record named and does not name any more.
pub(crate) fn drop_files(vm: &Vm, before: &Record, after: &Record) {
    let kept = after.disk_files();
    for file in before.disk_files() {
        if !kept.contains(&file) {
            remove_file(vm, &file);
        }
    }
}

pub(super) fn remove_file(vm: &Vm, file: &str) {
    let path = vm.dir.file(file);
    if let Err(error) = std::fs::remove_file(&path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "The file of a disk is left behind");
    }
}
