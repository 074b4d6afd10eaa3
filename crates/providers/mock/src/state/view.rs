//! VMs and hosts in the words of the contract.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use polyvirt_contract::model::{
    self, Datastore, DiskState, Inventory, NetworkEntry, NicState, PowerState, VmState,
};

use crate::state::disks::ROOT;
use crate::state::reconfigure::waiting;
use crate::state::vm::{Disk, Nic, Power, Stage, Vm, VmKey};
use crate::state::{State, snapshots};

/// What the one datastore pretends to hold.
const DATASTORE_BYTES: u64 = 1 << 50;

impl State {
    pub(super) fn view(&self, vm: &Vm) -> VmState {
        let nics: Vec<NicState> = vm
            .hardware
            .nics
            .iter()
            .enumerate()
            .map(|nic| card(vm, nic))
            .collect();
        VmState {
            id: vm.key.id(),
            name: vm.name.to_string(),
            owner: vm.owner.as_deref().cloned(),
            revision: vm.revision,
            stage: told(vm.stage),
            power: match vm.power {
                Power::Off => PowerState::Off,
                Power::Booting | Power::On => PowerState::On,
                Power::Paused => PowerState::Suspended,
            },
            ips: addresses(vm, &nics),
            console_url: String::new(),
            cpu: vm.hardware.cpu,
            memory_mib: vm.hardware.memory_mib,
            root: Some(root_disk(vm)),
            disks: Some(
                vm.hardware
                    .disks
                    .iter()
                    .map(|disk| data_disk(vm.key, disk))
                    .collect(),
            ),
            nics: Some(nics),
            host: self.hosts.name(vm.host).to_owned(),
            restart_required: waiting(vm),
            last_request: vm.last_request.clone(),
            fault: String::new(),
            details: details(vm),
            snapshots: Some(snapshots::shown(vm)),
        }
    }
}

fn card(vm: &Vm, (place, nic): (usize, &Nic)) -> NicState {
    let ip = if matches!(vm.power, Power::On | Power::Paused) {
        address(vm.key, place, nic)
    } else {
        String::new()
    };
    let mac = if nic.mac.is_empty() {
        mac(vm.key, place)
    } else {
        nic.mac.to_string()
    };
    NicState {
        name: nic.name.to_string(),
        mac,
        ip,
    }
}

fn addresses(vm: &Vm, nics: &[NicState]) -> Vec<String> {
    match vm.power {
        Power::Off | Power::Booting => Vec::new(),
        // A VM without a card is on the network that hypervisors give by default.
        Power::On | Power::Paused if nics.is_empty() => vec![generated(vm.key, 0)],
        Power::On | Power::Paused => nics.iter().map(|nic| nic.ip.clone()).collect(),
    }
}

fn address(key: VmKey, place: usize, nic: &Nic) -> String {
    if nic.ip.is_empty() {
        generated(key, place)
    } else {
        nic.ip.to_string()
    }
}

/// The same VM always gets the same addresses: four networks of four million.
fn generated(key: VmKey, place: usize) -> String {
    let [_, high, middle, low] = key.0.to_be_bytes();
    let network = u8::try_from(place % 4).unwrap_or(0) << 6;
    Ipv4Addr::new(10, network | (high & 0x3f), middle, low).to_string()
}

fn mac(key: VmKey, place: usize) -> String {
    let [_, high, middle, low] = key.0.to_be_bytes();
    format!(
        "02:6d:{:02x}:{high:02x}:{middle:02x}:{low:02x}",
        place % 256
    )
}

pub(super) fn disk_path(key: VmKey, name: &str) -> String {
    format!("mock:{}/{name}.raw", key.id())
}

fn root_disk(vm: &Vm) -> DiskState {
    DiskState {
        id: ROOT.to_owned(),
        name: ROOT.to_owned(),
        path: disk_path(vm.key, ROOT),
        size_gib: vm.hardware.root_gib,
        format: "raw".to_owned(),
    }
}

fn data_disk(key: VmKey, disk: &Disk) -> DiskState {
    DiskState {
        id: disk.name.to_string(),
        name: disk.name.to_string(),
        path: disk_path(key, &disk.name),
        size_gib: disk.size_gib,
        format: "raw".to_owned(),
    }
}

/// Shows what arrived, so that a test can see it: never the data itself, which may hold secrets.
fn details(vm: &Vm) -> BTreeMap<String, String> {
    let mut details = BTreeMap::new();
    let mut tell = |key: &str, value: String| {
        if !value.is_empty() {
            details.insert(key.to_owned(), value);
        }
    };
    tell("boots", vm.boots.to_string());
    tell("firmware", if vm.uefi { "UEFI" } else { "BIOS" }.to_owned());
    tell("image", vm.image.to_string());
    tell("networks", attachments(vm));
    for nic in &vm.hardware.nics {
        tell(&format!("nic.{}", nic.name), nic.setup.to_string());
    }
    tell("tags", vm.tags.join(","));
    let devices = vm.devices.iter().flat_map(|devices| devices.iter());
    let devices: Vec<_> = devices
        .map(|(name, count)| format!("{name}={count}"))
        .collect();
    tell("devices", devices.join(","));
    tell("stage", stage(vm.stage).to_owned());
    if vm.hardware_version != 0 {
        tell("hardwareVersion", vm.hardware_version.to_string());
    }
    if let Some(content) = &vm.content {
        tell("diskSha256", content.to_string());
    }
    if let Some(seed) = &vm.seed {
        tell("hostname", seed.hostname.to_string());
        if let Some(kind) = seed.kind() {
            tell("userDataKind", kind.to_owned());
            tell("userDataBytes", seed.user_data.len().to_string());
            tell("userDataDigest", seed.user_data_digest.to_string());
        }
        tell("metaDataBytes", length(&seed.meta_data));
        tell("networkDataBytes", length(&seed.network_data));
    }
    details
}

/// `eth0=lan`, for each card that names its network.
fn attachments(vm: &Vm) -> String {
    let named = vm
        .hardware
        .nics
        .iter()
        .filter(|nic| !nic.network.is_empty());
    let pairs: Vec<String> = named
        .map(|nic| format!("{}={}", nic.name, nic.network))
        .collect();
    pairs.join(",")
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

fn length(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        String::new()
    } else {
        bytes.len().to_string()
    }
}

pub(super) fn inventory(state: &State) -> Inventory {
    let disks = |vm: &Vm| {
        vm.hardware
            .disks
            .iter()
            .map(|disk| u64::from(disk.size_gib))
            .sum::<u64>()
    };
    let used: u64 = state
        .vms
        .values()
        .map(|vm| u64::from(vm.hardware.root_gib) + disks(vm))
        .sum();
    Inventory {
        hosts: state.hosts.list().to_vec(),
        datastores: vec![Datastore {
            name: "default".to_owned(),
            kind: "mock".to_owned(),
            capacity_bytes: DATASTORE_BYTES,
            free_bytes: DATASTORE_BYTES.saturating_sub(used << 30),
            hosts: Vec::new(),
        }],
        networks: vec![NetworkEntry {
            name: "default".to_owned(),
            kind: "mock".to_owned(),
        }],
    }
}
