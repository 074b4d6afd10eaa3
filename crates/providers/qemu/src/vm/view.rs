//! A VM in the words of the contract.

use std::collections::BTreeMap;

use polyvirt_contract::model::{self, DiskState, NicState, PowerState, VmState};

use crate::core::Core;
use crate::state::{Disk, Nic, Record, SeedKind, Stage, Was};
use crate::vm::Inside;
use crate::vm::usage::TICKS;

/// The detail that names the host to which a VM goes.
pub(crate) const MOVES_TO: &str = "movesTo";

/// What a description depends on beside the VM.
#[derive(Clone, Debug)]
pub(super) struct Context {
    host: String,
    accel: &'static str,
    version: String,
    user: String,
    run: String,
}

impl Context {
    pub(super) fn new(core: &Core) -> Self {
        let emulator = core.known_emulator();
        Self {
            host: core.host.clone(),
            accel: emulator.map_or("", |emulator| emulator.accel.word()),
            user: core.user.name().to_owned(),
            version: emulator.map_or_else(String::new, |emulator| emulator.version.clone()),
            run: core.state.vms().display().to_string(),
        }
    }
}

pub(super) fn state(inside: &Inside) -> VmState {
    let record = &inside.record;
    let shown: Vec<&Nic> = record
        .hardware
        .nics
        .iter()
        .filter(|nic| !nic.implicit)
        .collect();
    VmState {
        id: record.uuid.vm_id(),
        name: record.name.clone(),
        owner: record.owner.clone(),
        revision: record.revision,
        stage: told(record.stage),
        power: power(inside),
        ips: record
            .hardware
            .nics
            .iter()
            .flat_map(|nic| addresses(inside, nic))
            .collect(),
        console_url: String::new(),
        cpu: record.hardware.cpu,
        memory_mib: record.hardware.memory_mib,
        root: Some(root_disk(inside)),
        disks: Some(
            record
                .hardware
                .disks
                .iter()
                .map(|disk| data_disk(inside, disk))
                .collect(),
        ),
        nics: Some(shown.into_iter().map(|nic| card(inside, nic)).collect()),
        host: inside.context.host.clone(),
        restart_required: waiting(record),
        last_request: record.last_request.clone(),
        fault: fault(inside),
        details: details(inside),
        snapshots: Some(crate::snapshot::shown(record)),
    }
}

fn power(inside: &Inside) -> PowerState {
    // Whatever a move does with QEMU: it is the VM that it was.
    if let Some(moving) = &inside.record.moving {
        return match moving.was {
            Was::On => PowerState::On,
            Was::Off => PowerState::Off,
            Was::Suspended => PowerState::Suspended,
        };
    }
    match &inside.live {
        None => PowerState::Off,
        Some(live) if live.paused() => PowerState::Suspended,
        Some(_) => PowerState::On,
    }
}

fn fault(inside: &Inside) -> String {
    let guest = &inside.guest;
    let all = [&guest.trouble, &guest.frozen, &inside.record.fault];
    let told = all.into_iter().find(|text| !text.is_empty());
    told.cloned().unwrap_or_default()
}

/// IPv4 first, in the order of the cards.
fn addresses(inside: &Inside, nic: &Nic) -> Vec<String> {
    inside
        .guest
        .addresses
        .get(&nic.mac)
        .cloned()
        .unwrap_or_default()
}

fn card(inside: &Inside, nic: &Nic) -> NicState {
    NicState {
        name: nic.name.clone(),
        mac: nic.mac.clone(),
        ip: addresses(inside, nic)
            .into_iter()
            .next()
            .unwrap_or_default(),
    }
}

fn root_disk(inside: &Inside) -> DiskState {
    shown_disk(
        inside,
        "root",
        Record::ROOT,
        inside.record.hardware.root_gib,
    )
}

fn data_disk(inside: &Inside, disk: &Disk) -> DiskState {
    shown_disk(inside, &disk.name, &disk.file, disk.size_gib)
}

fn shown_disk(inside: &Inside, name: &str, file: &str, size_gib: u32) -> DiskState {
    let (run, uuid) = (&inside.context.run, inside.record.uuid);
    DiskState {
        id: name.to_owned(),
        name: name.to_owned(),
        path: format!("{run}/{uuid}/run/{file}"),
        size_gib,
        format: "qcow2".to_owned(),
    }
}

/// Paths of what waits for the next start, in the words of the VirtualMachine.
pub(super) fn waiting(record: &Record) -> Vec<String> {
    let Some(pending) = &record.pending else {
        return Vec::new();
    };
    let has = &record.hardware;
    let grows = pending.hot_add != has.hot_add;
    [
        ("spec.resources.cpu", pending.cpu != has.cpu),
        (
            "spec.resources.memoryMiB",
            pending.memory_mib != has.memory_mib,
        ),
        ("spec.disks", pending.disks != has.disks),
        ("spec.networks", pending.nics != has.nics),
        ("class.diskDefaults.size", pending.root_gib != has.root_gib),
        ("class.performanceProfile", grows),
    ]
    .into_iter()
    .filter(|(_, differs)| *differs)
    .map(|(path, _)| path.to_owned())
    .collect()
}

/// Facts for people. They are of the moment of the last change: a figure that moves by itself is not told by itself.
fn details(inside: &Inside) -> BTreeMap<String, String> {
    let (record, guest, usage) = (&inside.record, &inside.guest, &inside.usage);
    let mut details = BTreeMap::new();
    let mut tell = |key: &str, value: String| {
        if !value.is_empty() {
            details.insert(key.to_owned(), value);
        }
    };
    tell("accelerator", inside.context.accel.to_owned());
    tell("emulator", inside.context.version.clone());
    tell("runsAs", inside.context.user.clone());
    tell("machine", record.machine.clone());
    tell("firmware", record.firmware.word().to_owned());
    tell("image", record.image.clone());
    tell("tags", record.tags.join(","));
    if let Some(moving) = &record.moving {
        tell(MOVES_TO, moving.peer.clone());
    }
    tell("stage", stage(record.stage).to_owned());
    tell("firstBoot", seed(record).to_owned());
    tell("starts", record.starts.to_string());
    tell("snapshots", count(record.snapshots.len()));
    if inside.live.is_some() {
        tell(
            "guestAgent",
            if guest.agent { "connected" } else { "absent" }.to_owned(),
        );
        tell("cpuSeconds", (usage.cpu_ticks / TICKS).to_string());
        tell("rssMiB", usage.rss_mib.to_string());
    }
    tell("hostname", guest.hostname.clone());
    tell("diskMiB", usage.disk_mib.to_string());
    details
}

fn count(number: usize) -> String {
    if number == 0 {
        String::new()
    } else {
        number.to_string()
    }
}

const fn seed(record: &Record) -> &'static str {
    match record.seed {
        None => "",
        Some(SeedKind::NoCloud) => "NoCloud",
        Some(SeedKind::Ignition) => "Ignition",
    }
}

const fn told(stage: Stage) -> model::Stage {
    match stage {
        Stage::Ready => model::Stage::Whole,
        Stage::Creating => model::Stage::Creating,
        Stage::Deleting => model::Stage::Deleting,
    }
}

const fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Creating => "creating",
        Stage::Ready => "",
        Stage::Deleting => "deleting",
    }
}
