//! Changes of a machine that runs. Each step is kept when it is done, and can be done again if the provider was cut short.

use std::sync::Arc;
use std::time::Duration;

use polyvirt_contract::Result;
use serde_json::{Value, json};

use crate::cmdline::{self, disk_device, disk_id, disk_node, nic_device, nic_id, nic_netdev};
use crate::core::Core;
use crate::network;
use crate::qmp::{Qmp, QmpError};
use crate::state::{CpuPlace, Disk, Hardware, Nic, Record};
use crate::vm::reconfigure::{make_disk, remove_file};
use crate::vm::{Live, Vm};

/// How long a guest may take to let go of a device.
const LET_GO: Duration = Duration::from_secs(15);
/// Guests take memory in blocks of this size.
const MEMORY_BLOCK_MIB: u64 = 128;
const MOST_DIMMS: usize = 16;

/// Whether the guest let go of a device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LetGo {
    Yes,
    /// It does not answer: the device stays until the next start.
    No,
}

/// Gives the running machine all of the target that it can have now; the record tells what that is.
pub(super) async fn approach(
    core: &Arc<Core>,
    vm: &Arc<Vm>,
    live: &Live,
    target: &Hardware,
) -> Result<()> {
    take_cards(vm, live, target).await?;
    take_disks(vm, live, target).await?;
    add_disks(core, vm, live, target).await?;
    grow_disks(vm, live, target).await?;
    add_cards(core, vm, live, target).await?;
    add_cpus(vm, live, target).await?;
    add_memory(vm, live, target).await
}

async fn take_cards(vm: &Vm, live: &Live, target: &Hardware) -> Result<()> {
    for nic in vm.copy().hardware.nics {
        if let Some(kept) = target.nics.iter().find(|kept| kept.same_card(&nic)) {
            replace_card(vm, &nic, kept)?;
            continue;
        }
        if unplug(&live.qmp, &nic_id(&nic)).await? == LetGo::No {
            continue;
        }
        forgiving(
            live.qmp
                .execute("netdev_del", json!({"id": nic_id(&nic)}))
                .await,
            "not found",
        )?;
        if !nic.bridge.is_empty() {
            network::remove_tap(vm.uuid(), &nic).await;
        }
        vm.keep(|record| record.hardware.nics.retain(|other| *other != nic))?;
    }
    Ok(())
}

/// The card stays, and what is only told of it is told anew.
fn replace_card(vm: &Vm, old: &Nic, new: &Nic) -> Result<()> {
    vm.keep(|record| {
        let found = record.hardware.nics.iter_mut().find(|nic| *nic == old);
        if let Some(found) = found {
            found.clone_from(new);
        }
    })
}

async fn add_cards(core: &Core, vm: &Vm, live: &Live, target: &Hardware) -> Result<()> {
    for nic in &target.nics {
        let taken = |other: &Nic| other.port == nic.port || other.name == nic.name;
        if vm.record(|record| record.hardware.nics.iter().any(taken)) {
            continue;
        }
        let tap = match nic.bridge.as_str() {
            "" => None,
            _ => Some(network::make_tap(core, vm.uuid(), nic).await?),
        };
        add(&live.qmp, "netdev_add", nic_netdev(nic, tap.as_deref())).await?;
        add(&live.qmp, "device_add", nic_device(nic)).await?;
        keep_in_order(vm, target, |record| record.hardware.nics.push(nic.clone()))?;
    }
    Ok(())
}

async fn take_disks(vm: &Vm, live: &Live, target: &Hardware) -> Result<()> {
    for disk in vm.copy().hardware.disks {
        if target.disks.iter().any(|kept| kept.file == disk.file) {
            continue;
        }
        if unplug(&live.qmp, disk_id(&disk)).await? == LetGo::No {
            continue;
        }
        let node = json!({"node-name": disk_id(&disk)});
        forgiving(
            live.qmp.execute("blockdev-del", node).await,
            "Failed to find node",
        )?;
        vm.keep(|record| {
            record
                .hardware
                .disks
                .retain(|other| other.file != disk.file);
        })?;
        if !vm.record(|record| record.is_in_snapshot(&disk.file)) {
            remove_file(vm, &disk.file);
        }
    }
    Ok(())
}

async fn add_disks(core: &Core, vm: &Vm, live: &Live, target: &Hardware) -> Result<()> {
    let folder = vm.dir.open_run()?;
    for disk in &target.disks {
        let taken = |other: &Disk| other.port == disk.port || other.name == disk.name;
        if vm.record(|record| record.hardware.disks.iter().any(taken)) {
            continue;
        }
        if !vm.dir.file(&disk.file).exists() {
            make_disk(core, &folder, disk).await?;
        }
        add(&live.qmp, "blockdev-add", disk_node(disk)).await?;
        add(&live.qmp, "device_add", disk_device(disk)).await?;
        keep_in_order(vm, target, |record| {
            record.hardware.disks.push(disk.clone());
        })?;
    }
    Ok(())
}

/// Disks grow while the machine runs if their policy says so; the first one always does.
async fn grow_disks(vm: &Vm, live: &Live, target: &Hardware) -> Result<()> {
    let has = vm.copy().hardware;
    if target.root_gib > has.root_gib {
        grow(&live.qmp, "root", target.root_gib).await?;
        vm.keep(|record| record.hardware.root_gib = target.root_gib)?;
    }
    for disk in &target.disks {
        let Some(old) = has.disk(&disk.name).filter(|old| old.file == disk.file) else {
            continue;
        };
        let grows = disk.size_gib > old.size_gib;
        if grows && !disk.online {
            continue;
        }
        if grows {
            grow(&live.qmp, disk_id(disk), disk.size_gib).await?;
        }
        let replace = |record: &mut Record| {
            let found = record
                .hardware
                .disks
                .iter_mut()
                .find(|other| other.file == disk.file);
            if let Some(found) = found {
                *found = disk.clone();
            }
        };
        vm.keep(replace)?;
    }
    Ok(())
}

