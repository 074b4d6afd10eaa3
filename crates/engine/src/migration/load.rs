//! The beginning of a pass: the object, its VirtualMachine and what the provider told, from the caches alone.

use std::sync::Arc;

use polyvirt_api::infra::{VMMigration, VirtualMachine};
use polyvirt_contract::model::{Owner, VmRef, VmState};
use polyvirt_plan::migration::desired::{resolve, with_pool};
use polyvirt_plan::migration::{Intent, Quiet, Record, VmFacts, record};
use polyvirt_plan::snapshot::VmPlace;
use polyvirt_plan::virtual_machine::record::identity;

use super::{Pass, Seen};
use crate::context::Context;
use crate::host::rules::pool_migration;
use crate::runtime::key::{Key, Kind, ObjectKey};
use crate::runtime::vm_index::provider_of;
use crate::subject::{AboutVm as _, is_made, place_of, provider_key, reach_of};
use crate::virtual_machine::reach::Reach;

impl<'a> Pass<'a> {
    /// Reads everything; asks nobody.
    pub(super) fn load(ctx: &'a Context, key: &ObjectKey, object: Arc<VMMigration>) -> Self {
        let record = record::record(&object);
        let vm = ctx.stores.vms.get(&object.vm());
        let home = record.vm.as_ref().map(provider_key);
        let home = home.or_else(|| vm.as_deref().map(provider_of));
        let named = home.as_ref().map(|key| (key.namespace(), key.name()));
        let desired = resolve(&object, named);
        let pool = vm.as_deref().and_then(|vm| pool_migration(ctx, vm));
        let desired = match &pool {
            Some(pool) => desired.map(|desired| with_pool(desired, &object, pool)),
            None => desired,
        };
        let mut pass = Self {
            ctx,
            key: Key::new(Kind::VMMigration, key.clone()),
            vm: standing(vm.as_deref(), &record),
            place: vm.as_deref().and_then(place_of),
            reach: reach_of(ctx, home),
            desired,
            intent: Intent::Earlier,
            seen: Seen::Unknown,
            failure: None,
            quiet: Quiet::Unknown,
            notes: Vec::new(),
            come_again: None,
            record,
            object,
        };
        pass.seen = pass.told();
        pass
    }

    /// What the stream has told is good enough to begin with. Once a request may have been sent, the provider is asked: the
    /// stream may lag behind.
    fn told(&self) -> Seen {
        let (Reach::Ready(ready), Some(vm), None) = (&self.reach, &self.place, &self.record.vm)
        else {
            return Seen::Unknown;
        };
        let found = ready
            .link
            .seen(|seen| seen.get(&vm.id).filter(|_| seen.synced()));
        found.map_or(Seen::Unknown, |state| self.judge(state))
    }

    /// A VM that carries another identity is not the one that moves.
    pub(super) fn judge(&self, state: Arc<VmState>) -> Seen {
        let ours = self.subject().map(|vm| &vm.identity);
        match &state.owner {
            Some(owner) if Some(&owner.identity) != ours => Seen::NoVm,
            _ => Seen::Vm(state),
        }
    }

    /// The VM that moves, or is to.
    pub(super) fn subject(&self) -> Option<&VmPlace> {
        self.record.vm.as_ref().or(self.place.as_ref())
    }

    /// The VM to act on, on behalf of its VirtualMachine.
    pub(super) fn vm_ref(&self) -> Option<VmRef> {
        let vm = self.subject()?;
        let owner = Owner {
            identity: vm.identity.clone(),
            namespace: self.key.object.namespace().to_owned(),
            name: self.object.spec.source.vm_ref.name.clone(),
        };
        Some(VmRef {
            id: vm.id.clone(),
            owner: Some(owner),
        })
    }

    /// Another object whose move of the same VM is under way.
    pub(super) fn rival(&self) -> Option<String> {
        let stores = &self.ctx.stores;
        let keys = stores.migration_index.of(&self.object.vm()).into_iter();
        let others = keys.filter(|key| *key != self.key.object);
        let mut open = others
            .filter_map(|key| stores.migrations.get(&key))
            .filter(|other| record::is_open(other));
        open.next().and_then(|other| other.metadata.name.clone())
    }
}

fn standing(vm: Option<&VirtualMachine>, record: &Record) -> VmFacts {
    let Some(vm) = vm else {
        return VmFacts::Missing;
    };
    let another = |then: &VmPlace| then.identity != identity(vm);
    if record.vm.as_ref().is_some_and(another) {
        return VmFacts::Missing;
    }
    if vm.metadata.deletion_timestamp.is_some() {
        return VmFacts::Leaving;
    }
    if !is_made(vm) {
        return VmFacts::NotMade;
    }
    let status = vm.status.clone().unwrap_or_default();
    let edited = status.observed_generation != vm.metadata.generation;
    if status.operation.is_some() || edited {
        return VmFacts::Busy;
    }
    VmFacts::Made
}
