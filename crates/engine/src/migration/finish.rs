//! The end of a pass: status once and only if it differs, events, and when to come again.

use std::time::Duration;

use polyvirt_plan::migration::{Outcome, PassEnd, report};
use serde_json::json;

use super::act::FIGURES;
use super::{Pass, Seen};
use crate::cluster::{About, ClusterError, Patch};
use crate::next::Next;
use crate::runtime::key::Kind;
use crate::shared::status_body;

impl Pass<'_> {
    /// Reports, and says when to come again.
    pub(super) async fn finish(mut self, outcome: Outcome) -> Next {
        match self.write_status(&outcome).await {
            Ok(()) => self.next(&outcome),
            Err(error) => Next::after_refusal(&error),
        }
    }

    pub(super) async fn write_status(&mut self, outcome: &Outcome) -> Result<(), ClusterError> {
        let observed = match &self.seen {
            Seen::Vm(vm) => Some(vm.clone()),
            _ => None,
        };
        let (status, mut notes) = report(&PassEnd {
            object: &self.object,
            record: &self.record,
            outcome,
            observed: observed.as_deref(),
            desired: self.desired.as_ref().ok(),
            now: self.ctx.now(),
        });
        if let Some(status) = status {
            let mut body = status_body(&self.key, &status);
            // It may be gone already, and another object of its name be there.
            body["metadata"]["resourceVersion"] = json!(self.object.metadata.resource_version);
            self.write(Patch::Status(body)).await?;
        }
        notes.splice(0..0, std::mem::take(&mut self.notes));
        let about = About::of(Kind::VMMigration, &*self.object);
        for note in notes {
            tracing::info!(migration = %self.key.object, reason = %note.reason, "{}", note.message);
            self.ctx.cluster.event(&about, note);
        }
        Ok(())
    }

    fn next(&self, outcome: &Outcome) -> Next {
        if let Some(next) = self.come_again {
            return next;
        }
        match outcome {
            // The finalizer goes in a pass of its own.
            Outcome::Ended(_) if self.is_deleting() => Next::After(Duration::ZERO),
            Outcome::Done(_) | Outcome::Stopped(_) | Outcome::Ended(_) => Next::Idle,
            Outcome::Waiting(wait) => wait.recheck.map_or(Next::Idle, Next::After),
            Outcome::InFlight => Next::After(FIGURES),
            Outcome::Failed(_) => Next::Backoff,
        }
    }
}
