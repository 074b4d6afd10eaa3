//! Copies of VMs.
//!
//! A full copy has disks of its own over the same prepared image. A linked one also shares what its source has written: the
//! source's first disk becomes a layer among the images, and both go on above it.

use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;

use polyvirt_contract::Result;
use polyvirt_contract::model::{CloneMode, CloneVm, Cloned, NicSpec};
use polyvirt_contract::rules::{self, CloneSize};
use polyvirt_provider_kit::cards;
use polyvirt_provider_kit::lineage::Lineage;

use crate::core::Core;
use crate::seed::{Documents, Guest};
use crate::state::{Hardware, ImageRecord, OpenDir, Plugged, Record, Stage};
use crate::uuid::Uuid;
use crate::vm::{self, Live, Origin, Vm};
use crate::{agent, errors, image};

/// The fields of a guest customization that act here.
const CUSTOMIZES: &[&str] = &[
    "hostname",
    "tags[]",
    "networks[].name",
    "networks[].dhcp",
    "networks[].ipAddress",
    "networks[].subnetMask",
    "networks[].gateway",
    "networks[].dns[]",
];

/// All that is needed to make a copy.
pub(crate) struct Copy {
    source: Arc<Vm>,
    mode: CloneMode,
    hostname: String,
    cards: Vec<NicSpec>,
}

/// Copies a VM; like `create` it finds the copy that its owner has already.
pub(crate) async fn clone_vm(core: &Arc<Core>, request: CloneVm) -> Result<Cloned> {
    let admitted = core.admission.lock().await;
    let found = vm::already_there(core, request.owner.as_ref(), &request.target_name)?;
    let created = if let Some(found) = found {
        drop(admitted);
        vm::resume(core, &found).await?
    } else {
        let (record, copy) = copy(core, &request)?;
        vm::make(core, record, Origin::Clone(Box::new(copy)), admitted).await?
    };
    Ok(Cloned {
        id: created.id,
        task: created.task,
    })
}

fn copy(core: &Core, request: &CloneVm) -> Result<(Record, Copy)> {
    let source = core.by_id(&request.source)?;
    source.must_be_whole()?;
    let wish = rules::read_clone(request, CUSTOMIZES)?;
    let custom = wish.customization;
    let uuid = match &request.owner {
        Some(owner) => Uuid::of_identity(&owner.identity),
        None => Uuid::random().map_err(|e| errors::internal(format!("No random number: {e}")))?,
    };
    let mut record = as_new(&source.copy(), uuid, request);
    if let Some(size) = wish.size {
        resize(&mut record.hardware, size);
    }
    if !custom.tags.is_empty() {
        record.tags.clone_from(&custom.tags);
    }
    let hostname = if custom.hostname.is_empty() {
        request.target_name.clone()
    } else {
        custom.hostname
    };
    let cards = cards::of_copy(&shown(&record.hardware), &custom.networks)?;
    Ok((
        record,
        Copy {
            source,
            mode: request.mode,
            hostname,
            cards,
        },
    ))
}

/// The cards that somebody asked for, as a guest is told of them.
fn shown(hardware: &Hardware) -> Vec<NicSpec> {
    let shown = hardware.nics.iter().filter(|nic| !nic.implicit);
    shown
        .map(|nic| NicSpec {
            name: nic.name.clone(),
            mac: nic.mac.clone(),
            mtu: nic.mtu,
            ..NicSpec::default()
        })
        .collect()
}

/// A copy is off, unmarked by its source, and has cards of its own.
fn as_new(source: &Record, uuid: Uuid, request: &CloneVm) -> Record {
    let mut hardware = source.wanted().clone();
    for nic in &mut hardware.nics {
        nic.mac = uuid.mac(&nic.name);
        nic.address.clear();
    }
    Record {
        uuid,
        name: request.target_name.clone(),
        owner: request.owner.clone(),
        stage: Stage::Creating,
        hardware,
        // A device of the host belongs to one VM.
        devices: Vec::new(),
        pending: None,
        plugged: Plugged::default(),
        snapshots: Vec::new(),
        lineage: Lineage::default(),
        last_request: None,
        running: false,
        starts: 0,
        fault: String::new(),
        moving: None,
        ..source.clone()
    }
}

fn resize(hardware: &mut Hardware, size: CloneSize) {
    hardware.cpu = size.cpu;
    hardware.memory_mib = size.memory_mib;
    hardware.root_gib = hardware.root_gib.max(size.root_gib);
}

/// Makes the disks and the seed of a copy. The source is held while it is read.
pub(crate) async fn fill(core: &Arc<Core>, vm: &Vm, copy: &Copy) -> Result<()> {
    let source = &copy.source;
    let held = source.change.lock().await;
    source.must_be_whole()?;
    let from = source.copy();
    match (copy.mode, source.live()) {
        (CloneMode::Full, None) => copy_files(core, vm, &from, Part::All).await?,
        (CloneMode::Full, Some(live)) => copy_running(core, vm, source, &live).await?,
        (CloneMode::Linked, None) => link(core, vm, source).await?,
        (CloneMode::Linked, Some(_)) => {
            let message = format!(
                "The VM {} runs; stop it to link a clone to it, or ask for a full clone",
                from.name
            );
            return Err(errors::precondition(message));
        }
    }
    drop(held);
    vm.fit_root(core).await?;
    let documents = Documents::load(&source.dir)?.for_copy();
    let guest = Guest {
        uuid: vm.uuid(),
        hostname: &copy.hostname,
        cards: copy.cards.clone(),
    };
    documents.write(&vm.dir, &core.user, &guest)
}

