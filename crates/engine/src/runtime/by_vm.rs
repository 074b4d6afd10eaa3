//! Which objects a VirtualMachine concerns.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::runtime::key::ObjectKey;

/// Objects of one kind by the VirtualMachine that they name.
#[derive(Default)]
pub struct ByVm {
    map: Mutex<HashMap<ObjectKey, BTreeSet<ObjectKey>>>,
}

impl ByVm {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, BTreeSet<ObjectKey>>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the VirtualMachine that the older version of an object named by that of the newer one.
    pub fn update(&self, key: &ObjectKey, before: Option<ObjectKey>, after: Option<ObjectKey>) {
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

    /// The objects that name a VirtualMachine.
    pub fn of(&self, vm: &ObjectKey) -> Vec<ObjectKey> {
        let map = self.lock();
        map.get(vm).into_iter().flatten().cloned().collect()
    }

    /// All that name one.
    pub fn all(&self) -> Vec<ObjectKey> {
        self.lock().values().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_follow_the_vm_that_they_name() {
        let key = |name| ObjectKey::new("ns", name);
        let index = ByVm::default();
        index.update(&key("s"), None, Some(key("a")));
        index.update(&key("s"), Some(key("a")), Some(key("a")));
        assert_eq!(index.of(&key("a")), [key("s")]);
        index.update(&key("s"), Some(key("a")), Some(key("b")));
        assert!(index.of(&key("a")).is_empty());
        assert_eq!(index.all(), [key("s")]);
        index.update(&key("s"), Some(key("b")), None);
        assert!(index.all().is_empty());
    }
}
