//! Which VMs are where, and what of them the inventory does not show yet.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use polyvirt_api::infra::{PlacementStatus, PowerState, VirtualMachine};
use polyvirt_contract::VmId;
use polyvirt_contract::model::VmState;
use polyvirt_placement::{Choice, Claim, Placed, Request, VmTerm};
use polyvirt_plan::virtual_machine::record;

use super::question::keeps_away;
use super::snapshots::Snapshot;
use crate::context::Stores;
use crate::link::Link;
use crate::runtime::key::ObjectKey;
use crate::runtime::vm_index::{Target, provider_of};

static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

/// A VM on a host, or soon to be there.
pub(super) struct Entry {
    key: ObjectKey,
    vm: Arc<VirtualMachine>,
    host: String,
    placement: PlacementStatus,
    /// CPUs and MiB that the inventory does not show yet.
    unseen: Option<(u32, u64)>,
    disks: Disks,
    keeps_away: Vec<VmTerm>,
}

/// Whether the inventory shows what the disks of a VM take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disks {
    Shown,
    Unseen,
}

impl Entry {
    pub(super) fn placed<'a>(&'a self, provider: &'a str) -> Placed<'a> {
        let spec = &self.vm.spec;
        let at_home = self.placement.host.as_ref() == Some(&self.host);
        Placed {
            namespace: self.key.namespace(),
            name: self.key.name(),
            labels: self.vm.metadata.labels.as_ref().unwrap_or(&NO_LABELS),
            policy: spec.placement_ref.as_ref().map(|r| r.name.as_str()),
            provider,
            host: &self.host,
            claim: self.claim(),
            // One that somebody moved has left them behind.
            devices: at_home.then_some(&self.placement.devices),
            keeps_away: self.keeps_away.clone(),
        }
    }

    pub(super) fn is_of(&self, vm: &ObjectKey) -> bool {
        self.key == *vm
    }

    /// Disks are made for a VM that is to be off too.
    fn claim(&self) -> Option<Claim<'_>> {
        let gib = self
            .placement
            .disk_gib
            .filter(|_| self.disks == Disks::Unseen);
        let gib = gib.and_then(|gib| u64::try_from(gib).ok()).unwrap_or(0);
        if self.unseen.is_none() && gib == 0 {
            return None;
        }
        let (cpus, memory_mib) = self.unseen.unwrap_or_default();
        Some(Claim {
            cpus,
            memory_mib,
            disk_bytes: gib << 30,
            datastore: self.placement.datastore.as_deref().unwrap_or_default(),
        })
    }
}

/// Choices by VM.
pub(super) type Reserved = HashMap<ObjectKey, PlacementStatus>;

/// All VMs of the provider but the one that a host is looked for.
pub(super) fn open(
    stores: &Stores,
    link: &Link,
    snapshot: &Snapshot,
    reserved: Option<&Reserved>,
    without: Option<&ObjectKey>,
) -> Vec<Entry> {
    let users = stores.index.users(&Target::Provider(link.key.clone()));
    let others = users.into_iter().filter(|key| Some(key) != without);
    others
        .filter_map(|key| {
            let reserved = reserved.and_then(|reserved| reserved.get(&key));
            entry(stores, link, snapshot, reserved, key)
        })
        .collect()
}

fn entry(
    stores: &Stores,
    link: &Link,
    snapshot: &Snapshot,
    reserved: Option<&PlacementStatus>,
    key: ObjectKey,
) -> Option<Entry> {
    let vm = stores.vms.get(&key)?;
    let written = vm.status.as_ref().and_then(|s| s.placement.as_deref());
    let placement = reserved.or(written).cloned().unwrap_or_default();
    let seen = observed(link, &vm);
    let shown = seen
        .as_ref()
        .map(|seen| seen.host.clone())
        .filter(|host| !host.is_empty());
    let host = shown.or_else(|| placement.host.clone())?;
    let counted = seen
        .as_ref()
        .and_then(|seen| snapshot.counted.get(&seen.id));
    let in_memory = seen
        .as_ref()
        .is_some_and(|seen| counted == Some(&seen.host));
    let unseen = (!in_memory && is_to_run(&vm)).then(|| size(&placement, seen.as_deref()));
    Some(Entry {
        keeps_away: keeps_away(stores, &vm),
        disks: counted.map_or(Disks::Unseen, |_| Disks::Shown),
        key,
        vm,
        host,
        placement,
        unseen,
    })
}

