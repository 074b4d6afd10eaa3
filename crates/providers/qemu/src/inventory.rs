//! The host, its room, and its networks.

use std::collections::BTreeMap;
use std::path::Path;

use polyvirt_contract::model::{Datastore, Host, HostHealth, Inventory};

use crate::core::Core;
use crate::network;

/// Bytes free for us at the path; `None` if the kernel does not say.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let room = rustix::fs::statvfs(path).ok()?;
    Some(room.f_bavail * room.f_frsize)
}

fn capacity_bytes(path: &Path) -> Option<u64> {
    let room = rustix::fs::statvfs(path).ok()?;
    Some(room.f_blocks * room.f_frsize)
}

/// What VMs can be placed on. A VM counts with its whole size, whether it runs or not.
pub(crate) fn inventory(core: &Core) -> Inventory {
    let root = core.state.root();
    Inventory {
        hosts: vec![host(core)],
        datastores: vec![Datastore {
            name: "default".to_owned(),
            kind: "dir".to_owned(),
            capacity_bytes: capacity_bytes(root).unwrap_or(0),
            free_bytes: free_bytes(root).unwrap_or(0),
            hosts: vec![core.host.clone()],
        }],
        networks: network::list(core),
    }
}

fn host(core: &Core) -> Host {
    let running = core.all().into_iter().filter(|vm| vm.live().is_some());
    let sizes: Vec<_> = running
        .map(|vm| vm.record(|record| (record.hardware.cpu, record.hardware.memory_mib)))
        .collect();
    let memory_mib = memory_mib();
    Host {
        name: core.host.clone(),
        zone: core.config.zone.clone(),
        labels: core.config.labels.beneath(labels(core)),
        cpus: std::thread::available_parallelism()
            .map_or(1, |n| u32::try_from(n.get()).unwrap_or(1)),
        cpus_used: sizes.iter().map(|(cpu, _)| cpu).sum(),
        memory_mib,
        memory_used_mib: sizes
            .iter()
            .map(|(_, memory)| memory)
            .sum::<u64>()
            .min(memory_mib),
        devices: core.config.devices.counts(),
        health: HostHealth::Ready,
    }
}

fn labels(core: &Core) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        ("kubernetes.io/hostname".to_owned(), core.host.clone()),
        (
            "kubernetes.io/arch".to_owned(),
            std::env::consts::ARCH.to_owned(),
        ),
    ]);
    if let Some(emulator) = core.known_emulator() {
        labels.insert(
            "polyvirt.io/accelerator".to_owned(),
            emulator.accel.word().to_owned(),
        );
        labels.insert("polyvirt.io/machine".to_owned(), emulator.machine.clone());
    }
    labels
}

/// Memory of this machine in MiB; 0 if the kernel does not say.
pub(crate) fn memory_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) >> 10
}
