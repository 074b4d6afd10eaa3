//! Find or create by identity.
//!
//! The record is written first, marked as half made; the steps after it can be done again; the mark goes last. A failure
//! removes what was made, and so does the next life of a provider that was killed in between.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;

use polyvirt_contract::model::{CreateVm, Created, Firmware, Owner};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_provider_kit::check::{fits_host, normal_mac};
use polyvirt_provider_kit::devices::DeviceAddress;
use polyvirt_provider_kit::lineage::Lineage;

use crate::core::Core;
use crate::inventory::memory_mib;
use crate::seed::{Documents, Guest};
use crate::state::{FirmwareKind, Hardware, Plugged, Record, Stage, off_worker};
use crate::uuid::Uuid;
use crate::vm::{self, Vm, check};
use crate::{errors, firmware, image, seed};

/// What the disks of a new VM are made from.
pub(crate) enum Origin {
    /// An image, which may have to be brought first.
    Request(Box<CreateVm>),
    /// Another VM.
    Clone(Box<crate::clone::Copy>),
}

/// The VM of the request's identity, made now if it is not there.
pub(crate) async fn create(core: &Arc<Core>, request: CreateVm) -> Result<Created> {
    check::request(&request)?;
    let admitted = core.admission.lock().await;
    if let Some(found) = already_there(core, request.owner.as_ref(), &request.name)? {
        drop(admitted);
        return resume(core, &found).await;
    }
    fits_host(request.class.memory_mib, &core.host, memory_mib())?;
    check_places(core, &request, None)?;
    let record = record(core, &request).await?;
    make(core, record, Origin::Request(Box::new(request)), admitted).await
}

/// The VM that the identity has already, or the reason why the name cannot be had.
pub(crate) fn already_there(
    core: &Core,
    owner: Option<&Owner>,
    name: &str,
) -> Result<Option<Arc<Vm>>> {
    if let Some(owner) = owner {
        if let Some(vm) = core.by_identity(&owner.identity) {
            return Ok(Some(vm));
        }
        if let Some(vm) = core.get(Uuid::of_identity(&owner.identity)) {
            return Err(identity_taken(&vm));
        }
    }
    let Some(vm) = core.by_name(name) else {
        return Ok(None);
    };
    let (unowned, stage) = vm.record(|record| (record.owner.is_none(), record.stage));
    if owner.is_none() && unowned && stage == Stage::Creating {
        return Ok(Some(vm));
    }
    Err(name_taken(&vm))
}

fn identity_taken(vm: &Vm) -> ProviderError {
    let message = format!(
        "The VM {} has the UUID of this identity and belongs to somebody else; it is not touched",
        vm.uuid()
    );
    ProviderError::new(ErrorKind::IdentityConflict, message)
}

fn name_taken(vm: &Vm) -> ProviderError {
    let (name, owner) = vm.record(|record| (record.name.clone(), record.owner.clone()));
    let holder = owner.map_or_else(
        || "nobody has marked as theirs".to_owned(),
        |owner| format!("belongs to {}/{}", owner.namespace, owner.name),
    );
    let message = format!(
        "The name {name} is taken by the VM {}, which {holder}; rename one of the two, or delete that VM",
        vm.uuid()
    );
    ProviderError::new(ErrorKind::NameConflict, message).at("metadata.name")
}

/// The answer for a VM that is there: itself, or the work on it that is under way.
pub(crate) async fn resume(core: &Core, vm: &Vm) -> Result<Created> {
    let id = vm.uuid().vm_id();
    match vm.record(|record| record.stage) {
        Stage::Ready => return Ok(Created { id, task: None }),
        Stage::Deleting => vm.must_be_whole()?,
        Stage::Creating => {}
    }
    let task = match core.tasks.find(&key(vm.uuid())) {
        Some(begun) => begun.answer().await?,
        None => None,
    };
    Ok(Created { id, task })
}

fn key(uuid: Uuid) -> String {
    format!("create {uuid}")
}

/// Refuses a MAC address that another VM has, and a place that is not here.
pub(crate) fn check_places(core: &Core, request: &CreateVm, itself: Option<Uuid>) -> Result<()> {
    let host = request
        .placement
        .as_ref()
        .map_or("", |place| place.host.as_str());
    if !host.is_empty() && host != core.host {
        let message = format!("This provider has the host {} only", core.host);
        return Err(ProviderError::invalid("spec.placement.host", message));
    }
    let macs: Vec<_> = request
        .networks
        .iter()
        .map(|nic| normal_mac(&nic.mac))
        .collect();
    for vm in core
        .all()
        .into_iter()
        .filter(|vm| Some(vm.uuid()) != itself)
    {
        if let Some((place, mac)) = macs.iter().enumerate().find(|(_, mac)| vm.has_mac(mac)) {
            let field = format!("spec.networks[{place}].macAddress");
            let name = vm.record(|record| record.name.clone());
            let message = format!(
                "The MAC address {mac} is on the VM {name} ({}) already; give this card another one",
                vm.uuid()
            );
            return Err(ProviderError::invalid(field, message));
        }
    }
    Ok(())
}

