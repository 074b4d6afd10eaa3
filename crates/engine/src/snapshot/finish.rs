//! The end of a pass: status once and only if it differs, events, and when to come again.

use std::time::Duration;

use polyvirt_contract::Extension;
use polyvirt_plan::snapshot::next::lifetime;
use polyvirt_plan::snapshot::report::Hearing;
use polyvirt_plan::snapshot::{Done, Facts, Kin, Observed, Outcome, PassEnd, alarm, kin, report};
use serde_json::json;

use super::Pass;
use crate::cluster::{About, ClusterError, Patch};
use crate::link::observations::TASK_SILENCE;
use crate::next::Next;
use crate::runtime::key::Kind;
use crate::shared::status_body;
use crate::subject::AboutVm as _;
use crate::virtual_machine::reach::Reach;

/// How often a task is asked for where no stream tells of it.
const POLLED_TASK_RECHECK: Duration = Duration::from_secs(2);

impl Pass<'_> {
    /// Reports, and says when to come again.
    pub(super) async fn finish(mut self, outcome: Outcome) -> Next {
        match self.write_status(&outcome).await {
            Ok(()) => self.next(&outcome),
            Err(error) => Next::after_refusal(&error),
        }
    }

    pub(super) async fn write_status(&mut self, outcome: &Outcome) -> Result<(), ClusterError> {
        let facts = self.facts();
        let found = facts.found().cloned();
        let expires = lifetime(&facts).map(|(_, deleted)| deleted);
        let kin = self.kin(&facts);
        let (status, mut notes) = report(&PassEnd {
            object: &self.object,
            record: &self.record,
            outcome,
            found: found.as_ref(),
            kin: kin.as_ref(),
            desired: self.desired.as_ref().ok(),
            expires,
            hearing: self.hearing(),
            now: self.ctx.now(),
        });
        if let Some(status) = status {
            let mut body = status_body(&self.key, &status);
            // It may be gone already, and another object of its name be there.
            body["metadata"]["resourceVersion"] = json!(self.object.metadata.resource_version);
            self.write(Patch::Status(body)).await?;
        }
        notes.splice(0..0, std::mem::take(&mut self.notes));
        let about = About::of(Kind::VMSnapshot, &*self.object);
        for note in notes {
            tracing::info!(snapshot = %self.key.object, reason = %note.reason, "{}", note.message);
            self.ctx.cluster.event(&about, note);
        }
        Ok(())
    }

    /// Its relatives among the objects of the same VM.
    fn kin(&self, facts: &Facts<'_>) -> Option<Kin> {
        let Observed::Listed(listed) = facts.observed else {
            return None;
        };
        let ours = facts.found()?;
        let stores = &self.ctx.stores;
        let keys = stores.snapshot_index.of(&self.object.vm()).into_iter();
        let objects: Vec<_> = keys.filter_map(|key| stores.snapshots.get(&key)).collect();
        let objects: Vec<_> = objects.iter().map(AsRef::as_ref).collect();
        Some(kin(ours, listed, &objects))
    }

    fn hearing(&self) -> Hearing {
        match &self.reach {
            Reach::Ready(ready) if !ready.features.has(Extension::Identity) => Hearing::Basic,
            _ => Hearing::Full,
        }
    }

    fn next(&self, outcome: &Outcome) -> Next {
        match outcome {
            Outcome::Done(Done::Ready | Done::Expired(_)) => {
                alarm(&self.facts()).map_or(Next::Idle, Next::After)
            }
            Outcome::Done(_) | Outcome::Stopped(_) => Next::Idle,
            Outcome::Waiting(wait) => wait.recheck.map_or(Next::Idle, Next::After),
            Outcome::InFlight(_) => Next::After(self.task_recheck()),
            // Nothing about the object will change any more: only time can help.
            Outcome::Failed(_) if self.is_deleting() => Next::Backoff,
            Outcome::Failed(error) => Next::after_error(error.kind),
        }
    }

    fn task_recheck(&self) -> Duration {
        match &self.reach {
            Reach::Ready(ready) if ready.features.has(Extension::Watch) => TASK_SILENCE,
            _ => POLLED_TASK_RECHECK,
        }
    }
}
