//! Asks the provider for the VM: by id, by identity, or by name.

use std::sync::Arc;

use polyvirt_contract::model::VmState;
use polyvirt_contract::{ErrorKind, Extension, ProviderError};
use polyvirt_plan::virtual_machine::desired::hypervisor_name;
use polyvirt_plan::virtual_machine::{Intent, Outcome};

use super::pass::{Flow, Pass, Reach, Ready, Seen};

impl Pass<'_> {
    /// Learns whether the VM is there. What the provider answers is the truth of its moment.
    pub(super) async fn look(&mut self) -> Flow {
        let Reach::Ready(ready) = &self.reach else {
            return Flow::Continue;
        };
        let asked = self.ctx.now();
        let found = match self.ask(ready).await {
            Ok(found) => found,
            Err(error) => return Flow::End(Outcome::Failed(error)),
        };
        self.asked = Some(asked);
        self.seen = match found {
            Found::Ours(vm) => self.take(vm),
            Found::Named(vm) => Seen::Stranger(Arc::new(vm)),
            Found::Nothing => {
                self.forget_absent();
                Seen::Absent
            }
        };
        Flow::Continue
    }

    async fn ask(&self, ready: &Ready) -> Result<Found, ProviderError> {
        if let Some(id) = &self.record.id
            && let Some(vm) = ready.provider.describe(id).await?
        {
            return Ok(Found::Ours(vm));
        }
        if ready.features.has(Extension::Identity) {
            let found = ready.provider.find(&self.identity).await?;
            return Ok(found.map_or(Found::Nothing, Found::Ours));
        }
        if self.record.id.is_some() {
            return Ok(Found::Nothing);
        }
        self.ask_by_name(ready).await
    }

    /// Without identities a VM of our name is ours only if we were about to create it, and had found the name free before.
    async fn ask_by_name(&self, ready: &Ready) -> Result<Found, ProviderError> {
        let spec = &self.vm.spec;
        let name = hypervisor_name(self.key.namespace(), self.key.name(), &spec.provider_ref);
        let list = match ready.provider.list_vms().await {
            Ok(list) => list,
            // Nothing more can be asked of such a provider.
            Err(error) if error.kind == ErrorKind::Unsupported => return Ok(Found::Nothing),
            Err(error) => return Err(error),
        };
        let found = list.into_iter().find(|vm| vm.name == name);
        Ok(match (found, self.intent) {
            (None, _) => Found::Nothing,
            (Some(vm), Intent::Missing) => Found::Named(vm),
            (Some(vm), Intent::JustWritten(_) | Intent::Older(_)) => Found::Ours(vm),
        })
    }

    fn take(&mut self, vm: VmState) -> Seen {
        let untouched = self.memo.sent.is_none();
        let vm = match &self.reach {
            // A list from before a change knows nothing of what came of it.
            Reach::Ready(ready) if untouched => ready.link.seen(|seen| seen.confirm(vm)),
            Reach::Ready(ready) => {
                let copy = vm.clone();
                ready.link.seen(|seen| seen.answer(copy));
                vm
            }
            _ => vm,
        };
        let seen = self.judge(Arc::new(vm));
        if let Seen::Present(vm) = &seen {
            self.found(vm);
        }
        seen
    }

    fn forget_absent(&self) {
        if let (Reach::Ready(ready), Some(id)) = (&self.reach, &self.record.id) {
            ready.link.seen(|seen| seen.absent(id));
        }
    }
}

enum Found {
    /// By id or identity, or by a name that was free when we were about to create it.
    Ours(VmState),
    /// By name only.
    Named(VmState),
    Nothing,
}
