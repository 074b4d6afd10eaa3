//! Which VirtualMachines a thing concerns, without looking at all of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use polyvirt_api::infra::VirtualMachine;
use polyvirt_api::names;
use polyvirt_contract::{Identity, VmId};

use crate::runtime::key::ObjectKey;

/// Something that VirtualMachines refer to or are known by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The Provider that runs them.
    Provider(ObjectKey),
    /// Their class.
    Class(ObjectKey),
    /// Their image.
    Image(ObjectKey),
    /// One of their networks.
    Network(ObjectKey),
    /// The policy that chooses their places.
    Policy(ObjectKey),
    /// A Secret with user data.
    Secret(ObjectKey),
    /// The snapshot that they are to go back to.
    Snapshot(ObjectKey),
    /// The identity on the hypervisor.
    Identity(Identity),
    /// The VM's id on a provider.
    Vm(ObjectKey, VmId),
}

/// The reverse of all references.
#[derive(Default)]
pub struct VmIndex {
    users: Mutex<HashMap<Target, BTreeSet<ObjectKey>>>,
}

/// The Provider that a VirtualMachine names.
pub fn provider_of(vm: &VirtualMachine) -> ObjectKey {
    let own = vm.metadata.namespace.as_deref().unwrap_or_default();
    ObjectKey::new(
        vm.spec.provider_ref.namespace_or(own),
        &vm.spec.provider_ref.name,
    )
}

/// Everything that a VirtualMachine refers to or is known by.
pub fn targets(vm: &VirtualMachine) -> Vec<Target> {
    let own = vm.metadata.namespace.as_deref().unwrap_or_default();
    let key = |r: &polyvirt_api::infra::ObjectRef| ObjectKey::new(r.namespace_or(own), &r.name);
    let provider = provider_of(vm);
    let mut list = vec![Target::Provider(provider.clone())];
    list.extend(vm.spec.class_ref.as_ref().map(|r| Target::Class(key(r))));
    list.extend(vm.spec.image_ref.as_ref().map(|r| Target::Image(key(r))));
    list.extend(
        vm.spec
            .networks
            .iter()
            .filter_map(|n| n.network_ref.as_ref())
            .map(|r| Target::Network(key(r))),
    );
    let policy = vm.spec.placement_ref.as_ref();
    list.extend(policy.map(|r| Target::Policy(ObjectKey::new(own, &r.name))));
    list.extend(
        secrets(vm)
            .into_iter()
            .map(|name| Target::Secret(ObjectKey::new(own, name))),
    );
    let snapshot = polyvirt_plan::virtual_machine::revert::wanted(vm);
    list.extend(snapshot.map(|name| Target::Snapshot(ObjectKey::new(own, name))));
    let identity = vm
        .metadata
        .annotations
        .as_ref()
        .and_then(|a| a.get(names::IDENTITY_ANNOTATION));
    list.extend(identity.map(|i| Target::Identity(Identity::from(i.as_str()))));
    let id = vm
        .status
        .as_ref()
        .and_then(|s| s.id.as_deref())
        .and_then(VmId::non_empty);
    list.extend(id.map(|id| Target::Vm(provider, id)));
    list
}

fn secrets(vm: &VirtualMachine) -> Vec<&str> {
    let user = vm.spec.user_data.as_deref();
    let cloud_init = [
        user.and_then(|u| u.cloud_init.as_ref()),
        vm.spec
            .meta_data
            .as_deref()
            .and_then(|m| m.cloud_init.as_ref()),
        vm.spec
            .network_data
            .as_deref()
            .and_then(|n| n.cloud_init.as_ref()),
    ];
    let ignition = user
        .and_then(|u| u.ignition.as_ref())
        .and_then(|i| i.secret_ref.as_ref());
    let named = cloud_init
        .into_iter()
        .flatten()
        .filter_map(|c| c.secret_ref.as_ref());
    named.chain(ignition).map(|r| r.name.as_str()).collect()
}

impl VmIndex {
    fn lock(&self) -> MutexGuard<'_, HashMap<Target, BTreeSet<ObjectKey>>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces what the older version referred to by what the newer one does, and returns what is new or gone.
    pub fn update(
        &self,
        key: &ObjectKey,
        old: Option<&VirtualMachine>,
        new: Option<&VirtualMachine>,
    ) -> Vec<Target> {
        let before = old.map(targets).unwrap_or_default();
        let after = new.map(targets).unwrap_or_default();
        let mut users = self.lock();
        let mut moved = Vec::new();
        for gone in before.iter().filter(|t| !after.contains(t)) {
            remove(&mut users, gone, key);
            moved.push(gone.clone());
        }
        for fresh in after.into_iter().filter(|t| !before.contains(t)) {
            users.entry(fresh.clone()).or_default().insert(key.clone());
            moved.push(fresh);
        }
        moved
    }

    /// The VirtualMachines that refer to the target.
    pub fn users(&self, target: &Target) -> Vec<ObjectKey> {
        self.lock()
            .get(target)
            .map(|set| set.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// How many VirtualMachines refer to the target.
    pub fn count(&self, target: &Target) -> usize {
        self.lock().get(target).map_or(0, BTreeSet::len)
    }

    /// Some of those that refer to the target, for a message.
    pub fn some_users(&self, target: &Target, most: usize) -> Vec<ObjectKey> {
        self.lock()
            .get(target)
            .map(|set| set.iter().take(most).cloned().collect())
            .unwrap_or_default()
    }
}

fn remove(users: &mut HashMap<Target, BTreeSet<ObjectKey>>, target: &Target, key: &ObjectKey) {
    let Some(set) = users.get_mut(target) else {
        return;
    };
    set.remove(key);
    if set.is_empty() {
        users.remove(target);
    }
}

#[cfg(test)]
mod tests {
    use polyvirt_api::infra::{ObjectRef, VirtualMachineSpec};

    use super::*;

    fn vm(class: &str) -> VirtualMachine {
        let mut vm = VirtualMachine::new("a", VirtualMachineSpec::default());
        vm.metadata.namespace = Some("ns".into());
        vm.spec.provider_ref = ObjectRef {
            name: "p".into(),
            namespace: Some("infra".into()),
        };
        vm.spec.class_ref = Some(ObjectRef::local(class));
        vm
    }

    #[test]
    fn references_follow_the_object() {
        let index = VmIndex::default();
        let key = ObjectKey::new("ns", "a");
        index.update(&key, None, Some(&vm("small")));
        let class = |name: &str| Target::Class(ObjectKey::new("ns", name));
        assert_eq!(index.users(&class("small")), vec![key.clone()]);
        assert_eq!(
            index.count(&Target::Provider(ObjectKey::new("infra", "p"))),
            1
        );
        let moved = index.update(&key, Some(&vm("small")), Some(&vm("large")));
        assert_eq!(moved, vec![class("small"), class("large")]);
        assert_eq!(index.count(&class("small")), 0);
        index.update(&key, Some(&vm("large")), None);
        assert!(index.users(&class("large")).is_empty());
    }
}
