//! Towards what is desired: stored for the next start first, and given to the running machine where that can be.

use std::sync::Arc;

use polyvirt_contract::model::{CreateVm, Owner};
use polyvirt_contract::{ErrorKind, ProviderError, Result, TaskId};

use crate::core::{Core, Vm};
use crate::create::{check_macs, must_be_whole};
use crate::desired::{self, desired};
use crate::domain::disk::Place;
use crate::domain::nic::NicPart;
use crate::domain::{DiskMark, Machine, Marks, disk, edit, tuning};
use crate::rpc::{Domain, Session, flags};
use crate::storage::{self, Pool, Thickness};
use crate::xml::{Element, parse};
use crate::{check, errors, live, snapshot};

/// What a VM is to become.
pub(crate) struct Target {
    pub(crate) marks: Marks,
    pub(crate) nics: Vec<NicPart>,
}

/// Brings size, disks, cards and tags to what is desired. An unmarked VM gets the mark of whoever asks.
pub(crate) async fn reconfigure(
    core: &Arc<Core>,
    vm: Arc<Vm>,
    desired: CreateVm,
) -> Result<Option<TaskId>> {
    check::request(&desired)?;
    target(core, &vm, &desired)?;
    check_mark(core, &vm, desired.owner.as_ref()).await?;
    check_macs(core, &desired, Some(vm.uuid))?;
    let key = format!("reconfigure {} {desired:?}", vm.uuid);
    let core_of_task = core.clone();
    let begun = core.tasks.begin(&key, move |_| async move {
        let _alone = vm.change.lock().await;
        let core = core_of_task;
        core.look(&vm)
            .await?
            .ok_or_else(|| errors::no_vm(vm.uuid))?;
        must_be_whole(&vm)?;
        carry_out(&core, &vm, &desired).await
    });
    begun.answer().await
}

/// What the VM is to become, if it can.
fn target(core: &Core, vm: &Vm, wanted: &CreateVm) -> Result<Target> {
    let config = vm.config()?;
    let has = config.marks.clone().unwrap_or_default();
    let leaving = vm.live().map(|live| live.disks).unwrap_or_default();
    let taken: Vec<_> = leaving.into_iter().map(|disk| disk.target).collect();
    let (mut marks, mut nics) = desired(core, wanted, vm.uuid, &has, &taken)?;
    if is_taken_over(&has) && wanted.networks.is_empty() {
        // Its cards are nobody's business until somebody names them.
        marks.nics.clone_from(&has.nics);
        nics.clone_from(&config.nics);
    }
    check::growth(&has, &marks)?;
    keeps_snapshots_whole(vm, &has, &marks)?;
    Ok(Target { marks, nics })
}

const fn is_taken_over(marks: &Marks) -> bool {
    marks.pool.is_empty()
}

/// One identity is on one VM at most.
async fn check_mark(core: &Arc<Core>, vm: &Vm, owner: Option<&Owner>) -> Result<()> {
    let Some(owner) = owner else { return Ok(()) };
    match core.by_identity(&owner.identity).await? {
        Some(other) if other.uuid != vm.uuid => Err(ProviderError::new(
            ErrorKind::IdentityConflict,
            format!("The VM {} carries this identity already", other.uuid),
        )),
        _ => Ok(()),
    }
}

/// A disk that a snapshot goes back to cannot be taken away.
fn keeps_snapshots_whole(vm: &Vm, has: &Marks, wants: &Marks) -> Result<()> {
    let snapshots = vm.state().snapshots.unwrap_or_default();
    let goes = has
        .disks
        .iter()
        .find(|disk| wants.disk(&disk.name).is_none());
    let (Some(snapshot), Some(disk)) = (snapshots.first(), goes) else {
        return Ok(());
    };
    let message = format!(
        "The disk {} may be part of the snapshot {}; delete the snapshot before the disk",
        disk.name, snapshot.name
    );
    Err(errors::precondition(message).at("spec.disks"))
}

