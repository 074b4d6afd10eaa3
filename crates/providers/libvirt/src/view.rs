//! A VM in the words of the contract.

use std::collections::BTreeMap;

use polyvirt_contract::model::{DiskState, NicState, PowerState, Stage, VmState};

use crate::create::ROOT;
use crate::domain::{Machine, Marks, disk};
use crate::look::Seen;

/// Reasons for a pause that are a fault, and for an end that was one.
const PAUSED: i32 = 3;
const PAUSED_BY_IO_ERROR: i32 = 5;
const PAUSED_BY_WATCHDOG: i32 = 6;
const OFF: i32 = 5;
const OFF_BY_CRASH: i32 = 3;
const OFF_BY_FAILURE: i32 = 6;
const CRASHED: i32 = 6;

/// What libvirt's number means.
pub(crate) fn power_of(number: u64) -> PowerState {
    match number {
        1 | 2 | 4 => PowerState::On,
        3 | 7 => PowerState::Suspended,
        5 | 6 => PowerState::Off,
        _ => PowerState::Unknown,
    }
}

/// The VM as the contract shows it; the revision is given by whoever compares.
pub(crate) fn state(seen: &Seen, host: &str) -> VmState {
    let now = seen.live.as_ref().unwrap_or(&seen.config);
    let marks = seen.config.marks.clone();
    let mine = now.marks.clone().or_else(|| marks.clone());
    VmState {
        id: seen.config.uuid.vm_id(),
        name: seen.config.name.clone(),
        owner: marks.as_ref().and_then(|marks| marks.owner.clone()),
        revision: 0,
        stage: marks.as_ref().map_or(Stage::Whole, |marks| marks.stage),
        power: power(seen, marks.as_ref()),
        ips: now
            .nics
            .iter()
            .flat_map(|nic| addresses(seen, &nic.mac))
            .collect(),
        console_url: String::new(),
        cpu: now.cpu,
        memory_mib: now.memory_mib,
        root: mine.as_ref().and_then(|marks| root_disk(now, marks)),
        disks: Some(disks(now, mine.as_ref())),
        nics: Some(nics(seen, now, mine.as_ref())),
        host: host.to_owned(),
        restart_required: seen
            .live
            .as_ref()
            .map_or_else(Vec::new, |live| waiting(live, &seen.config)),
        last_request: marks.as_ref().and_then(|marks| marks.request.clone()),
        fault: fault(seen.power),
        snapshots: Some(seen.snapshots.clone()),
        details: details(seen, marks.as_ref()),
    }
}

/// A VM that is being moved stands still for a moment, or is started to be moved: that is not its power.
fn power(seen: &Seen, marks: Option<&Marks>) -> PowerState {
    let as_it_was = marks.and_then(Marks::leaves_as);
    as_it_was.unwrap_or_else(|| power_of(u64::try_from(seen.power.0).unwrap_or(0)))
}

fn fault(power: (i32, i32)) -> String {
    let text = match power {
        (PAUSED, PAUSED_BY_IO_ERROR) => {
            "The VM is paused because a disk failed; see to its storage, then start it"
        }
        (PAUSED, PAUSED_BY_WATCHDOG) => "The VM is paused by its watchdog; start it again",
        (CRASHED, _) | (OFF, OFF_BY_CRASH) => "The VM crashed; start it again",
        (OFF, OFF_BY_FAILURE) => "The VM could not be started; see its log on the host",
        _ => "",
    };
    text.to_owned()
}

/// IPv4 first.
fn addresses(seen: &Seen, mac: &str) -> Vec<String> {
    seen.guest.addresses.get(mac).cloned().unwrap_or_default()
}

fn root_disk(machine: &Machine, marks: &Marks) -> Option<DiskState> {
    let part = machine.disk(disk::ROOT)?;
    Some(DiskState {
        id: ROOT.to_owned(),
        name: ROOT.to_owned(),
        path: part.path.clone(),
        size_gib: marks.root_gib,
        format: part.format.clone(),
    })
}

/// Disks beyond the first where we know them by name, else all.
fn disks(machine: &Machine, marks: Option<&Marks>) -> Vec<DiskState> {
    let Some(marks) = marks else {
        let hard = machine.disks.iter().filter(|disk| disk.device == "disk");
        return hard
            .map(|disk| DiskState {
                id: disk.target.clone(),
                name: String::new(),
                path: disk.path.clone(),
                size_gib: 0,
                format: disk.format.clone(),
            })
            .collect();
    };
    let there = |target: &str| machine.disk(target);
    let known = marks.disks.iter();
    known
        .filter_map(|mark| {
            let part = there(&mark.target)?;
            Some(DiskState {
                id: mark.name.clone(),
                name: mark.name.clone(),
                path: part.path.clone(),
                size_gib: mark.size_gib,
                format: part.format.clone(),
            })
        })
        .collect()
}

/// Cards that somebody asked for, by the names that they were asked for under.
fn nics(seen: &Seen, machine: &Machine, marks: Option<&Marks>) -> Vec<NicState> {
    let named = |mac: &str, network: &str| match marks {
        Some(marks) => marks.nic_name(mac).unwrap_or(network).to_owned(),
        None => network.to_owned(),
    };
    let cards = machine.nics.iter().map(|nic| NicState {
        name: named(&nic.mac, nic.network()),
        mac: nic.mac.clone(),
        ip: addresses(seen, &nic.mac)
            .into_iter()
            .next()
            .unwrap_or_default(),
    });
    cards.filter(|card| !card.name.is_empty()).collect()
}

/// Paths of what waits for the next start, in the words of the VirtualMachine.
pub(crate) fn waiting(live: &Machine, config: &Machine) -> Vec<String> {
    let root = |machine: &Machine| machine.marks.as_ref().map_or(0, |marks| marks.root_gib);
    let data = |machine: &Machine| disks(machine, machine.marks.as_ref());
    let differs = [
        ("spec.resources.cpu", live.cpu != config.cpu),
        (
            "spec.resources.memoryMiB",
            live.memory_mib != config.memory_mib,
        ),
        (
            "spec.disks",
            live.marks.is_some() && data(live) != data(config),
        ),
        ("spec.networks", live.nics != config.nics),
        (
            "class.diskDefaults.size",
            live.marks.is_some() && root(live) != root(config),
        ),
    ];
    differs
        .into_iter()
        .filter(|(_, differs)| *differs)
        .map(|(path, _)| path.to_owned())
        .collect()
}

fn details(seen: &Seen, marks: Option<&Marks>) -> BTreeMap<String, String> {
    let now = seen.live.as_ref().unwrap_or(&seen.config);
    let agent = match now.agent.filter(|_| seen.live.is_some()) {
        Some(true) => "connected",
        Some(false) => "absent",
        None => "",
    };
    let tags = marks.map(|marks| marks.tags.join(",")).unwrap_or_default();
    let image = marks.map(|marks| marks.image.clone()).unwrap_or_default();
    let growths = now.marks.iter().flat_map(|marks| &marks.growths);
    let growths = growths.map(|(disk, said)| (format!("fileSystem.{disk}"), said.clone()));
    let known = [
        ("accelerator", now.facts.accelerator.clone()),
        ("machine", now.facts.machine.clone()),
        ("firmware", now.facts.firmware.clone()),
        ("guestAgent", agent.to_owned()),
        ("hostname", seen.guest.hostname.clone()),
        ("image", image),
        ("tags", tags),
    ];
    let known = known.into_iter().map(|(key, said)| (key.to_owned(), said));
    known
        .chain(growths)
        .filter(|(_, said)| !said.is_empty())
        .collect()
}
