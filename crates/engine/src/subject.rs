//! The VM that a VMSnapshot or a VMMigration is about, as the caches have it.

use polyvirt_api::infra::{VMMigration, VMPhase, VMSnapshot, VirtualMachine};
use polyvirt_contract::VmId;
use polyvirt_plan::snapshot::VmPlace;
use polyvirt_plan::virtual_machine::record::identity;

use crate::context::Context;
use crate::runtime::key::ObjectKey;
use crate::runtime::vm_index::provider_of;
use crate::virtual_machine::reach::{Reach, reach};

/// An object that is about one VirtualMachine of its namespace.
pub trait AboutVm {
    /// That VirtualMachine.
    fn vm(&self) -> ObjectKey;
}

impl AboutVm for VMSnapshot {
    fn vm(&self) -> ObjectKey {
        let own = self.metadata.namespace.as_deref().unwrap_or_default();
        ObjectKey::new(own, &self.spec.vm_ref.name)
    }
}

impl AboutVm for VMMigration {
    fn vm(&self) -> ObjectKey {
        let own = self.metadata.namespace.as_deref().unwrap_or_default();
        ObjectKey::new(own, &self.spec.source.vm_ref.name)
    }
}

/// Whether how a move ended is written down.
pub fn is_over(migration: &VMMigration) -> bool {
    let status = migration.status.as_ref();
    let moved = status.and_then(|s| s.host_move.as_deref());
    moved.is_some_and(|m| m.result.is_some())
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

/// Where the VM of a VirtualMachine is, once it was made.
pub(crate) fn place_of(vm: &VirtualMachine) -> Option<VmPlace> {
    let id = vm.status.as_ref()?.id.clone().filter(|_| is_made(vm));
    let provider = provider_of(vm);
    Some(VmPlace {
        provider_namespace: provider.namespace().to_owned(),
        provider: provider.name().to_owned(),
        id: id.and_then(VmId::non_empty)?,
        identity: identity(vm),
    })
}

/// The Provider that has it.
pub(crate) fn provider_key(vm: &VmPlace) -> ObjectKey {
    ObjectKey::new(&vm.provider_namespace, &vm.provider)
}

/// How that Provider is reached.
pub(crate) fn reach_of(ctx: &Context, provider: Option<ObjectKey>) -> Reach {
    let Some(key) = provider else {
        return Reach::Missing;
    };
    let exists = ctx.stores.providers.get(&key).is_some();
    reach(ctx.links.get(&key), exists, ctx.now())
}