async fn carry_out(core: &Arc<Core>, vm: &Arc<Vm>, wanted: &CreateVm) -> Result<()> {
    let mut target = target(core, vm, wanted)?;
    let session = core.session().await?;
    let has = vm.config()?.marks.unwrap_or_default();
    desired::name_volumes(&session, vm.uuid, &has, &mut target.marks).await?;
    spare_snapshots(&session, vm, &has, &mut target.marks).await?;
    make_disks(&session, vm, &target.marks, wanted).await?;
    store(&session, vm, wanted, &target).await?;
    core.look(vm).await?;
    match vm.live() {
        Some(machine) => live::approach(core, vm, &machine, wanted, &target).await?,
        None => fit_disks(core, &session, vm).await?,
    }
    core.look(vm).await?;
    sweep(core, &session, vm).await
}

/// A volume that is there may be part of a snapshot even if the machine of now does not have it. A new disk does not take its
/// place: it is that disk if a snapshot knows it under the same name, else it gets a volume of another name.
async fn spare_snapshots(session: &Session, vm: &Vm, has: &Marks, wants: &mut Marks) -> Result<()> {
    if vm.state().snapshots.unwrap_or_default().is_empty() {
        return Ok(());
    }
    let is_new = |disk: &&mut DiskMark| has.disk(&disk.name).is_none();
    for disk in wants.disks.iter_mut().filter(is_new) {
        match remembered(session, vm, &disk.name).await? {
            Some(old) => (disk.pool, disk.volume) = (old.pool, old.volume),
            None => disk.volume = free_volume(session, vm, disk).await?,
        }
    }
    Ok(())
}

/// The disk that a snapshot has under that name, if its volume is there.
async fn remembered(session: &Session, vm: &Vm, name: &str) -> Result<Option<DiskMark>> {
    for snapshot in vm.state().snapshots.unwrap_or_default().iter().rev() {
        let snapshot = snapshot::find(vm, &snapshot.id)?;
        let xml = parse(&session.snapshot_xml(&snapshot, 0).await?)?.root;
        let marks = xml.at("domain").and_then(Marks::of_domain);
        if let Some(disk) = marks.as_ref().and_then(|marks| marks.disk(name)) {
            let pool = Pool::open(session, &disk.pool, "spec.disks").await?;
            let found = pool.find(session, &disk.volume).await?;
            return Ok(found.map(|_| disk.clone()));
        }
    }
    Ok(None)
}

async fn free_volume(session: &Session, vm: &Vm, disk: &DiskMark) -> Result<String> {
    let pool = Pool::open(session, &disk.pool, "spec.disks").await?;
    let mut volume = disk.volume.clone();
    let mut number = 1_u32;
    while pool.find(session, &volume).await?.is_some() {
        number += 1;
        volume = pool.disk_name(vm.uuid, &format!("{}-{number}", disk.target));
    }
    Ok(volume)
}

/// Makes the volumes of disks that are new. Nothing uses them yet, so one that is there is half made, unless it is a snapshot's.
async fn make_disks(session: &Session, vm: &Vm, marks: &Marks, wanted: &CreateVm) -> Result<()> {
    let has = vm.config()?.marks.unwrap_or_default();
    let snapshots = vm.state().snapshots.is_some_and(|list| !list.is_empty());
    let thick = desired::thick(wanted);
    for (place, disk) in marks.disks.iter().enumerate() {
        if has.disk(&disk.name).is_some() {
            continue;
        }
        let field = desired::asked_at(place);
        let pool = Pool::open(session, &disk.pool, &field).await?;
        let thickness = if thick.contains(&disk.name) {
            Thickness::Thick
        } else {
            Thickness::Thin
        };
        let bytes = u64::from(disk.size_gib) << 30;
        if snapshots && pool.find(session, &disk.volume).await?.is_some() {
            continue;
        }
        pool.blank(session, &disk.volume, bytes, thickness).await?;
    }
    Ok(())
}

