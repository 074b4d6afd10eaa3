//! Asks the provider for the VM: by id, by identity, or by name.

use std::sync::Arc;

use jiff::Timestamp;
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
        let (found, asked) = match self.ask(ready, asked).await {
            Ok(answer) => answer,
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

    /// What the provider has, and of which moment that is the truth.
    async fn ask(
        &self,
        ready: &Ready,
        asked: Timestamp,
    ) -> Result<(Found, Timestamp), ProviderError> {
        if self.record.id.is_none() && !ready.features.has(Extension::Identity) {
            return self.ask_by_name(ready, asked).await;
        }
        let found = self.ask_by_id_or_identity(ready).await?;
        Ok((found, asked))
    }

    async fn ask_by_id_or_identity(&self, ready: &Ready) -> Result<Found, ProviderError> {
        if let Some(id) = &self.record.id
            && let Some(vm) = ready.provider.describe(id).await?
        {
            return self.ask_for_own(ready, vm).await;
        }
        if ready.features.has(Extension::Identity) {
            let found = ready.provider.find(&self.identity).await?;
            return Ok(found.map_or(Found::Nothing, Found::Ours));
        }
        Ok(Found::Nothing)
    }

    /// The VM of the id in the status. If it carries another's identity the status is wrong, and our own VM, if there is one, is
    /// found by its identity, as after a loss of the status.
    async fn ask_for_own(&self, ready: &Ready, vm: VmState) -> Result<Found, ProviderError> {
        if !self.is_anothers(&vm) || !ready.features.has(Extension::Identity) {
            return Ok(Found::Ours(vm));
        }
        match ready.provider.find(&self.identity).await {
            Ok(own) => Ok(Found::Ours(own.unwrap_or(vm))),
            // It offers what it does not have: nothing more can be asked of it.
            Err(error) if error.kind == ErrorKind::Unsupported => Ok(Found::Ours(vm)),
            Err(error) => Err(error),
        }
    }

    /// Without identities a VM of our name is ours only if we were about to create it, and had found the name free before.
    async fn ask_by_name(
        &self,
        ready: &Ready,
        asked: Timestamp,
    ) -> Result<(Found, Timestamp), ProviderError> {
        let spec = &self.vm.spec;
        let name = hypervisor_name(self.key.namespace(), self.key.name(), &spec.provider_ref);
        let list = ready.provider.list_vms();
        let listed = match ready.link.listing.fresh(&self.ctx.clock, list).await {
            Ok(listed) => listed,
            // Nothing more can be asked of such a provider.
            Err(error) if error.kind == ErrorKind::Unsupported => {
                return Ok((Found::Nothing, asked));
            }
            Err(error) => return Err(error),
        };
        let found = listed.vms.iter().find(|vm| vm.name == name).cloned();
        let found = match (found, self.intent) {
            (None, _) => Found::Nothing,
            (Some(vm), Intent::Missing) => Found::Named(vm),
            (Some(vm), Intent::JustWritten(_) | Intent::Older(_)) => Found::Ours(vm),
        };
        Ok((found, listed.begun))
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
