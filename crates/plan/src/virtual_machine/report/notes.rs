//! The events of a change of the status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use polyvirt_api::infra::{VMPhase, VirtualMachineStatus};

use super::{Outcome, PassEnd};
use crate::conditions::kind;
use crate::note::Note;
use crate::reason::Reason;
use crate::virtual_machine::facts::Origin;
use crate::virtual_machine::step::{Done, Wait, WaitFor};
use crate::virtual_machine::{correction, record, revert};

/// One event for each change of what `Ready` says, and for a VM that got its id.
pub(super) fn transitions(
    end: &PassEnd<'_>,
    old: &VirtualMachineStatus,
    new: &VirtualMachineStatus,
) -> Vec<Note> {
    let mut notes = Vec::new();
    notes.extend(creation(end, old, new));
    notes.extend(revert::note(old, new));
    if let Some(note) = correction::note(old, new) {
        // It says more than the change of Ready that comes with it.
        notes.push(note);
        return notes;
    }
    let find = |s: &VirtualMachineStatus| {
        s.conditions
            .iter()
            .find(|c| c.type_ == kind::READY)
            .cloned()
    };
    let (before, after) = (find(old), find(new));
    let Some(after) = after else { return notes };
    let says = |c: &Condition| (c.status.clone(), c.reason.clone());
    let moved = before.as_ref().map(says) != Some(says(&after)) || old.phase != new.phase;
    if moved {
        notes.push(note_for(end.outcome, &after, new));
    }
    notes
}

/// The event of a VM that is there for the first time: its creation is over.
fn creation(
    end: &PassEnd<'_>,
    old: &VirtualMachineStatus,
    new: &VirtualMachineStatus,
) -> Option<Note> {
    let ours = record::object(end.vm).origin == Origin::Created;
    let (None, Some(_), true) = (old.power_state, new.power_state, ours) else {
        return None;
    };
    let (id, provider) = (new.id.as_ref()?, &end.vm.spec.provider_ref.name);
    let text = format!("Created VM {id} on provider {provider}");
    Some(Note::normal(Reason::Created, text))
}

fn note_for(outcome: &Outcome, ready: &Condition, new: &VirtualMachineStatus) -> Note {
    let message = ready.message.clone();
    let reason = match (outcome, new.phase) {
        (Outcome::Done(Done::Converged | Done::RestartNeeded(_)), Some(VMPhase::Running)) => {
            Reason::Running
        }
        (Outcome::Done(Done::Converged | Done::RestartNeeded(_)), _) => Reason::Stopped,
        _ => Reason::parse(&ready.reason).unwrap_or(Reason::ProviderError),
    };
    match outcome {
        Outcome::Done(Done::Drifted(_)) | Outcome::Stopped(_) | Outcome::Failed(_) => {
            Note::warning(reason, message)
        }
        Outcome::Waiting(Wait {
            on:
                WaitFor::ProviderUnavailable
                | WaitFor::ProviderMissing
                | WaitFor::Keeper(_)
                | WaitFor::NextTry(_),
            ..
        }) => Note::warning(reason, message),
        _ => Note::normal(reason, message),
    }
}
