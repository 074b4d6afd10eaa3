//! What is counted after each pass.

use polyvirt_api::infra::VMPhase;

use super::Parts;
use crate::metrics::KindLabel;
use crate::provider;
use crate::runtime::key::{Key, Kind};
use crate::runtime::queue::{Lane, Ticket};

impl Parts {
    /// The phase of a VirtualMachine as the last pass left it.
    pub(super) fn phase(&self, key: &Key) -> Option<VMPhase> {
        let vm = (key.kind == Kind::VirtualMachine).then(|| self.ctx.stores.vms.get(&key.object));
        vm.flatten()?.status.as_ref()?.phase
    }

    /// All that a pass may have moved.
    pub(super) fn count_after(&self, ticket: &Ticket, before: Option<VMPhase>) {
        self.count_ready(ticket, before);
        self.metrics
            .queue_depth
            .set(i64::try_from(self.queue.waiting()).unwrap_or(i64::MAX));
        self.count(ticket.key.kind);
        self.count_tasks(&ticket.lane);
        self.count_unclaimed(&ticket.key);
    }

    /// A VM that is new and runs is a promise kept: how long it took is what its user has felt.
    fn count_ready(&self, ticket: &Ticket, before: Option<VMPhase>) {
        let is_new = matches!(
            before,
            None | Some(VMPhase::Pending | VMPhase::Provisioning)
        );
        if !is_new || self.phase(&ticket.key) != Some(VMPhase::Running) {
            return;
        }
        let vm = self.ctx.stores.vms.get(&ticket.key.object);
        let created = vm.and_then(|vm| vm.metadata.creation_timestamp.clone());
        let Lane::Provider(provider) = &ticket.lane else {
            return;
        };
        let provider = self.ctx.stores.providers.get(provider);
        if let (Some(created), Some(provider)) = (created, provider) {
            let took = self.ctx.now().duration_since(created.0);
            let word = provider::sessions::type_word(provider.spec.type_);
            self.metrics
                .vm_ready(word, took.try_into().unwrap_or_default());
        }
    }

    fn count(&self, kind: Kind) {
        let Some(number) = self.ctx.stores.count(kind) else {
            return;
        };
        let label = KindLabel { kind: kind.name() };
        self.metrics
            .objects
            .get_or_create(&label)
            .set(i64::try_from(number).unwrap_or(i64::MAX));
    }

    fn count_tasks(&self, lane: &Lane) {
        let Lane::Provider(key) = lane else { return };
        let provider = self.ctx.stores.providers.get(key);
        if let (Some(provider), Some(link)) = (provider, self.ctx.links.get(key)) {
            let number = link.seen(|seen| seen.tasks_awaited());
            self.metrics
                .tasks(&provider::labels(key, &provider), number);
        }
    }

    fn count_unclaimed(&self, key: &Key) {
        let provider = self.ctx.stores.providers.get(&key.object);
        if let Some(provider) = provider.filter(|_| key.kind == Kind::Provider) {
            let number = provider::unclaimed::count(&self.ctx, &key.object);
            let labels = provider::labels(&key.object, &provider);
            self.metrics.unclaimed(&labels, number);
        }
    }
}
