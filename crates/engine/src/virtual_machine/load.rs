//! The beginning of a pass: the object and all that it refers to, from the caches alone.

use std::sync::Arc;

use polyvirt_api::infra::{
    Provider, VMClass, VMClassSpec, VMImage, VMNetworkAttachment, VMNetworkAttachmentSpec,
    VirtualMachine,
};
use polyvirt_contract::model::VmState;
use polyvirt_contract::{Capabilities, Extension, Identity};
use polyvirt_plan::honoured::{self, once};
use polyvirt_plan::snapshot::desired::keeps_vm;
use polyvirt_plan::virtual_machine::desired::{References, resolve};
use polyvirt_plan::virtual_machine::size::{differences, power_matches};
use polyvirt_plan::virtual_machine::{Claim, Desired, Operation, OperationKind, Record, record};
use polyvirt_plan::{Problem, Reason};

use super::pass::{Pass, Reach, Ready, Seen, reach};
use super::sharing;
use crate::context::Context;
use crate::next::Next;
use crate::runtime::key::ObjectKey;
use crate::runtime::vm_index::{Target, provider_of};

impl<'a> Pass<'a> {
    /// Reads everything; asks nobody. `refusal` is why the VM may not use what it names.
    pub fn load(
        ctx: &'a Context,
        key: &ObjectKey,
        vm: Arc<VirtualMachine>,
        refusal: Option<Problem>,
    ) -> Self {
        let identity = record::identity(&vm);
        let provider_key = provider_of(&vm);
        let provider = ctx.stores.providers.get(&provider_key);
        let reach = reach(ctx.links.get(&provider_key), provider.is_some(), ctx.now());
        let loaded = Loaded::load(ctx, &vm, provider);
        let rival = rival(ctx, key, &vm, &identity);
        let memo = ctx.memo(key);
        let unwritten = memo.unwritten.clone().filter(|u| u.uid == vm.metadata.uid);
        let (record, intent) = match unwritten {
            Some(known) => (known.record, known.intent),
            None => (record::record(&vm), record::intent(&vm)),
        };
        let mut pass = Self {
            ctx,
            key: key.clone(),
            generation: vm.metadata.generation,
            identity,
            claim: rival.is_some().then_some(Claim::Disputed),
            desired: Ok(Desired::default()),
            ignored_fields: Vec::new(),
            declared: once::Declared::new(),
            intent,
            revert: None,
            keeper: None,
            seen: Seen::Unknown,
            asked: None,
            memo,
            notes: Vec::new(),
            placed_now: false,
            come_again: refusal.as_ref().map(|_| Next::After(sharing::RECHECK)),
            record,
            reach,
            vm,
        };
        pass.resolve(&loaded, rival.map(|other| disputed(&other)).or(refusal));
        pass.load_revert();
        pass.keeper = pass.is_deleting().then(|| pass.find_keeper()).flatten();
        pass.load_hooks();
        pass.forget_refusal();
        pass.seen = pass.told();
        if let Seen::Present(vm) = pass.seen.clone() {
            // By its identity, perhaps: a create whose answer was lost.
            pass.found(&vm);
        }
        pass
    }

    fn resolve(&mut self, loaded: &Loaded, hindrance: Option<Problem>) {
        let capabilities = self
            .ready()
            .map(|r| r.capabilities.clone())
            .unwrap_or_default();
        self.desired = match hindrance {
            Some(problem) => Err(problem),
            None => loaded.resolve(&self.vm, &capabilities, &self.identity),
        };
        self.ignored_fields = match &self.reach {
            Reach::Ready(ready) => loaded.ignored(&self.vm, ready),
            _ => Vec::new(),
        };
        let unheard = self.unheard_wishes();
        self.ignored_fields.extend(unheard);
        self.declared = loaded.declared(&self.vm);
    }

    /// The first by name of the snapshots that are not to go with the VM.
    fn find_keeper(&self) -> Option<String> {
        let stores = &self.ctx.stores;
        let keys = stores.snapshot_index.of(&self.key).into_iter();
        let keepers = keys.filter(|key| {
            let found = stores.snapshots.get(key);
            found.is_some_and(|snapshot| keeps_vm(&snapshot, &self.identity))
        });
        keepers.map(|key| key.name().to_owned()).min()
    }

    /// What the provider's stream has told. Absence is believed only where acting on it is harmless: a create is then
    /// find-or-create. Everywhere else the provider is asked.
    fn told(&self) -> Seen {
        let Reach::Ready(ready) = &self.reach else {
            return Seen::Unknown;
        };
        if self.claim == Some(Claim::Disputed) || self.is_behind(ready) {
            return Seen::Unknown;
        }
        let (synced, found) = ready.link.seen(|seen| {
            let by_id = self.record.id.as_ref().and_then(|id| seen.get(id));
            let found = by_id.or_else(|| seen.find(&self.identity));
            let found = found.map(|vm| (vm.clone(), seen.is_described(&vm.id)));
            (seen.synced(), found)
        });
        if !synced {
            return Seen::Unknown;
        }
        match found {
            Some((vm, described)) if !described && self.seems_changed(ready, &vm) => Seen::Unknown,
            Some((vm, _)) => self.judge(vm),
            None if self.may_believe_absence(ready) => Seen::Absent,
            None => Seen::Unknown,
        }
    }

    /// Whether a list shows the VM otherwise than it was brought to. A list may tell less than the VM's own answer, or something
    /// else: before a change is reported or corrected, the VM is asked for.
    fn seems_changed(&self, ready: &Ready, vm: &VmState) -> bool {
        let Ok(desired) = &self.desired else {
            return false;
        };
        let reached = self.record.applied.reached.is_some();
        let same = differences(&desired.shape(), vm).is_empty()
            && power_matches(desired.power, vm.power) != Some(false);
        reached && !same && !ready.features.has(Extension::Watch)
    }

