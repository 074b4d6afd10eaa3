//! Who is to be looked at when a snapshot changes, and which snapshots when something else does.

use polyvirt_api::infra::{SnapshotPhase, VMSnapshot, VirtualMachine};
use polyvirt_api::names::HOOK_LABEL;
use polyvirt_plan::snapshot::schedule::{is_schedule, maker};

use super::{Dispatcher, Source, deletion_moved, urgency};
use crate::runtime::key::{Key, Kind, ObjectKey};
use crate::runtime::queue::{Lane, Urgency};
use crate::runtime::store::Change;
use crate::runtime::vm_index::{Target, provider_of};
use crate::subject::{AboutVm, is_made};

impl Dispatcher {
    /// A VMSnapshot changed.
    pub fn snapshot_changed(&self, change: &Change<VMSnapshot>, source: Source) {
        let (old, new) = match change {
            Change::Added(new) => (None, Some(new)),
            Change::Updated { old, new } => (Some(old), Some(new)),
            Change::Removed(old) => (Some(old), None),
        };
        let Some(any) = new.or(old) else { return };
        let key = ObjectKey::of(&**any);
        let (old, new) = (old.map(|s| &**s), new.map(|s| &**s));
        let named = |s: Option<&VMSnapshot>| s.map(AboutVm::vm);
        let index = &self.stores.snapshot_index;
        index.update(&key, named(old), named(new));
        if old.map(usable) != new.map(usable) {
            self.wake_users(&Target::Snapshot(key.clone()), Urgency::Event);
            self.wake_maker(any, source);
            self.wake_hooked(any);
            self.wake_relatives(any, source);
        }
        if new.is_none() {
            self.wake_made(any);
        }
        if old.map(keeps) != new.map(keeps) {
            self.wake_leaving(any);
        }
        match (old, new) {
            (Some(old), Some(new)) if !concerns_us(old, new) => {}
            (_, Some(_)) if source != Source::OurWrite => self.wake_snapshot(&key, urgency(source)),
            (_, None) => self.wake_snapshot(&key, Urgency::Event),
            _ => {}
        }
    }

    /// A schedule counts what it has made. A first list wakes it anyway.
    fn wake_maker(&self, made: &VMSnapshot, source: Source) {
        if let (Some((name, _)), true) = (maker(made), source != Source::FirstList) {
            let own = made.metadata.namespace.as_deref().unwrap_or_default();
            self.wake_snapshot(&ObjectKey::new(own, name), Urgency::Event);
        }
    }

    /// What is based on it, and what it is based on, tell so. A first list wakes them anyway.
    fn wake_relatives(&self, snapshot: &VMSnapshot, source: Source) {
        if source != Source::FirstList {
            self.wake_snapshots_of(&snapshot.vm(), Urgency::Background);
        }
    }

    /// A VM that is to be started or stopped waits for a snapshot that it has asked for.
    fn wake_hooked(&self, snapshot: &VMSnapshot) {
        let labels = snapshot.metadata.labels.as_ref();
        if labels.is_some_and(|labels| labels.contains_key(HOOK_LABEL)) {
            self.wake_vm(&snapshot.vm(), Urgency::Event);
        }
    }

    /// A VM that is to go waits for snapshots that are not to go with it.
    fn wake_leaving(&self, snapshot: &VMSnapshot) {
        let vm = self.stores.vms.get(&snapshot.vm());
        if vm.is_some_and(|vm| vm.metadata.deletion_timestamp.is_some()) {
            self.wake_vm(&snapshot.vm(), Urgency::Event);
        }
    }

    /// What a schedule has made goes with it.
    fn wake_made(&self, schedule: &VMSnapshot) {
        if is_schedule(schedule) {
            self.wake_snapshots_of(&schedule.vm(), Urgency::Event);
        }
    }

    pub(super) fn wake_snapshot(&self, key: &ObjectKey, urgency: Urgency) {
        let snapshot = self.stores.snapshots.get(key);
        let provider = snapshot.and_then(|s| self.provider_of_snapshot(&s));
        let lane = provider.map_or(Lane::Control, Lane::Provider);
        let key = Key::new(Kind::VMSnapshot, key.clone());
        self.queue.add(key, lane, urgency);
    }

    /// The provider that has it, or will have it.
    fn provider_of_snapshot(&self, snapshot: &VMSnapshot) -> Option<ObjectKey> {
        let own = snapshot.metadata.namespace.as_deref().unwrap_or_default();
        if let Some(vm) = snapshot.status.as_ref().and_then(|s| s.vm.as_ref()) {
            let provider = &vm.provider_ref;
            return Some(ObjectKey::new(provider.namespace_or(own), &provider.name));
        }
        let vm = self.stores.vms.get(&snapshot.vm())?;
        Some(provider_of(&vm))
    }

    pub(super) fn wake_snapshots_of(&self, vm: &ObjectKey, urgency: Urgency) {
        for key in self.stores.snapshot_index.of(vm) {
            self.wake_snapshot(&key, urgency);
        }
    }

    /// A Provider came, went, or answers again: its snapshots outlive the objects of their VMs, so they are looked for.
    pub(super) fn wake_snapshots_on(&self, provider: &ObjectKey) {
        for snapshot in self.stores.snapshots.list() {
            if self.provider_of_snapshot(&snapshot).as_ref() == Some(provider) {
                self.wake_snapshot(&ObjectKey::of(&*snapshot), Urgency::Background);
            }
        }
    }
}

/// Whether snapshots of the VM have to know: it came, went, or got its VM.
pub(super) fn vm_moved(old: Option<&VirtualMachine>, new: Option<&VirtualMachine>) -> bool {
    let id = |vm: &VirtualMachine| vm.status.as_ref().and_then(|s| s.id.clone());
    let place = |vm| (is_made(vm), id(vm));
    match (old, new) {
        (Some(old), Some(new)) => place(old) != place(new) || deletion_moved(old, new),
        _ => true,
    }
}

/// Our own status writes do not concern us.
fn concerns_us(old: &VMSnapshot, new: &VMSnapshot) -> bool {
    old.metadata.generation != new.metadata.generation
        || old.metadata.annotations != new.metadata.annotations
        || old.metadata.finalizers != new.metadata.finalizers
        || deletion_moved(old, new)
}

/// As far as a VM cares that is to go back to it.
fn usable(snapshot: &VMSnapshot) -> (Option<SnapshotPhase>, Option<&str>, bool) {
    let status = snapshot.status.as_ref();
    (
        status.and_then(|s| s.phase),
        status.and_then(|s| s.snapshot_id.as_deref()),
        snapshot.metadata.deletion_timestamp.is_some(),
    )
}

/// As far as a VM cares that is to go.
fn keeps(snapshot: &VMSnapshot) -> (bool, bool) {
    let retention = snapshot.spec.retention_policy.as_ref();
    (
        retention.is_some_and(|r| !r.delete_on_vm_delete),
        snapshot.metadata.deletion_timestamp.is_some(),
    )
}
