//! Whose a VM is. Two objects never own one VM, whatever a provider answers or a status says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use polyvirt_api::infra::VirtualMachine;
use polyvirt_contract::model::{Owner, VmState};
use polyvirt_contract::{ErrorKind, ProviderError, VmId};
use polyvirt_plan::virtual_machine::record;

use super::load::claim;
use super::pass::{Flow, Pass, Seen};
use crate::runtime::key::ObjectKey;
use crate::runtime::vm_index::{Target, provider_of};

/// Ids that providers gave out and that no status has yet: two creates may be answered with the same id at the same time.
#[derive(Debug, Default)]
pub struct Reservations {
    by_object: Mutex<HashMap<ObjectKey, (ObjectKey, VmId)>>,
}

impl Reservations {
    /// Reserves the VM of a provider for an object. `Some` is another object that was faster.
    fn take(&self, object: &ObjectKey, provider: &ObjectKey, id: &VmId) -> Option<ObjectKey> {
        let mut all = self
            .by_object
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let same = |(other, taken): &(&ObjectKey, &(ObjectKey, VmId))| {
            *other != object && (&taken.0, &taken.1) == (provider, id)
        };
        let other = all.iter().find(same).map(|(other, _)| other.clone());
        if other.is_none() {
            all.insert(object.clone(), (provider.clone(), id.clone()));
        }
        other
    }

    /// The object's id is in its status, or the object is gone.
    pub fn free(&self, object: &ObjectKey) {
        let mut all = self
            .by_object
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.remove(object);
    }
}

impl Pass<'_> {
    /// The VM that the status names, unless it is another's and there is one that carries our identity: a status can be wrong, and
    /// heals like one that was lost.
    pub(super) fn better(
        &self,
        by_id: Option<Arc<VmState>>,
        own: Option<Arc<VmState>>,
    ) -> Option<Arc<VmState>> {
        match (by_id, own) {
            (Some(vm), Some(own)) if self.is_anothers(&vm) => Some(own),
            (by_id, own) => by_id.or(own),
        }
    }

    /// Whether the VM carries the identity of another object.
    pub(super) fn is_anothers(&self, vm: &VmState) -> bool {
        let owner = vm.owner.as_ref();
        owner.is_some_and(|owner| owner.identity != self.identity)
    }

    /// Ours, or somebody else's. A VM that carries no mark is that of the object which had it first.
    pub(super) fn judge(&self, vm: Arc<VmState>) -> Seen {
        if self.is_anothers(&vm) {
            return Seen::Stranger(vm);
        }
        let holder = vm.owner.is_none().then(|| self.holder(&vm.id)).flatten();
        match holder {
            Some(other) => Seen::Stranger(Arc::new(owned_by(&vm, &other))),
            None => Seen::Present(vm),
        }
    }

    /// Another object of the same Provider that has the VM, with the better right to it.
    fn holder(&self, id: &VmId) -> Option<Arc<VirtualMachine>> {
        let stores = &self.ctx.stores;
        let have = Target::Vm(provider_of(&self.vm), id.clone());
        let others = stores.index.users(&have).into_iter();
        let others = others.filter(|other| *other != self.key);
        let mut others = others.filter_map(|other| stores.vms.get(&other));
        let mine = self.vm.status.as_ref().and_then(|s| s.id.as_deref()) == Some(id.as_str());
        others.find(|other| !mine || claim(other) < claim(&self.vm))
    }

    /// Reserves the id that a create was answered with. `Err` if it is the VM of another object.
    pub(super) fn reserve(&self, id: &VmId) -> Result<(), ObjectKey> {
        let provider = provider_of(&self.vm);
        let reservations = &self.ctx.reservations;
        if let Some(other) = reservations.take(&self.key, &provider, id) {
            return Err(other);
        }
        match self.holder(id) {
            Some(other) => {
                reservations.free(&self.key);
                Err(ObjectKey::of(&*other))
            }
            None => Ok(()),
        }
    }

    /// The create was answered with the VM of another object: the answer is worth nothing.
    pub(super) fn usurped(&mut self, id: &VmId, other: &ObjectKey) -> Flow {
        let text = format!(
            "The provider answered the create with VM {id}, which belongs to VirtualMachine {other}; it is not used for this object. \
             Check the provider"
        );
        let error = ProviderError::new(ErrorKind::IdentityConflict, text);
        self.create_failed(error)
    }
}

/// The VM as its holder would have marked it, for people.
fn owned_by(vm: &VmState, holder: &VirtualMachine) -> VmState {
    let owner = Owner {
        identity: record::identity(holder),
        namespace: holder.metadata.namespace.clone().unwrap_or_default(),
        name: holder.metadata.name.clone().unwrap_or_default(),
    };
    VmState {
        owner: Some(owner),
        ..vm.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_reserved_for_one_object_of_a_provider() {
        let all = Reservations::default();
        let key = |name| ObjectKey::new("team", name);
        let (hv, id) = (key("hv"), VmId::from("vm-1"));
        assert_eq!(all.take(&key("a"), &hv, &id), None);
        assert_eq!(all.take(&key("a"), &hv, &id), None);
        assert_eq!(all.take(&key("b"), &hv, &id), Some(key("a")));
        assert_eq!(all.take(&key("b"), &key("hv2"), &id), None);
        all.free(&key("a"));
        assert_eq!(all.take(&key("c"), &hv, &id), None);
    }
}
