//! The beginning of a pass: the object, its VirtualMachine and what the provider told, from the caches alone.

use std::sync::Arc;

use polyvirt_api::infra::{VMSnapshot, VirtualMachine};
use polyvirt_contract::model::{Owner, VmRef, VmState};
use polyvirt_plan::snapshot::desired::{hypervisor_name, resolve};
use polyvirt_plan::snapshot::schedule::{Hold, hold, maker, newest};
use polyvirt_plan::snapshot::{Intent, Maker, Record, VmFacts, VmPlace, record};
use polyvirt_plan::virtual_machine::record::identity;
use polyvirt_plan::virtual_machine::revert::wanted;

use super::{Pass, Seen};
use crate::context::Context;
use crate::runtime::key::{Key, Kind, ObjectKey};
use crate::runtime::vm_index::provider_of;
use crate::subject::{AboutVm as _, place_of, provider_key, reach_of};
use crate::virtual_machine::reach::Reach;

impl<'a> Pass<'a> {
    /// Reads everything; asks nobody.
    pub(super) fn load(ctx: &'a Context, key: &ObjectKey, object: Arc<VMSnapshot>) -> Self {
        let record = record::record(&object);
        let named = ObjectKey::new(key.namespace(), &object.spec.vm_ref.name);
        let vm = ctx.stores.vms.get(&named);
        let place = vm.as_deref().and_then(place_of);
        let provider = record.vm.as_ref().map(provider_key);
        let provider = provider.or_else(|| vm.as_deref().map(provider_of));
        let mut pass = Self {
            ctx,
            key: Key::new(Kind::VMSnapshot, key.clone()),
            name: hypervisor_name(&object),
            vm: standing(vm.as_deref(), place.as_ref(), &record),
            hold: held(ctx, &object, vm.as_deref().and_then(wanted)),
            maker: maker_of(ctx, &object),
            place,
            reach: reach_of(ctx, provider),
            desired: resolve(&object),
            record,
            intent: Intent::Earlier,
            seen: Seen::Unknown,
            notes: Vec::new(),
            object,
        };
        pass.seen = pass.told();
        pass
    }

    fn told(&self) -> Seen {
        let (Reach::Ready(ready), Some(vm)) = (&self.reach, &self.record.vm) else {
            return Seen::Unknown;
        };
        let (synced, found) = ready.link.seen(|seen| (seen.synced(), seen.get(&vm.id)));
        match found {
            _ if !synced => Seen::Unknown,
            None => Seen::Silent,
            Some(state) => self.judge(state),
        }
    }

    /// A VM that carries another identity is not the one that the snapshot is of.
    pub(super) fn judge(&self, state: Arc<VmState>) -> Seen {
        let ours = self.record.vm.as_ref().map(|vm| &vm.identity);
        match &state.owner {
            Some(owner) if Some(&owner.identity) != ours => Seen::NoVm,
            _ => Seen::Vm(state),
        }
    }

    /// The VM to act on, on behalf of its VirtualMachine.
    pub(super) fn vm_ref(&self) -> Option<VmRef> {
        let vm = self.record.vm.as_ref()?;
        let owner = Owner {
            identity: vm.identity.clone(),
            namespace: self.key.object.namespace().to_owned(),
            name: self.object.spec.vm_ref.name.clone(),
        };
        Some(VmRef {
            id: vm.id.clone(),
            owner: Some(owner),
        })
    }
}

/// The newest of a schedule does not go for its age.
fn held(ctx: &Context, object: &VMSnapshot, revert_to: Option<&str>) -> Hold {
    if maker_of(ctx, object) == Maker::Schedule && is_newest(ctx, object) {
        return Hold::Kept;
    }
    hold(object, revert_to)
}

fn is_newest(ctx: &Context, object: &VMSnapshot) -> bool {
    let Some((_, schedule)) = maker(object) else {
        return false;
    };
    let stores = &ctx.stores;
    let keys = stores.snapshot_index.of(&object.vm()).into_iter();
    let all: Vec<_> = keys.filter_map(|key| stores.snapshots.get(&key)).collect();
    let found = newest(all.iter().map(AsRef::as_ref), schedule);
    found.is_some() && found == object.metadata.uid
}

/// Where nobody collects what has lost its owner, that is done here.
fn maker_of(ctx: &Context, object: &VMSnapshot) -> Maker {
    let Some((name, uid)) = maker(object) else {
        return Maker::User;
    };
    let own = object.metadata.namespace.as_deref().unwrap_or_default();
    let schedule = ctx.stores.snapshots.get(&ObjectKey::new(own, name));
    match schedule {
        Some(schedule) if schedule.metadata.uid.as_deref() == Some(uid) => Maker::Schedule,
        _ => Maker::Gone,
    }
}

fn standing(vm: Option<&VirtualMachine>, place: Option<&VmPlace>, record: &Record) -> VmFacts {
    let Some(vm) = vm else {
        return VmFacts::Missing;
    };
    let recorded = record.vm.as_ref();
    if recorded.is_some_and(|then| then.identity != identity(vm)) {
        return VmFacts::Missing;
    }
    match place {
        _ if vm.metadata.deletion_timestamp.is_some() => VmFacts::Leaving,
        None => VmFacts::NotMade,
        Some(_) => VmFacts::Made,
    }
}
