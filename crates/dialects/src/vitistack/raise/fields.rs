//! The plain fields of a Machine's status.

use polyvirt_api::infra::VirtualMachineStatus;
use polyvirt_api::kubevirt::details;
use polyvirt_api::vitistack::{Machine, MachineDiskStatus, MachineStatus};

use super::{Facts, Trouble, addresses, phase};
use crate::vitistack::lower::LoweredDisk;

const MIB: i64 = 1 << 20;

pub(super) fn fill(status: &mut MachineStatus, facts: &Facts<'_>, phase: &str) {
    let machine = facts.machine;
    status.provider = Some("kubevirt".to_owned());
    status.hostname.clone_from(&machine.metadata.name);
    status.architecture = architecture(machine);
    if let Some(name) = facts.config_name {
        status.kubevirt_config_ref = Some(name.to_owned());
    }
    if let Some(lowered) = facts.lowered {
        status.vm_name = Some(lowered.vm_name.clone());
        status.disks = lowered.disks.iter().map(disk).collect();
    }
    let vm = facts.vm.and_then(|vm| vm.status.as_ref());
    if let Some(vm) = vm {
        observed(status, vm, phase);
    }
    if let Some(Trouble::VmMissing { id, .. }) = facts.trouble {
        status.machine_id = Some(id.clone());
        (status.vmi_name, status.node_name) = (None, None);
        // Where the VM was is part of the record, whatever was reported before.
        let name = machine.metadata.name.clone().unwrap_or_default();
        status.vm_name.get_or_insert(name);
    }
    addresses::fill(status, facts, vm);
    place(status, facts, vm);
}

fn architecture(machine: &Machine) -> Option<String> {
    let os = machine.spec.os.as_ref();
    let wanted = os.and_then(|os| os.architecture);
    wanted.map(|a| a.as_str().to_owned())
}

fn observed(status: &mut MachineStatus, vm: &VirtualMachineStatus, phase: &str) {
    // One that another operator made keeps the name that it gave.
    let real = vm.id.as_deref().and_then(|id| id.split_once('/'));
    if let Some((_, name)) = real {
        status.vm_name = Some(name.to_owned());
    }
    let runs = matches!(phase, phase::RUNNING | phase::STOPPING);
    status.vmi_name = status.vm_name.clone().filter(|_| runs);
    status.node_name = vm.host.clone().filter(|_| runs);
    status.machine_id.clone_from(&vm.id);
    let size = vm.current_resources.clone().unwrap_or_default();
    status.cpus = size.cpu.map(i64::from).or(status.cpus);
    let memory = size.memory_mib.and_then(|m| m.checked_mul(MIB));
    status.memory = memory.or(status.memory);
    let told = |key: &str| vm.provider.get(key).cloned();
    status.operating_system = told(details::GUEST_OS).or(status.operating_system.take());
    status.kernel_version = told(details::GUEST_KERNEL).or(status.kernel_version.take());
}

/// `kubevirt://config/namespace/name`, once there is a VM.
fn place(status: &mut MachineStatus, facts: &Facts<'_>, vm: Option<&VirtualMachineStatus>) {
    let there = vm.is_some_and(|vm| vm.id.is_some());
    if facts.vm.is_some() && !there {
        // A new VirtualMachine: the VM of a former one is no longer the one that is meant.
        status.provider_id = None;
    }
    let namespace = facts.machine.metadata.namespace.as_deref();
    let name = status.vm_name.as_deref();
    if let (true, Some(config), Some(namespace), Some(name)) =
        (there, facts.config, namespace, name)
    {
        status.provider_id = Some(format!("kubevirt://{}/{namespace}/{name}", config.name()));
    }
    if status.creation_time.is_none() && there {
        let made = facts
            .vm
            .and_then(|vm| vm.metadata.creation_timestamp.clone());
        status.creation_time = made;
    }
}

fn disk(disk: &LoweredDisk) -> MachineDiskStatus {
    MachineDiskStatus {
        name: Some(disk.name.clone()),
        pvc_name: Some(disk.claim.clone()),
        size: i64::try_from(disk.bytes).ok(),
        access_modes: disk.access_mode.iter().cloned().collect(),
        volume_mode: disk.volume_mode.clone(),
        type_: Some(disk.bus.clone().unwrap_or_else(|| "virtio".to_owned())),
        ..MachineDiskStatus::default()
    }
}