/// Which files of a VM are copied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    /// All but the first disk.
    Rest,
}

fn files(record: &Record, part: Part) -> Vec<String> {
    let all = crate::snapshot::files(record).into_iter();
    all.filter(|file| part == Part::All || file != Record::ROOT)
        .collect()
}

/// The image below a file, as the file names it.
fn base(record: &Record, file: &str) -> Option<String> {
    (file == Record::ROOT && !record.image.is_empty()).then(|| image::below(&record.image))
}

async fn copy_files(core: &Core, vm: &Vm, from: &Record, part: Part) -> Result<()> {
    vm.keep(|record| record.image.clone_from(&from.image))?;
    let folder = vm.dir.open_run()?;
    for file in files(from, part) {
        let source = format!("../../{}/run/{file}", from.uuid);
        core.img
            .copy(&folder, &source, &file, base(from, &file).as_deref())
            .await?;
    }
    Ok(())
}

/// All disks of a running VM at the same moment, copied by its own QEMU into its folder and moved from there.
async fn copy_running(core: &Core, vm: &Vm, source: &Vm, live: &Live) -> Result<()> {
    let from = source.copy();
    vm.keep(|record| record.image.clone_from(&from.image))?;
    let folder = source.dir.open_run()?;
    let names: Vec<String> = files(&from, Part::All);
    let made = backup(core, source, live, &folder, &from, &names).await;
    for file in &names {
        let (copied, target) = (source.dir.file(&copy_name(file)), vm.dir.file(file));
        if made.is_ok() {
            let moved = std::fs::rename(&copied, &target);
            moved.map_err(|error| errors::file("Moving a copied disk", &target, &error))?;
        } else {
            // The copy failed, and its reason is told.
            let _ = std::fs::remove_file(&copied);
        }
    }
    made
}

fn copy_name(file: &str) -> String {
    format!("copy-{file}")
}

async fn backup(
    core: &Core,
    source: &Vm,
    live: &Live,
    folder: &OpenDir,
    from: &Record,
    names: &[String],
) -> Result<()> {
    let mut jobs = Vec::new();
    for file in names {
        let node = file.trim_end_matches(".qcow2");
        let bytes = core.img.info(folder, file).await?.virtual_size;
        let copy = copy_name(file);
        match base(from, file) {
            Some(base) => core.img.overlay(folder, &copy, &base, Some(bytes)).await?,
            None => core.img.create(folder, &copy, bytes, false).await?,
        }
        let sync = if base(from, file).is_some() {
            "top"
        } else {
            "full"
        };
        jobs.push((node.to_owned(), copy, sync));
    }
    let quiet = agent::freeze(source).await;
    let begun = live.qmp.begin_backups(&jobs).await;
    agent::thaw(source, quiet).await;
    begun?;
    live.qmp.finish_backups(&jobs).await
}

/// Makes the source's first disk a layer that both share, and copies the rest.
async fn link(core: &Core, vm: &Vm, source: &Vm) -> Result<()> {
    let from = source.copy();
    if !from.snapshots.is_empty() {
        let message = format!(
            "The VM {} has snapshots, which a layer would take along; delete them, or ask for a full clone",
            from.name
        );
        return Err(errors::precondition(message));
    }
    let layer = make_layer(core, source, &from).await?;
    copy_files(core, vm, &from, Part::Rest).await?;
    vm.keep(|record| record.image.clone_from(&layer))?;
    let folder = vm.dir.open_run()?;
    core.img
        .overlay(&folder, Record::ROOT, &image::below(&layer), None)
        .await
}

/// The layer is known before anything is built upon it, and the source names it before its disk does: cut short anywhere,
/// nothing is lost.
async fn make_layer(core: &Core, source: &Vm, from: &Record) -> Result<String> {
    let id = format!("layer-{:x}", core.next_revision());
    let folder = source.dir.open_run()?;
    let size = core.img.info(&folder, Record::ROOT).await?.virtual_size;
    let disk = image::disk_path(core, &id);
    let place = disk.parent().unwrap_or(&disk).to_owned();
    let failed = |error: std::io::Error| errors::file("Making a layer", &place, &error);
    std::fs::DirBuilder::new()
        .mode(0o711)
        .recursive(true)
        .create(&place)
        .map_err(failed)?;
    std::fs::hard_link(source.dir.file(Record::ROOT), &disk).map_err(failed)?;
    image::keep(
        core,
        &ImageRecord {
            id: id.clone(),
            name: from.name.clone(),
            source: format!("VM {}", from.uuid),
            format: "qcow2".to_owned(),
            virtual_size: size,
            layer: true,
            base: from.image.clone(),
            ..ImageRecord::default()
        },
    )?;
    source.keep(|record| record.image.clone_from(&id))?;
    core.img
        .overlay(&folder, "root.new", &image::below(&id), None)
        .await?;
    std::fs::rename(source.dir.file("root.new"), source.dir.file(Record::ROOT)).map_err(failed)?;
    core.user.take_back(&disk, 0o444)?;
    Ok(id)
}
