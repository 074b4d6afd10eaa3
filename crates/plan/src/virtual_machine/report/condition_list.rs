//! The conditions beside Ready. Those that describe work, or something wrong, are there while it lasts.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use polyvirt_api::infra::{VMPhase, VirtualMachineStatus};

use super::placed;
use super::ready::drift_text;
use super::{Outcome, PassEnd};
use crate::conditions::{self, Finding, Truth, kind};
use crate::honoured;
use crate::reason::Reason;
use crate::virtual_machine::step::Done;
use crate::virtual_machine::{correction, revert};

/// Brings the conditions up to date. `ready` is the finding that the status message repeats.
pub(super) fn conditions(end: &PassEnd<'_>, status: &mut VirtualMachineStatus, ready: Finding) {
    let generation = end.generation;
    let phase = status.phase.unwrap_or_default();
    let (reason, message) = (ready.reason, ready.message.clone());
    let mut list = std::mem::take(&mut status.conditions);
    let mut put = |finding| conditions::set(&mut list, finding, generation, end.now);
    put(ready);
    let active = [
        (VMPhase::Provisioning, kind::PROVISIONING),
        (VMPhase::Reconfiguring, kind::RECONFIGURING),
    ];
    for (_, kind) in active.into_iter().filter(|(of, _)| *of == phase) {
        put(Finding::new(kind, Truth::True, reason, message.as_str()));
    }
    if phase == VMPhase::Deleting {
        put(Finding::new(kind::DELETING, Truth::True, reason, message));
    }
    if let Some(finding) = not_honoured(end) {
        put(finding);
    }
    if let Some(text) = drift(end) {
        put(Finding::new(
            kind::DRIFTED,
            Truth::True,
            Reason::DriftDetected,
            text,
        ));
    }
    if !end.record.restart_required.is_empty() {
        put(restart_required(&end.record.restart_required));
    }
    match revert::finding(end.revert, end.record.revert.as_ref()) {
        Some(finding) => conditions::set(&mut list, finding, generation, end.now),
        None => conditions::clear(&mut list, kind::REVERTED),
    }
    match placed::finding(end) {
        Some(finding) => conditions::set(&mut list, finding, generation, end.now),
        None => conditions::clear(&mut list, kind::PLACED),
    }
    drop_stale(end, phase, &mut list);
    status.conditions = list;
}

/// The change made outside Kubernetes that is reported, or is being corrected.
fn drift(end: &PassEnd<'_>) -> Option<String> {
    match end.outcome {
        Outcome::Done(Done::Drifted(drifts)) => Some(drift_text(drifts)),
        _ => end.record.correcting().map(correction::in_progress),
    }
}

fn not_honoured(end: &PassEnd<'_>) -> Option<Finding> {
    honoured::finding::of_vm(end.ignored_fields, end.edited_fields)
}

fn restart_required(fields: &[String]) -> Finding {
    let message = format!(
        "These changes take effect at the next restart: {}. Restart the VM (annotation virtrigaud.io/reboot), or set spec.reconfigurePolicy.restart to WhenNeeded",
        fields.join(", ")
    );
    Finding::new(
        kind::RESTART_REQUIRED,
        Truth::True,
        Reason::RestartRequired,
        message,
    )
}

/// Conditions that speak only while they have something to say.
fn drop_stale(end: &PassEnd<'_>, phase: VMPhase, list: &mut Vec<Condition>) {
    if phase != VMPhase::Provisioning {
        conditions::clear(list, kind::PROVISIONING);
    }
    if phase != VMPhase::Reconfiguring {
        conditions::clear(list, kind::RECONFIGURING);
    }
    let told = matches!(
        end.outcome,
        Outcome::Done(Done::Converged | Done::RestartNeeded(_))
    );
    if told {
        conditions::clear(list, kind::DRIFTED);
    }
    if end.record.restart_required.is_empty() {
        conditions::clear(list, kind::RESTART_REQUIRED);
    }
    if not_honoured(end).is_none() && end.desired.is_some() {
        conditions::clear(list, kind::FIELDS_HONOURED);
    }
}