/// Stores the machine as it will start. What is so already is not stored again.
async fn store(session: &Session, vm: &Vm, wanted: &CreateVm, target: &Target) -> Result<()> {
    let text = session
        .xml(&Domain::of(vm.uuid), flags::INACTIVE | flags::SECURE)
        .await?;
    let mut document = parse(&text)?;
    let places = desired::places(session, &target.marks).await?;
    edit_domain(&mut document.root, wanted, target, &places)?;
    let edited = document.to_string();
    if edited != text {
        session.define(&edited).await?;
    }
    Ok(())
}

fn edit_domain(
    domain: &mut Element,
    wanted: &CreateVm,
    target: &Target,
    places: &[Place],
) -> Result<()> {
    let has = Machine::of(domain);
    let (cpus, memory) = edit::limits(&wanted.class);
    let room = (cpus > wanted.class.cpu, memory > wanted.class.memory_mib);
    let size = (wanted.class.cpu, wanted.class.memory_mib);
    if (has.cpu, has.memory_mib) != size || has.has_room() != room {
        edit::size(domain, &wanted.class);
    }
    let marks = has.marks.clone().unwrap_or_default();
    for old in marks
        .disks
        .iter()
        .filter(|old| target.marks.disk(&old.name).is_none())
    {
        edit::take_disk(domain, &old.target);
    }
    let disks = tuning::extra(&wanted.class)?.disks;
    for (mark, place) in target.marks.disks.iter().zip(places) {
        let part = has.disk(&mark.target);
        if part.is_none_or(|part| part.path != place.path()) {
            edit::put_disk(domain, &mark.target, place, &disks);
        }
    }
    edit_nics(domain, &has, &target.nics);
    if has.marks.as_ref() != Some(&target.marks) {
        target.marks.put(domain);
    }
    Ok(())
}

/// Cards that stay are not touched.
fn edit_nics(domain: &mut Element, has: &Machine, wanted: &[NicPart]) {
    for old in has.nics.iter().filter(|old| !wanted.contains(old)) {
        edit::take_nic(domain, &old.mac);
    }
    for new in wanted.iter().filter(|new| !has.nics.contains(new)) {
        edit::put_nic(domain, new);
    }
}

/// Makes the volumes of a machine that is off as large as its marks say. It can be done again and again.
pub(crate) async fn fit_disks(core: &Core, session: &Session, vm: &Vm) -> Result<()> {
    let config = vm.config()?;
    let Some(marks) = config.marks.as_ref().filter(|marks| !is_taken_over(marks)) else {
        return Ok(());
    };
    let data = marks
        .disks
        .iter()
        .map(|mark| (mark.target.as_str(), mark.size_gib));
    for (target, gib) in data.chain([(disk::ROOT, marks.root_gib)]) {
        let part = config.disk(target).filter(|_| gib > 0);
        if let Some(part) = part
            && let Some(volume) = session.volume_at(&part.path).await?
        {
            storage::grow(session, &volume, u64::from(gib) << 30).await?;
        }
    }
    sweep(core, session, vm).await
}

/// Removes volumes of disks that are gone from the machine as it runs and as it will start.
async fn sweep(core: &Core, session: &Session, vm: &Vm) -> Result<()> {
    let known = vm.known();
    let Some(config) = known.config else {
        return Ok(());
    };
    let marks = config.marks.clone().unwrap_or_default();
    let snapshots = known.state.snapshots.is_some_and(|list| !list.is_empty());
    if is_taken_over(&marks) || snapshots {
        return Ok(());
    }
    let live = known.live.map(|live| live.disks).unwrap_or_default();
    let used = |path: &str| {
        config
            .disks
            .iter()
            .chain(&live)
            .any(|disk| disk.path == path)
    };
    let beginning = storage::name(vm.uuid, "vd");
    let disks = marks.disks.iter().map(|disk| &disk.pool);
    let pools: std::collections::BTreeSet<_> =
        disks.chain([&marks.pool, &core.config.pool]).collect();
    for name in pools {
        let pool = Pool::open(session, name, "spec.disks").await?;
        for volume in pool.list(session).await? {
            if volume.name.starts_with(&beginning) && !used(&pool.path(&volume.name)) {
                session.delete_volume(&volume).await?;
            }
        }
    }
    Ok(())
}