/// A VM for which that was chosen and of which the caches know nothing yet.
pub(super) fn expected(
    stores: &Stores,
    vm: Arc<VirtualMachine>,
    choice: &Choice,
    request: &Request,
) -> Entry {
    let devices = choice.devices.iter();
    let devices = devices.map(|(name, count)| (name.clone(), i32::try_from(*count).unwrap_or(1)));
    let placement = PlacementStatus {
        host: Some(choice.host.clone()),
        datastore: choice.datastore.clone(),
        devices: devices.collect(),
        ..PlacementStatus::default()
    };
    Entry {
        keeps_away: keeps_away(stores, &vm),
        unseen: is_to_run(&vm).then_some((request.cpus, request.memory_mib)),
        disks: Disks::Unseen,
        key: ObjectKey::of(&*vm),
        host: choice.host.clone(),
        placement,
        vm,
    }
}

/// A VM that moves to this host and is not there yet.
pub(super) fn arrival(stores: &Stores, link: &Link, key: ObjectKey, host: String) -> Option<Entry> {
    let vm = stores.vms.get(&key)?;
    if provider_of(&vm) != link.key {
        return None;
    }
    let seen = observed(link, &vm);
    let arrived = seen.as_ref().is_some_and(|seen| seen.host == host);
    let written = vm.status.as_ref().and_then(|s| s.placement.as_deref());
    let placement = written.cloned().unwrap_or_default();
    (!arrived).then(|| Entry {
        keeps_away: keeps_away(stores, &vm),
        unseen: Some(size(&placement, seen.as_deref())),
        disks: Disks::Unseen,
        key,
        vm,
        host,
        placement,
    })
}

fn is_to_run(vm: &VirtualMachine) -> bool {
    let wanted = vm.spec.power_state.unwrap_or_default();
    matches!(wanted, PowerState::On | PowerState::Paused)
}

fn observed(link: &Link, vm: &VirtualMachine) -> Option<Arc<VmState>> {
    let id = vm
        .status
        .as_ref()
        .and_then(|s| s.id.as_deref())
        .and_then(VmId::non_empty);
    let identity = record::identity(vm);
    link.seen(|seen| {
        id.and_then(|id| seen.get(&id))
            .or_else(|| seen.find(&identity))
    })
}

/// As its provider tells, and until it does as it was chosen for: a VM may have been resized since.
fn size(placement: &PlacementStatus, seen: Option<&VmState>) -> (u32, u64) {
    let cpus = placement.cpu.and_then(|cpu| u32::try_from(cpu).ok());
    let memory = placement.memory_mib.and_then(|mib| u64::try_from(mib).ok());
    let told = |seen: &&VmState| seen.cpu > 0 && seen.memory_mib > 0;
    seen.filter(told).map_or_else(
        || (cpus.unwrap_or(0), memory.unwrap_or(0)),
        |seen| (seen.cpu, seen.memory_mib),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vm_is_as_big_as_its_provider_tells() {
        let placement = PlacementStatus {
            cpu: Some(2),
            memory_mib: Some(2048),
            ..PlacementStatus::default()
        };
        let grown = VmState {
            cpu: 4,
            memory_mib: 8192,
            ..VmState::default()
        };
        assert_eq!(size(&placement, None), (2, 2048));
        assert_eq!(size(&placement, Some(&grown)), (4, 8192));
        assert_eq!(size(&placement, Some(&VmState::default())), (2, 2048));
    }
}
