//! Which VMSnapshots a VirtualMachine concerns.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use polyvirt_api::infra::{VMPhase, VMSnapshot, VirtualMachine};

use crate::runtime::key::ObjectKey;

/// VMSnapshots by the VirtualMachine that they name.
#[derive(Default)]
pub struct SnapshotIndex {
    by_vm: Mutex<HashMap<ObjectKey, BTreeSet<ObjectKey>>>,
}

/// The VirtualMachine that a VMSnapshot names.
pub fn vm_of(snapshot: &VMSnapshot) -> ObjectKey {
    let own = snapshot.metadata.namespace.as_deref().unwrap_or_default();
    ObjectKey::new(own, &snapshot.spec.vm_ref.name)
}

/// Whether the VM is on the hypervisor and whole, as its status tells.
pub fn is_made(vm: &VirtualMachine) -> bool {
    let Some(status) = &vm.status else {
        return false;
    };
    let early = matches!(
        status.phase,
        None | Some(VMPhase::Pending | VMPhase::Provisioning)
    );
    status.id.is_some() && !early
}

impl SnapshotIndex {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, BTreeSet<ObjectKey>>> {
        self.by_vm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces what the older version named by what the newer one does.
    pub fn update(&self, key: &ObjectKey, old: Option<&VMSnapshot>, new: Option<&VMSnapshot>) {
        let (before, after) = (old.map(vm_of), new.map(vm_of));
        if before == after {
            return;
        }
        let mut map = self.lock();
        if let Some(vm) = before {
            let set = map.entry(vm.clone()).or_default();
            set.remove(key);
            if set.is_empty() {
                map.remove(&vm);
            }
        }
        if let Some(vm) = after {
            map.entry(vm).or_default().insert(key.clone());
        }
    }

    /// The VMSnapshots of a VirtualMachine.
    pub fn of(&self, vm: &ObjectKey) -> Vec<ObjectKey> {
        let map = self.lock();
        map.get(vm).into_iter().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use polyvirt_api::infra::{LocalRef, VMSnapshotSpec};

    use super::*;

    #[test]
    fn snapshots_follow_their_vm() {
        let mut object = VMSnapshot::new("s", VMSnapshotSpec::default());
        object.metadata.namespace = Some("ns".into());
        object.spec.vm_ref = LocalRef { name: "a".into() };
        let (key, vm) = (ObjectKey::new("ns", "s"), ObjectKey::new("ns", "a"));
        let index = SnapshotIndex::default();
        index.update(&key, None, Some(&object));
        index.update(&key, Some(&object), Some(&object));
        assert_eq!(index.of(&vm), vec![key.clone()]);
        index.update(&key, Some(&object), None);
        assert!(index.of(&vm).is_empty());
    }
}
