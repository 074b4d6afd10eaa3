//! The end of a pass: status once and only if it differs, events, and when to come again.

use std::collections::BTreeSet;
use std::time::Duration;

use polyvirt_contract::model::{PowerState, VmState};
use polyvirt_contract::{ErrorKind, Extension};
use polyvirt_plan::honoured::{FIELDS, once};
use polyvirt_plan::virtual_machine::size::{differences, power_matches};
use polyvirt_plan::virtual_machine::{
    Desired, DesiredPower, Done, Drift, FORGOTTEN_AFTER, Intent, OperationKind, Outcome, PassEnd,
    RESEND_AFTER, record, remaining, report,
};
use polyvirt_plan::{Note, Reason};
use serde_json::json;

use super::act::wait_next;
use super::pass::Pass;
use crate::cluster::{About, ClusterError, Patch};
use crate::next::Next;
use crate::runtime::key::{Key, Kind};
use crate::shared::status_body;

impl Pass<'_> {
    /// Reports, remembers, and says when to come again.
    pub async fn finish(mut self, outcome: Outcome) -> Next {
        if outcome == Outcome::Done(Done::NothingToRelease) {
            return Next::Idle;
        }
        self.settle(&outcome);
        self.tell_contradiction();
        let written = self.write_status(&outcome).await;
        self.ctx.remember(&self.key, std::mem::take(&mut self.memo));
        match written {
            Ok(()) if self.is_outdated() => Next::After(Duration::ZERO),
            Ok(()) => self.come_again.unwrap_or_else(|| self.next(&outcome)),
            Err(error) => self.refused_status(&error),
        }
    }

    /// Two calls that tell different things of one VM are a fault of the provider, which is reported once.
    fn tell_contradiction(&mut self) {
        let (Some(id), Some(ready)) = (&self.record.id, self.ready()) else {
            return;
        };
        let found = ready.link.seen(|seen| seen.contradiction(id));
        if found == self.memo.contradiction || !self.memo.corrected.is_empty() {
            return;
        }
        if let Some(what) = &found {
            let text = format!(
                "The provider contradicts itself about this VM: {what}. What Describe says counts; report this to the authors of the provider"
            );
            self.notes
                .push(Note::warning(Reason::ProviderContradicts, text));
        }
        self.memo.contradiction = found;
    }

    /// Nobody would see that there is no status: the log says so.
    fn refused_status(&self, error: &ClusterError) -> Next {
        if let ClusterError::Invalid(why) = error {
            tracing::error!(vm = %self.key, "The API server refuses the status: {why}. Install the CRDs of this version");
        }
        Next::after_refusal(error)
    }

    /// Whether the provider told more of the VM while the status was being written. Where it does not say whose VM that is,
    /// nobody was woken: the id was not in the status yet.
    fn is_outdated(&self) -> bool {
        let (Some(vm), Some(ready)) = (self.present(), self.ready()) else {
            return false;
        };
        let told = ready.link.seen(|seen| seen.get(&vm.id));
        vm.owner.is_none() && told.is_some_and(|told| told != *vm)
    }

    /// Takes note of what was reached.
    fn settle(&mut self, outcome: &Outcome) {
        let Some(vm) = self.present().cloned() else {
            return;
        };
        self.end_shutdown(&vm);
        let Ok(desired) = &self.desired else { return };
        let Outcome::Done(done @ (Done::Converged | Done::Drifted(_) | Done::RestartNeeded(_))) =
            outcome
        else {
            return;
        };
        let (desired, done) = (desired.clone(), done.clone());
        // What a silent answer does not show is no proof that the correction took effect.
        if done == Done::Converged && vm.cpu != 0 && vm.memory_mib != 0 {
            self.memo.corrected.clear();
        }
        self.apply_reached(&desired, &done, &vm);
        self.memo.sent = None;
        self.forget_hooks();
        self.close_reboot(&vm);
    }

    fn apply_reached(&mut self, desired: &Desired, done: &Done, vm: &VmState) {
        self.record.applied.reached = self.generation;
        if power_matches(desired.power, vm.power) == Some(true) {
            match self.unrest() {
                None => self.record.applied.power = Some(desired.power),
                Some(rest) => self.come_again = Some(Next::After(rest)),
            }
        }
        let open = differences(&desired.shape(), vm);
        let waits = |field: &str| vm.restart_required.iter().any(|f| f == field);
        self.record.restart_required = match done {
            Done::RestartNeeded(fields) => fields.clone(),
            Done::Drifted(_) => self.still_waiting(&open, vm),
            _ => vm.restart_required.clone(),
        };
        if open
            .iter()
            .all(|d| waits(d.field) || self.record.restart_required.iter().any(|f| f == d.field))
            || self.record.applied.shape.is_none()
        {
            self.record.applied.shape = Some(desired.shape());
        }
        self.record.applied.options = desired.options();
        self.settle_once();
    }

    /// A VM without a record of what it was created with, one of an earlier release or one that was adopted, was created as it is
    /// declared now, as far as can be known.
    fn settle_once(&mut self) {
        let applied = &mut self.record.applied;
        if applied.created.is_empty() {
            applied.image = once::image_name(&self.vm.spec);
        }
        once::settle(&mut applied.created, &self.declared);
    }

    /// Edits that came too late; none while it is not known what the VM should be.
    fn edited(&self) -> Vec<once::Edited> {
        match &self.desired {
            Ok(_) => {
                let mut late = once::edited(&self.record.applied.created, &self.declared);
                late.retain(|edited| self.would_act(edited));
                late
            }
            Err(_) => Vec::new(),
        }
    }

    /// Whether the field acts on this provider at all. One that does not is named for that, and to remove it is no late edit.
    fn would_act(&self, edited: &once::Edited) -> bool {
        let below = format!("{}.", edited.path);
        let is_of = |path: &str| path == edited.path || path.starts_with(&below);
        let mut parts = FIELDS.iter().filter(|field| is_of(field.path)).peekable();
        let (Some(ready), Some(_)) = (self.ready(), parts.peek()) else {
            return true;
        };
        parts.any(|field| ready.features.honours(field.path))
    }

    /// Drift elsewhere changes nothing about what waits for a restart.
    fn still_waiting(&self, open: &[Drift], vm: &VmState) -> Vec<String> {
        let told = vm.restart_required.iter();
        let ours = self.record.restart_required.iter();
        let ours = ours.filter(|f| open.iter().any(|d| d.field == **f));
        let all: BTreeSet<_> = told.chain(ours).cloned().collect();
        all.into_iter().collect()
    }

    /// The wait for the guest ends when it is off, or when nobody wants it off any more and it has had its time: what it was
    /// asked for cannot be taken back.
    fn end_shutdown(&mut self, vm: &VmState) {
        let asked = self.record.operation.as_ref();
        if asked.is_none_or(|o| o.kind != OperationKind::GracefulStop) {
            return;
        }
        let Ok(desired) = &self.desired else { return };
        let unwanted = desired.power != DesiredPower::OffGraceful;
        if vm.power == PowerState::Off || (unwanted && self.shutdown_rest().is_none()) {
            self.record.operation = None;
        }
    }

    /// The time that a guest has left which was asked to stop.
    fn shutdown_rest(&self) -> Option<Duration> {
        let asked = self.record.operation.as_ref()?;
        let timeout = self.desired.as_ref().ok()?.graceful_timeout;
        let rest = remaining(self.ctx.now(), asked.since, timeout);
        rest.filter(|_| asked.kind == OperationKind::GracefulStop)
    }

    /// How long the power may yet change by our doing: a guest that was asked to stop, or a request of a manager that died.
    fn unrest(&self) -> Option<Duration> {
        self.shutdown_rest().or_else(|| self.predecessor_rest())
    }

    /// The time in which a request that another life of ours sent, and did not live to record, may still show.
    fn predecessor_rest(&self) -> Option<Duration> {
        let unrecorded = self.record.applied.power.is_none() && self.memo.sent.is_none();
        let ready = self.ready().filter(|_| unrecorded)?;
        remaining(self.ctx.now(), ready.since, FORGOTTEN_AFTER)
    }

    fn close_reboot(&mut self, vm: &VmState) {
        let asked = record::object(&self.vm).reboot.to_owned();
        if asked.is_empty() || asked == self.record.reboot_handled {
            return;
        }
        let rests = match vm.power {
            PowerState::Off => Some("off"),
            PowerState::Suspended => Some("paused"),
            PowerState::On | PowerState::Unknown => None,
        };
        if let Some(rests) = rests {
            let text = format!("Reboot {asked} was asked for, but the VM is {rests}");
            self.notes.push(Note::normal(Reason::RebootSkipped, text));
        }
        self.record.reboot_handled = asked;
    }

    /// Writes the status if it differs from what is there.
    pub(super) async fn write_status(&mut self, outcome: &Outcome) -> Result<(), ClusterError> {
        let observed = self.present().cloned();
        let (status, mut notes) = report(&PassEnd {
            vm: &self.vm,
            generation: self.generation,
            record: &self.record,
            intent: self.intent,
            outcome,
            observed: observed.as_deref(),
            desired: self.desired.as_ref().ok(),
            ignored_fields: &self.ignored_fields,
            edited_fields: &self.edited(),
            revert: self.revert.as_ref(),
            now: self.ctx.now(),
        });
        if let Some(status) = status {
            let key = Key::new(Kind::VirtualMachine, self.key.clone());
            let mut body = status_body(&key, &status);
            if self.is_deleting() {
                // It may be gone already, and another object of its name be there.
                body["metadata"]["resourceVersion"] = json!(self.vm.metadata.resource_version);
            }
            self.write(Patch::Status(body)).await?;
        }
        notes.splice(0..0, std::mem::take(&mut self.notes));
        let about = About::of(Kind::VirtualMachine, &*self.vm);
        for note in notes {
            tracing::info!(vm = %self.key, reason = %note.reason, "{}", note.message);
            self.ctx.cluster.event(&about, note);
        }
        Ok(())
    }

    fn next(&self, outcome: &Outcome) -> Next {
        match self.outcome_next(outcome) {
            Next::Idle => self.late_create().map_or(Next::Idle, Next::After),
            next => next,
        }
    }

    /// When to look for a VM that may come late. Where the provider does not say whose it is, its coming wakes nobody.
    fn late_create(&self) -> Option<Duration> {
        let ready = self.ready()?;
        let Intent::Older(since) = self.intent else {
            return None;
        };
        if self.record.id.is_some() || ready.features.has(Extension::Identity) {
            return None;
        }
        // Once more when the time is over.
        let rest = remaining(self.ctx.now(), since, FORGOTTEN_AFTER + RESEND_AFTER)?;
        Some(rest.min(RESEND_AFTER))
    }

    fn outcome_next(&self, outcome: &Outcome) -> Next {
        match outcome {
            Outcome::Done(_) => self.shutdown_rest().map_or(Next::Idle, Next::After),
            Outcome::Waiting(wait) => wait_next(wait),
            Outcome::InFlight(_) => Next::After(self.task_recheck()),
            Outcome::Stopped(problem) => match problem.reason {
                Reason::IdentityConflict | Reason::NameConflict => self.crowded_out(),
                _ => Next::Idle,
            },
            Outcome::Failed(error) => match error.kind {
                ErrorKind::NameConflict | ErrorKind::IdentityConflict => self.crowded_out(),
                kind => Next::after_error(kind),
            },
        }
    }

    /// The departure of the other VM wakes us, where the provider tells of it.
    fn crowded_out(&self) -> Next {
        if let Some(ready) = self.ready() {
            ready.link.seen(|seen| seen.await_name(&self.key));
        }
        Next::after_error(ErrorKind::NameConflict)
    }
}
