//! Who is to be looked at when a VMMigration changes, and which VMMigrations when something else does.

use polyvirt_api::infra::{VMMigration, VirtualMachine};
use polyvirt_plan::migration::record::is_open;

use super::{Dispatcher, Source, deletion_moved, urgency};
use crate::runtime::key::{Key, Kind, ObjectKey};
use crate::runtime::queue::{Lane, Urgency};
use crate::runtime::store::Change;
use crate::runtime::vm_index::provider_of;
use crate::subject::{AboutVm, is_over};

impl Dispatcher {
    /// A VMMigration changed.
    pub fn migration_changed(&self, change: &Change<VMMigration>, source: Source) {
        let (old, new) = match change {
            Change::Added(new) => (None, Some(new)),
            Change::Updated { old, new } => (Some(old), Some(new)),
            Change::Removed(old) => (Some(old), None),
        };
        let Some(any) = new.or(old) else { return };
        let key = ObjectKey::of(&**any);
        let (old, new) = (old.map(|m| &**m), new.map(|m| &**m));
        // What is over concerns nobody.
        let named = |m: Option<&VMMigration>| m.filter(|m| !is_over(m)).map(AboutVm::vm);
        let index = &self.stores.migration_index;
        index.update(&key, named(old), named(new));
        if old.is_some_and(is_open) != new.is_some_and(is_open) && source != Source::FirstList {
            // Its VM may be changed again, or no longer; and the next in the line may begin.
            self.wake_vm(&any.vm(), Urgency::Event);
        }
        if old.map(shown) != new.map(shown) {
            let vm = any.vm();
            self.followers.iter().for_each(|f| f.vm_changed(&vm));
        }
        match (old, new) {
            (Some(old), Some(new)) if !concerns_us(old, new) => {}
            (_, Some(_)) if source != Source::OurWrite => self.wake_move(&key, urgency(source)),
            (_, None) => self.wake_move(&key, Urgency::Event),
            _ => {}
        }
    }

    pub(super) fn wake_move(&self, key: &ObjectKey, urgency: Urgency) {
        let migration = self.stores.migrations.get(key);
        let vm = migration.and_then(|m| self.stores.vms.get(&m.vm()));
        let lane = vm.map_or(Lane::Control, |vm| Lane::Provider(provider_of(&vm)));
        let key = Key::new(Kind::VMMigration, key.clone());
        self.queue.add(key, lane, urgency);
    }

    pub(super) fn wake_moves_of(&self, vm: &ObjectKey, urgency: Urgency) {
        for key in self.stores.migration_index.of(vm) {
            self.wake_move(&key, urgency);
        }
    }

    /// A Provider came, went, or answers again. Moves outlive the objects of their VMs, so all that are not over look.
    pub(super) fn wake_moves(&self) {
        for key in self.stores.migration_index.all() {
            self.wake_move(&key, Urgency::Background);
        }
    }
}

/// Whether moves of the VM have to know: it came, went, began to be changed or ceased to be.
pub(super) fn vm_moved(old: Option<&VirtualMachine>, new: Option<&VirtualMachine>) -> bool {
    let standing = |vm: &VirtualMachine| {
        let status = vm.status.clone().unwrap_or_default();
        let settled = status.observed_generation == vm.metadata.generation;
        let busy = status.operation.is_some();
        (status.phase, status.power_state, status.id, settled, busy)
    };
    match (old, new) {
        (Some(old), Some(new)) => standing(old) != standing(new) || deletion_moved(old, new),
        _ => true,
    }
}

/// Our own status writes do not concern us.
fn concerns_us(old: &VMMigration, new: &VMMigration) -> bool {
    old.metadata.generation != new.metadata.generation
        || old.metadata.annotations != new.metadata.annotations
        || old.metadata.finalizers != new.metadata.finalizers
        || deletion_moved(old, new)
}

/// As far as those care who show a VM.
fn shown(migration: &VMMigration) -> (bool, Option<i32>, Option<String>) {
    let status = migration.status.clone().unwrap_or_default();
    let percent = status.progress.and_then(|p| p.percentage);
    (is_over(migration), percent, status.message)
}
