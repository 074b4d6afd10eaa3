//! VMs that found no host.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use crate::runtime::key::ObjectKey;

/// VMs that found no host, by Provider. They are looked at again when a place is taken or left there.
#[derive(Default)]
pub struct Unplaced(Mutex<HashMap<ObjectKey, BTreeSet<ObjectKey>>>);

impl Unplaced {
    /// The VM waits for a host of the provider.
    pub fn add(&self, provider: &ObjectKey, vm: &ObjectKey) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(provider.clone()).or_default().insert(vm.clone());
    }

    /// All that wait for hosts of any Provider.
    pub fn take_all(&self) -> BTreeSet<ObjectKey> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *all).into_values().flatten().collect()
    }

    /// All that wait. Whoever finds no host again is added again.
    pub fn take(&self, provider: &ObjectKey) -> BTreeSet<ObjectKey> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(provider).unwrap_or_default()
    }
}
