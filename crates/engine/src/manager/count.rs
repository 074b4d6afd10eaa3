//! What is counted after each pass.

use polyvirt_api::infra::VMPhase;

use polyvirt_plan::virtual_machine::correction::{self, Correction};

use super::Parts;
use crate::metrics::KindLabel;
use crate::provider;
use crate::runtime::key::{Key, Kind};
use crate::runtime::queue::{Lane, Ticket};

/// What is compared to count what a pass has done.
pub(super) struct Before {
    phase: Option<VMPhase>,
    correction: Option<Correction>,
}

impl Parts {
    /// A VirtualMachine as the last pass left it.
    pub(super) fn before(&self, key: &Key) -> Before {
        let vm = (key.kind == Kind::VirtualMachine).then(|| self.ctx.stores.vms.get(&key.object));
        let vm = vm.flatten();
        let status = vm.as_ref().and_then(|vm| vm.status.as_ref());
        Before {
            phase: status.and_then(|status| status.phase),
            correction: status.and_then(correction::from_status),
        }
    }

    /// All that a pass may have moved.
    pub(super) fn count_after(&self, ticket: &Ticket, before: &Before) {
        let after = self.before(&ticket.key);
        self.count_ready(ticket, before, &after);
        self.count_correction(ticket, before, after);
        self.metrics
            .queue_depth
            .set(i64::try_from(self.queue.waiting()).unwrap_or(i64::MAX));
        self.count(ticket.key.kind);
        self.count_tasks(&ticket.lane);
        self.count_unclaimed(&ticket.key);
    }

    /// A VM that is new and runs is a promise kept: how long it took is what its user has felt.
    fn count_ready(&self, ticket: &Ticket, before: &Before, after: &Before) {
        let is_new = matches!(
            before.phase,
            None | Some(VMPhase::Pending | VMPhase::Provisioning)
        );
        if !is_new || after.phase != Some(VMPhase::Running) {
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

    /// Counts a correction in the pass that wrote its end, which is the pass that sent its event.
    fn count_correction(&self, ticket: &Ticket, before: &Before, after: Before) {
        let ended = after.correction.filter(|c| c.corrected.is_some());
        let Some(ended) = ended.filter(|ended| before.correction.as_ref() != Some(ended)) else {
            return;
        };
        let Lane::Provider(key) = &ticket.lane else {
            return;
        };
        if let Some(provider) = self.ctx.stores.providers.get(key) {
            let labels = provider::labels(key, &provider);
            self.metrics.drift_corrected(&labels, ended.found.kind);
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
