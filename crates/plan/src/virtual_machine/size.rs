//! Compares the shape that is declared with the one that is there.

use polyvirt_contract::model::{PowerState, VmState};

use crate::virtual_machine::facts::{DesiredPower, Shape};
use crate::virtual_machine::step::Drift;

/// Whether the VM's power is what the user wants. `None` if the provider does not say.
pub fn power_matches(desired: DesiredPower, found: PowerState) -> Option<bool> {
    match (desired, found) {
        (_, PowerState::Unknown) => None,
        (DesiredPower::On, state) => Some(state == PowerState::On),
        (DesiredPower::Off | DesiredPower::OffGraceful, state) => Some(state == PowerState::Off),
        (DesiredPower::Paused, state) => Some(state == PowerState::Suspended),
    }
}

/// The differences in size, disks and networks, as far as the provider can tell.
pub fn differences(declared: &Shape, vm: &VmState) -> Vec<Drift> {
    [
        cpu(declared, vm),
        memory(declared, vm),
        disks(declared, vm),
        networks(declared, vm),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Whether the provider speaks of everything that [`differences`] compares: only then does no difference mean as declared.
pub fn tells_shape(vm: &VmState) -> bool {
    let cards = vm.owner.is_some() && vm.nics.is_some();
    vm.cpu != 0 && vm.memory_mib != 0 && named_disks(vm).is_some() && cards
}

fn cpu(declared: &Shape, vm: &VmState) -> Option<Drift> {
    let differs = vm.cpu != 0 && vm.cpu != declared.cpu;
    differs.then(|| drift("spec.resources.cpu", &declared.cpu, &vm.cpu))
}

fn memory(declared: &Shape, vm: &VmState) -> Option<Drift> {
    let differs = vm.memory_mib != 0 && vm.memory_mib != declared.memory_mib;
    differs.then(|| {
        drift(
            "spec.resources.memoryMiB",
            &declared.memory_mib,
            &vm.memory_mib,
        )
    })
}

/// Only disks that carry a name of ours are compared: a provider that cannot tell them apart says nothing about them.
fn disks(declared: &Shape, vm: &VmState) -> Option<Drift> {
    let found = named_disks(vm)?;
    let mut want = declared.disks.clone();
    want.sort();
    (want != found).then(|| {
        drift(
            "spec.disks",
            &describe_disks(&want),
            &describe_disks(&found),
        )
    })
}

fn named_disks(vm: &VmState) -> Option<Vec<(String, u32)>> {
    let disks = vm.disks.as_ref()?;
    if disks.iter().any(|d| d.name.is_empty()) {
        return None;
    }
    let mut found: Vec<_> = disks.iter().map(|d| (d.name.clone(), d.size_gib)).collect();
    found.sort();
    Some(found)
}

fn describe_disks(disks: &[(String, u32)]) -> String {
    let list: Vec<_> = disks
        .iter()
        .map(|(name, gib)| format!("{name}={gib}GiB"))
        .collect();
    format!("[{}]", list.join(" "))
}

/// Compared only where the provider speaks of our cards, which extension providers do.
fn networks(declared: &Shape, vm: &VmState) -> Option<Drift> {
    vm.owner.as_ref()?;
    let mut found: Vec<_> = vm.nics.as_ref()?.iter().map(|n| n.name.clone()).collect();
    let mut want = declared.networks.clone();
    found.sort();
    want.sort();
    (want != found).then(|| drift("spec.networks", &want.join(" "), &found.join(" ")))
}

fn drift(field: &'static str, declared: &impl ToString, found: &impl ToString) -> Drift {
    Drift {
        field,
        declared: declared.to_string(),
        found: found.to_string(),
    }
}
