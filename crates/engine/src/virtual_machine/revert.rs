//! Takes the VM back to a snapshot. The rules are those of [`polyvirt_plan::virtual_machine::revert`].

use polyvirt_contract::{ErrorKind, ProviderError, SnapshotId};
use polyvirt_plan::virtual_machine::{OperationKind, RevertState, Reverted, revert};

use super::pass::{Flow, Pass, Reach, Seen};
use crate::runtime::key::ObjectKey;

impl Pass<'_> {
    /// Reads what the VM is to go back to. A field that was emptied is forgotten: naming the same snapshot again is a new wish.
    pub(super) fn load_revert(&mut self) {
        let name = revert::wanted(&self.vm);
        let key = name.map(|name| ObjectKey::new(self.key.namespace(), name));
        let snapshot = key.and_then(|key| self.ctx.stores.snapshots.get(&key));
        self.revert = revert::wish(&self.vm, snapshot.as_deref());
        if self.revert.is_none() {
            self.record.revert = None;
        }
    }

    /// Forgets what was applied: power and size come from the snapshot.
    pub(super) fn record_revert(&mut self) {
        let Some(wish) = &self.revert else { return };
        let Ok(target) = &wish.target else { return };
        self.record.revert = Some(Reverted {
            name: wish.name.clone(),
            uid: target.uid.clone(),
            ..Reverted::default()
        });
        self.record.applied.power = None;
        self.record.applied.shape = None;
        self.record.restart_required.clear();
    }

    pub(super) async fn revert(&mut self, snapshot: SnapshotId) -> Flow {
        let (Some(vm), Reach::Ready(ready)) = (self.vm_ref(), &self.reach) else {
            return Flow::Continue;
        };
        let provider = ready.provider.clone();
        self.sending(OperationKind::Revert, None);
        match provider.snapshot_revert(&vm, &snapshot).await {
            Ok(task) => {
                if task.is_none() {
                    self.revert_over();
                }
                self.accepted(OperationKind::Revert, task)
            }
            Err(error) if self.revert_refused(&error) => Flow::Continue,
            Err(error) => self.failed(error),
        }
    }

    /// The task that ended well was perhaps the one that took the VM back.
    pub(super) fn revert_over(&mut self) {
        let operation = self.record.operation.as_ref();
        let other = operation.is_some_and(|o| o.kind != OperationKind::Revert);
        if let Some(last) = self.record.revert.as_mut().filter(|_| !other)
            && last.state == RevertState::Begun
        {
            last.state = RevertState::Done;
        }
    }

    /// Whether the provider will not go back to this snapshot, however often it is asked.
    pub(super) fn revert_refused(&mut self, error: &ProviderError) -> bool {
        let operation = self.record.operation.as_ref();
        let other = operation.is_some_and(|o| o.kind != OperationKind::Revert);
        let final_word = matches!(
            error.kind,
            ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::NotFound
        );
        let begun = |last: &&mut Reverted| last.state == RevertState::Begun;
        let last = self.record.revert.as_mut().filter(begun);
        let Some(last) = last.filter(|_| final_word && !other) else {
            return false;
        };
        last.state = RevertState::Refused;
        last.message = Some(error.message.clone());
        self.record.operation = None;
        self.memo.sent = None;
        self.seen = Seen::Unknown;
        true
    }
}