    /// Whether a change that we sent has not shown: the stream may lag behind, so the provider is asked. A create that finds
    /// what is there can be sent again without a question.
    fn is_behind(&self, ready: &Ready) -> bool {
        let harmless =
            |kind| kind == OperationKind::Create && ready.features.has(Extension::Identity);
        let sent = self.memo.sent.as_ref();
        sent.is_some_and(|(sent, _)| !harmless(sent.kind)) || self.may_turn_unseen(ready)
    }

    /// A guest that was asked to stop does so when it likes, and what a manager sent before it died shows when it may; a
    /// list is up to a minute old.
    fn may_turn_unseen(&self, ready: &Ready) -> bool {
        let Record {
            id,
            operation,
            applied,
            ..
        } = &self.record;
        let stopping = |o: &Operation| o.kind == OperationKind::GracefulStop;
        let unsettled = id.is_some() && applied.power.is_none();
        (unsettled || operation.as_ref().is_some_and(stopping))
            && !ready.features.has(Extension::Watch)
    }

    fn may_believe_absence(&self, ready: &Ready) -> bool {
        let Record { id, operation, .. } = &self.record;
        !self.is_deleting()
            && id.is_none()
            && operation.is_none()
            && ready.features.has(Extension::Identity)
    }

    /// Ours, or somebody else's.
    pub(super) fn judge(&self, vm: Arc<VmState>) -> Seen {
        match &vm.owner {
            Some(owner) if owner.identity != self.identity => Seen::Stranger(vm),
            _ => Seen::Present(vm),
        }
    }
}

/// What the object refers to, held alive for the pass.
struct Loaded {
    provider: Option<Arc<Provider>>,
    class: Option<Arc<VMClass>>,
    image: Option<Arc<VMImage>>,
    networks: Vec<Option<Arc<VMNetworkAttachment>>>,
}

impl Loaded {
    fn load(ctx: &Context, vm: &VirtualMachine, provider: Option<Arc<Provider>>) -> Self {
        let own = vm.metadata.namespace.as_deref().unwrap_or_default();
        let key = |r: &polyvirt_api::infra::ObjectRef| ObjectKey::new(r.namespace_or(own), &r.name);
        let stores = &ctx.stores;
        Self {
            provider,
            class: vm
                .spec
                .class_ref
                .as_ref()
                .and_then(|r| stores.classes.get(&key(r))),
            image: vm
                .spec
                .image_ref
                .as_ref()
                .and_then(|r| stores.images.get(&key(r))),
            networks: vm
                .spec
                .networks
                .iter()
                .map(|n| {
                    n.network_ref
                        .as_ref()
                        .and_then(|r| stores.networks.get(&key(r)))
                })
                .collect(),
        }
    }

    fn resolve(
        &self,
        vm: &VirtualMachine,
        capabilities: &Capabilities,
        identity: &Identity,
    ) -> Result<Desired, Problem> {
        let networks: Vec<_> = self.networks.iter().map(Option::as_deref).collect();
        let references = References {
            provider: self.provider.as_deref(),
            class: self.class.as_deref(),
            image: self.image.as_deref(),
            networks: &networks,
            capabilities,
            identity,
        };
        resolve(vm, &references)
    }

    fn ignored(&self, vm: &VirtualMachine, ready: &Ready) -> Vec<String> {
        let in_use = honoured::fields_in_use(&vm.spec, self.class_of(vm), &self.attachments());
        honoured::ignored(&in_use, &ready.features)
    }

    fn declared(&self, vm: &VirtualMachine) -> once::Declared {
        once::declared(&vm.spec, self.class_of(vm), &self.attachments())
    }

    fn class_of<'c>(&'c self, vm: &'c VirtualMachine) -> Option<&'c VMClassSpec> {
        let inline = vm.spec.class.as_deref();
        inline.or_else(|| self.class.as_deref().map(|class| &class.spec))
    }

    fn attachments(&self) -> Vec<(usize, &VMNetworkAttachmentSpec)> {
        let networks = self.networks.iter().enumerate();
        networks
            .filter_map(|(i, n)| n.as_deref().map(|n| (i, &n.spec)))
            .collect()
    }
}

/// Another object that carries our identity and has the better right to it.
fn rival(
    ctx: &Context,
    key: &ObjectKey,
    vm: &VirtualMachine,
    identity: &Identity,
) -> Option<ObjectKey> {
    let others = ctx.stores.index.users(&Target::Identity(identity.clone()));
    others
        .into_iter()
        .filter(|other| other != key)
        .find(|other| {
            ctx.stores
                .vms
                .get(other)
                .is_some_and(|rival| claim(&rival) < claim(vm))
        })
}

/// The object whose UID is the identity comes first, then the older one, then the one whose name sorts first.
fn claim(vm: &VirtualMachine) -> (bool, Option<jiff::Timestamp>, ObjectKey) {
    let own = vm.metadata.uid.as_deref() == Some(record::identity(vm).as_str());
    let born = vm.metadata.creation_timestamp.as_ref().map(|t| t.0);
    (!own, born, ObjectKey::of(vm))
}

fn disputed(other: &ObjectKey) -> Problem {
    Problem::new(
        Reason::IdentityConflict,
        "metadata.annotations[polyvirt.io/identity]",
        format!(
            "VirtualMachine {other} carries the same identity. Remove the annotation from the copy, or delete the copy"
        ),
    )
}