impl Vm {
    fn has_mac(&self, mac: &str) -> bool {
        let on = |hardware: &Hardware| hardware.nics.iter().any(|nic| nic.mac == mac);
        self.record(|record| on(&record.hardware) || on(record.wanted()))
    }
}

async fn record(core: &Core, request: &CreateVm) -> Result<Record> {
    let uuid = match &request.owner {
        Some(owner) => Uuid::of_identity(&owner.identity),
        None => Uuid::random().map_err(|e| errors::internal(format!("No random number: {e}")))?,
    };
    let firmware = firmware_kind(request);
    firmware::find(&core.config, firmware)?;
    Ok(Record {
        uuid,
        name: request.name.clone(),
        owner: request.owner.clone(),
        stage: Stage::Creating,
        revision: core.next_revision(),
        machine: core.emulator().await?.machine.clone(),
        firmware,
        image: String::new(),
        seed: Some(Documents::of(request).kind()),
        tags: request.tags.clone(),
        hardware: vm::hardware(request, uuid, None)?,
        devices: lent(core, request)?,
        pending: None,
        plugged: Plugged::default(),
        snapshots: Vec::new(),
        lineage: Lineage::default(),
        last_request: None,
        running: false,
        starts: 0,
        fault: String::new(),
        moving: None,
    })
}

/// Devices of the host that no other VM has, running or not. Nobody else is taken in meanwhile.
fn lent(core: &Core, request: &CreateVm) -> Result<Vec<DeviceAddress>> {
    let Some(place) = &request.placement else {
        return Ok(Vec::new());
    };
    let others = core.all().into_iter();
    let taken = others.flat_map(|vm| vm.record(|record| record.devices.clone()));
    core.config.devices.choose(&place.devices, &taken.collect())
}

fn firmware_kind(request: &CreateVm) -> FirmwareKind {
    let security = request.class.security.as_ref();
    match request.class.firmware {
        _ if security.is_some_and(|security| security.secure_boot) => FirmwareKind::SecureUefi,
        Firmware::Uefi => FirmwareKind::Uefi,
        Firmware::Bios => FirmwareKind::Bios,
    }
}

/// Takes a new VM in and begins the work on it; names and addresses are given out when that is written down.
pub(crate) async fn make(
    core: &Arc<Core>,
    record: Record,
    origin: Origin,
    admitted: tokio::sync::MutexGuard<'_, ()>,
) -> Result<Created> {
    let vm = Vm::new(core, record);
    vm.dir.create()?;
    let kept = vm.copy();
    if let Err(error) = crate::state::write_json(&vm.dir.record(), &kept) {
        vm.dir.remove()?;
        return Err(error);
    }
    core.insert(vm.clone());
    vm.touch(core);
    drop(admitted);
    let id = vm.uuid().vm_id();
    let core_of_task = core.clone();
    let begun = core.tasks.begin(&key(vm.uuid()), move |_| async move {
        let core = core_of_task;
        let _alone = vm.change.lock().await;
        let made = fill(&core, &vm, origin).await;
        if made.is_err() {
            core.remove(&vm);
            vm.dir.remove()?;
        }
        made
    });
    let task = begun.answer().await?;
    Ok(Created { id, task })
}

async fn fill(core: &Arc<Core>, vm: &Vm, origin: Origin) -> Result<()> {
    make_run(core, vm)?;
    match origin {
        Origin::Request(request) => from_image(core, vm, &request).await?,
        Origin::Clone(copy) => crate::clone::fill(core, vm, &copy).await?,
    }
    vm.update(core, |record| record.stage = Stage::Ready)
}

/// QEMU's working folder, which belongs to its user alone.
pub(crate) fn make_run(core: &Core, vm: &Vm) -> Result<()> {
    let run = vm.dir.run();
    if !run.is_dir() {
        let made = DirBuilder::new().mode(0o700).create(&run);
        made.map_err(|error| errors::file("Making the VM's folder", &run, &error))?;
    }
    core.user.give(&run, 0o700)
}

async fn from_image(core: &Arc<Core>, vm: &Vm, request: &CreateVm) -> Result<()> {
    let image = vm.unless_doomed(image::for_vm(core, request));
    let image = image.await??;
    vm.keep(|record| record.image.clone_from(&image.id))?;
    let record = vm.copy();
    let folder = vm.dir.open_run()?;
    let root = (u64::from(record.hardware.root_gib) << 30).max(image.virtual_size);
    let below = image::below(&image.id);
    core.img
        .overlay(&folder, Record::ROOT, &below, Some(root))
        .await?;
    for disk in &record.hardware.disks {
        let bytes = u64::from(disk.size_gib) << 30;
        core.img
            .create(&folder, &disk.file, bytes, disk.thick)
            .await?;
    }
    firmware::make_variables(core, &folder, record.firmware).await?;
    let owner = request.owner.as_ref().map(|owner| owner.name.as_str());
    let guest = Guest {
        uuid: vm.uuid(),
        hostname: owner.unwrap_or(&request.name),
        cards: seed::cards(request, &record.hardware.nics),
    };
    off_worker(|| Documents::of(request).write(&vm.dir, &core.user, &guest))
}