/// A disk that is as large already, because its image was, stays so.
async fn grow(qmp: &Qmp, node: &str, gib: u32) -> Result<()> {
    let bytes = u64::from(gib) << 30;
    let nodes = qmp
        .execute("query-named-block-nodes", json!({"flat": true}))
        .await?;
    let found = nodes
        .as_array()
        .into_iter()
        .flatten()
        .find(|entry| entry["node-name"] == node);
    let size = found
        .and_then(|entry| entry["image"]["virtual-size"].as_u64())
        .unwrap_or(0);
    if size < bytes {
        qmp.execute("block_resize", json!({"node-name": node, "size": bytes}))
            .await?;
    }
    Ok(())
}

async fn add_cpus(vm: &Vm, live: &Live, target: &Hardware) -> Result<()> {
    let record = vm.copy();
    let booted = record.hardware.cpu - u32::try_from(record.plugged.cpus.len()).unwrap_or(0);
    let (most, _) = cmdline::limits(booted, 0);
    if !record.hardware.hot_add.cpu || target.cpu <= record.hardware.cpu || target.cpu > most {
        return Ok(());
    }
    for _ in record.hardware.cpu..target.cpu {
        let Some(cpu) = free_cpu(&live.qmp).await? else {
            return Ok(());
        };
        let place = vm.record(|record| record.plugged.cpus.len());
        add(&live.qmp, "device_add", cmdline::cpu_device(place, &cpu)).await?;
        vm.keep(|record| {
            record.plugged.cpus.push(cpu);
            record.hardware.cpu += 1;
        })?;
    }
    Ok(())
}

/// The first place that no processor sits in.
async fn free_cpu(qmp: &Qmp) -> Result<Option<CpuPlace>> {
    let places = qmp.ask("query-hotpluggable-cpus").await?;
    let free = places
        .as_array()
        .into_iter()
        .flatten()
        .filter(|place| place.get("qom-path").is_none());
    let mut free: Vec<CpuPlace> = free.filter_map(cpu_place).collect();
    free.sort_by(|a, b| a.props.cmp(&b.props));
    Ok(free.into_iter().next())
}

fn cpu_place(place: &Value) -> Option<CpuPlace> {
    let props = place["props"].as_object()?;
    Some(CpuPlace {
        driver: place["type"].as_str()?.to_owned(),
        props: props
            .iter()
            .filter_map(|(key, value)| Some((key.clone(), value.as_i64()?)))
            .collect(),
    })
}

async fn add_memory(vm: &Vm, live: &Live, target: &Hardware) -> Result<()> {
    let record = vm.copy();
    let has = record.hardware.memory_mib;
    let booted = has - record.plugged.dimms.iter().sum::<u64>();
    let (_, most) = cmdline::limits(1, booted);
    let more = target.memory_mib.saturating_sub(has);
    let fits = more > 0 && more.is_multiple_of(MEMORY_BLOCK_MIB) && target.memory_mib <= most;
    if !record.hardware.hot_add.memory || !fits || record.plugged.dimms.len() >= MOST_DIMMS {
        return Ok(());
    }
    let place = record.plugged.dimms.len();
    add(&live.qmp, "object-add", cmdline::dimm_backend(place, more)).await?;
    add(&live.qmp, "device_add", cmdline::dimm_device(place)).await?;
    vm.keep(|record| {
        record.plugged.dimms.push(more);
        record.hardware.memory_mib = target.memory_mib;
    })
}

/// Adds something that may be there already, because the provider was cut short after it had added it.
async fn add(qmp: &Qmp, command: &str, what: Value) -> Result<()> {
    forgiving(qmp.execute(command, what).await, "uplicate")
}

fn forgiving(answer: std::result::Result<Value, QmpError>, word: &str) -> Result<()> {
    match answer {
        Err(QmpError::Refused { reason, .. }) if reason.contains(word) => Ok(()),
        answer => Ok(answer.map(drop)?),
    }
}

/// Asks the guest to let go of a device, and waits until it has.
async fn unplug(qmp: &Qmp, device: &str) -> Result<LetGo> {
    let mut events = qmp.events();
    match qmp.execute("device_del", json!({"id": device})).await {
        Err(QmpError::Refused { class, .. }) if class == "DeviceNotFound" => return Ok(LetGo::Yes),
        Err(QmpError::Refused { reason, .. }) if reason.contains("in the process of unplug") => {}
        answer => drop(answer?),
    }
    let gone = async {
        while let Ok(event) = events.recv().await {
            if event.name == "DEVICE_DELETED" && event.text("device") == device {
                return LetGo::Yes;
            }
        }
        LetGo::No
    };
    Ok(tokio::time::timeout(LET_GO, gone)
        .await
        .unwrap_or(LetGo::No))
}

/// Adds to the record and keeps the order of the target, so that a machine which has all of it equals it.
fn keep_in_order(vm: &Vm, target: &Hardware, change: impl FnOnce(&mut Record)) -> Result<()> {
    vm.keep(|record| {
        change(record);
        let place = |names: Vec<&str>, name: &str| names.iter().position(|other| *other == name);
        let disks = || target.disks.iter().map(|disk| disk.name.as_str()).collect();
        let nics = || target.nics.iter().map(|nic| nic.name.as_str()).collect();
        record
            .hardware
            .disks
            .sort_by_key(|disk| place(disks(), &disk.name));
        record
            .hardware
            .nics
            .sort_by_key(|nic| place(nics(), &nic.name));
    })
}
