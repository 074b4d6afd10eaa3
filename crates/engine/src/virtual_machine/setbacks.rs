//! Operations that failed, by VM. The rule is in [`polyvirt_plan::virtual_machine::setback`].

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use polyvirt_contract::ProviderError;
use polyvirt_contract::model::VmState;
use polyvirt_plan::virtual_machine::{OperationKind, Outcome, Setback, Step};

use super::pass::Pass;
use crate::next::Next;
use crate::runtime::backoff::pause;
use crate::runtime::key::ObjectKey;

/// Operations that failed, by VM. In memory only: after a restart each may be sent once at once.
#[derive(Default)]
pub struct Setbacks {
    by_vm: Mutex<HashMap<ObjectKey, Vec<Setback>>>,
    random: RandomState,
}

impl Setbacks {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Vec<Setback>>> {
        self.by_vm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An operation failed. Returns how long it is not sent again.
    fn failed(&self, key: &ObjectKey, mut new: Setback) -> Duration {
        let mut by_vm = self.lock();
        let all = by_vm.entry(key.clone()).or_default();
        let before = all.iter().position(|old| old.kind == new.kind);
        let before = before.map(|place| all.swap_remove(place));
        let in_a_row = before.filter(|old| !old.is_forgiven(new.at));
        new.failures = in_a_row.map_or(0, |old| old.failures).saturating_add(1);
        new.pause = pause(new.failures, self.random.hash_one((key, new.failures)));
        let pause = new.pause;
        all.push(new);
        pause
    }

    /// How long an operation is not to be sent yet, and why.
    fn rest(
        &self,
        key: &ObjectKey,
        kind: OperationKind,
        seen: Option<&VmState>,
        now: Timestamp,
    ) -> Option<(Duration, ProviderError)> {
        let by_vm = self.lock();
        let setback = by_vm.get(key)?.iter().find(|old| old.kind == kind)?;
        Some((setback.rest(now, seen)?, setback.error.clone()))
    }

    /// What failed may be sent again now. How often it failed stays known.
    pub fn lift(&self, key: &ObjectKey) {
        for setback in self.lock().get_mut(key).into_iter().flatten() {
            setback.pause = Duration::ZERO;
        }
    }

    /// The same for what failed because the provider did not answer.
    pub fn reconnected(&self, key: &ObjectKey) {
        let mut by_vm = self.lock();
        let all = by_vm.get_mut(key).into_iter().flatten();
        for setback in all.filter(|old| old.error.kind.blames_provider()) {
            setback.pause = Duration::ZERO;
        }
    }

    /// The VM is as declared. What still has a pause is kept: a VM may look well for a moment during an attempt that fails.
    pub(super) fn reached(&self, key: &ObjectKey, now: Timestamp) {
        let mut by_vm = self.lock();
        let Some(all) = by_vm.get_mut(key) else {
            return;
        };
        all.retain(|old| old.rest(now, old.seen.as_deref()).is_some());
        if all.is_empty() {
            by_vm.remove(key);
        }
    }

    /// There is no such object any more.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }
}

impl Pass<'_> {
    /// The outcome to report instead of a step whose operation failed a short while ago; `None` if the step may be taken.
    pub(super) fn held_back(&mut self, step: &Step) -> Option<Outcome> {
        let kind = step.leads_to()?;
        let (seen, now) = (self.present().cloned(), self.ctx.now());
        let setbacks = &self.ctx.stores.setbacks;
        let (rest, error) = setbacks.rest(&self.key, kind, seen.as_deref(), now)?;
        self.come_again = Some(Next::After(rest));
        Some(Outcome::Failed(error))
    }

    /// An operation failed. It is sent again after a pause that grows, whatever the provider publishes of the VM meanwhile.
    pub(super) fn set_back(
        &mut self,
        kind: OperationKind,
        seen: Option<Arc<VmState>>,
        error: &ProviderError,
    ) {
        // What is refused for good is not sent again anyway.
        if Next::after_error(error.kind) != Next::Backoff {
            return;
        }
        let setback = Setback {
            kind,
            failures: 0,
            error: error.clone(),
            at: self.ctx.now(),
            pause: Duration::ZERO,
            seen,
        };
        let pause = self.ctx.stores.setbacks.failed(&self.key, setback);
        self.come_again = Some(Next::Retry(pause));
    }
}
