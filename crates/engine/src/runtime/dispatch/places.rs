//! Who is to be looked at when a VM takes a place or leaves one.

use std::collections::BTreeMap;

use polyvirt_api::infra::{PowerState, VMPlacementPolicy, VirtualMachine};

use super::{Dispatcher, Source};
use crate::runtime::key::{Kind, ObjectKey};
use crate::runtime::queue::Urgency;
use crate::runtime::store::Change;
use crate::runtime::vm_index::{Target, provider_of};

impl Dispatcher {
    /// A policy changed.
    pub fn policy_changed(&self, change: &Change<VMPlacementPolicy>, source: Source) {
        self.referenced(change, Kind::VMPlacementPolicy, Target::Policy, source);
    }

    /// A Provider was edited: a host may be open again, or promise more.
    pub(super) fn hosts_changed(&self, provider: &ObjectKey) {
        for vm in self.stores.unplaced.take(provider) {
            self.wake_vm(&vm, Urgency::Event);
        }
        self.wake_moves();
    }

    /// Labels of namespaces changed, by which VMs keep near to others or away from them.
    pub fn namespaces_changed(&self) {
        for vm in self.stores.unplaced.take_all() {
            self.wake_vm(&vm, Urgency::Background);
        }
        self.wake_moves();
    }

    /// VMs that found no host look again when another VM has left its place or taken one.
    pub(super) fn room_moved(&self, old: Option<&VirtualMachine>, new: Option<&VirtualMachine>) {
        if old.map(place) == new.map(place) {
            return;
        }
        let Some(any) = new.or(old) else { return };
        for vm in self.stores.unplaced.take(&provider_of(any)) {
            self.wake_vm(&vm, Urgency::Background);
        }
        self.wake_hosts_of(&provider_of(any));
        if let Some(policy) = &any.spec.placement_ref {
            let own = any.metadata.namespace.as_deref().unwrap_or_default();
            self.wake_later(Kind::VMPlacementPolicy, &ObjectKey::new(own, &policy.name));
        }
    }
}

type Place<'a> = (
    Option<&'a BTreeMap<String, String>>,
    [Option<&'a str>; 2],
    Option<PowerState>,
);

/// What others may see of a VM when they look for a host.
fn place(vm: &VirtualMachine) -> Place<'_> {
    let status = vm.status.as_ref();
    let chosen = status.and_then(|s| s.placement.as_ref()?.host.as_deref());
    let seen = status.and_then(|s| s.host.as_deref());
    let power = status.and_then(|s| s.power_state);
    (vm.metadata.labels.as_ref(), [chosen, seen], power)
}
