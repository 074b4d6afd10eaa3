//! Changes made outside Kubernetes that the manager corrects, from detection to report.
//!
//! ```text
//!   as declared ── VM differs, policy Correct ──► RecordDrift (written) ──► Power, Reconfigure or Create ──► as declared
//!                                                 event DriftDetected                                        event DriftCorrected
//! ```
//!
//! The detection is written before the correction is sent. A manager that restarts between the two still reports the
//! correction, and reports it once: the entry is closed by the same write that reports the VM as declared.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{self as api, DriftKind, RestartReason, VirtualMachineStatus};
use polyvirt_contract::model::{PowerState, VmState};

use crate::note::Note;
use crate::reason::Reason;
use crate::virtual_machine::facts::{
    Desired, DesiredPower, Facts, Life, Observed, OnDrift, Origin, Record,
};
use crate::virtual_machine::next::remaining;
use crate::virtual_machine::record::whole_second;
use crate::virtual_machine::size::{differences, power_matches};
use crate::virtual_machine::step::{Drift, Step};

/// How long a VM may be seen off after a restart of ours. Some hypervisors stop and start a VM to restart it.
const RESTART_SETTLES: Duration = Duration::from_secs(60);

/// A difference that the manager corrects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What differs.
    pub kind: DriftKind,
    /// What was found and what is declared.
    pub text: String,
}

/// A correction in progress, or the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// What was found.
    pub found: Found,
    /// When.
    pub detected: Timestamp,
    /// When the VM was again as declared; `None` while the correction is in progress.
    pub corrected: Option<Timestamp>,
}

/// A restart that the manager carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: RestartReason,
}

impl Record {
    /// The correction in progress.
    pub fn correcting(&self) -> Option<&Correction> {
        self.correction.as_ref().filter(|c| c.corrected.is_none())
    }

    /// Notes a correction that is about to be sent.
    pub fn begin_correction(&mut self, found: Found, now: Timestamp) {
        self.correction = Some(Correction {
            found,
            detected: now,
            corrected: None,
        });
    }

    /// Closes the correction in progress: the VM is as declared, as far as policy goes. Drops it if the declaration was
    /// edited meanwhile, because then nothing was corrected. Must be called before [`Record::applied`] takes the declaration.
    pub fn close_correction(&mut self, desired: &Desired, vm: &VmState, now: Timestamp) {
        let Some(kind) = self.correcting().map(|c| c.found.kind) else {
            return;
        };
        let holds = self.is_corrected(kind, desired, vm);
        self.correction = self.correction.take().filter(|_| holds);
        if let Some(correction) = &mut self.correction {
            correction.corrected = Some(now);
            self.restart = restart_by(kind, desired, now).or(self.restart);
        }
    }

    fn is_corrected(&self, kind: DriftKind, desired: &Desired, vm: &VmState) -> bool {
        match kind {
            DriftKind::Power => {
                let as_declared = power_matches(desired.power, vm.power) == Some(true);
                as_declared && self.applied.power == Some(desired.power)
            }
            DriftKind::Size => {
                let shape = desired.shape();
                // What waits for a restart was accepted by the provider.
                let open = differences(&shape, vm);
                let waits = |d: &Drift| vm.restart_required.iter().any(|f| f == d.field);
                open.iter().all(waits) && self.applied.shape.as_ref() == Some(&shape)
            }
            // A VM that was recreated has met no declaration yet; one that reappeared has.
            DriftKind::Deletion => self.applied.reached.is_none(),
        }
    }
}

fn restart_by(kind: DriftKind, desired: &Desired, at: Timestamp) -> Option<Restart> {
    let reason = match kind {
        DriftKind::Power => RestartReason::DriftCorrected,
        DriftKind::Deletion => RestartReason::Recreated,
        DriftKind::Size => return None,
    };
    (desired.power == DesiredPower::On).then_some(Restart { at, reason })
}

/// Precedes a step that corrects a change made outside Kubernetes with a record of what was found.
pub(super) fn recorded(facts: &Facts<'_>, step: Step) -> Step {
    let Some(found) = found(facts, &step) else {
        return step;
    };
    let known = facts.record.correcting();
    if known.is_some_and(|known| known.found.kind == found.kind) {
        return step;
    }
    Step::RecordDrift(found)
}

fn found(facts: &Facts<'_>, step: &Step) -> Option<Found> {
    let desired = facts.desired.ok()?;
    if facts.object.life != Life::Alive {
        return None;
    }
    match (step, facts.observed) {
        (Step::Power(_), Observed::Present(vm)) => power_drift(facts, desired, vm),
        (Step::Reconfigure, Observed::Present(vm)) => size_drift(facts, desired, vm),
        (Step::Create | Step::RecordIntent, Observed::Absent) => deletion(facts, desired),
        _ => None,
    }
}

fn power_drift(facts: &Facts<'_>, desired: &Desired, vm: &VmState) -> Option<Found> {
    let differs = power_matches(desired.power, vm.power) == Some(false);
    let applied = facts.record.applied.power == Some(desired.power);
    let outside = facts.unconfirmed.is_none() && !may_be_our_restart(facts);
    (differs && applied && outside).then(|| Found {
        kind: DriftKind::Power,
        text: instead(&power_difference(desired, vm)),
    })
}

/// The power state that is declared and the one that is there.
pub(super) fn power_difference(desired: &Desired, vm: &VmState) -> Drift {
    Drift {
        field: "spec.powerState",
        declared: format!("{:?}", desired.power),
        found: power_word(vm.power).to_owned(),
    }
}

/// A power state in the words of the API.
const fn power_word(power: PowerState) -> &'static str {
    match power {
        PowerState::Suspended => "Paused",
        other => other.wire(),
    }
}

fn may_be_our_restart(facts: &Facts<'_>) -> bool {
    let ours = facts.record.restart.filter(|restart| {
        matches!(
            restart.reason,
            RestartReason::Requested | RestartReason::ChangeApplied
        )
    });
    let recent = ours.is_some_and(|r| remaining(facts.now, r.at, RESTART_SETTLES).is_some());
    let unhandled =
        !facts.object.reboot.is_empty() && facts.object.reboot != facts.record.reboot_handled;
    recent || unhandled
}

fn size_drift(facts: &Facts<'_>, desired: &Desired, vm: &VmState) -> Option<Found> {
    let shape = desired.shape();
    let applied = facts.record.applied.shape.as_ref() == Some(&shape);
    let same_options = facts.record.applied.options == desired.options();
    let found = differences(&shape, vm);
    let outside = facts.unconfirmed.is_none() && desired.on_size_drift == OnDrift::Correct;
    (applied && same_options && outside && !found.is_empty()).then(|| Found {
        kind: DriftKind::Size,
        text: found.iter().map(instead).collect::<Vec<_>>().join("; "),
    })
}

fn deletion(facts: &Facts<'_>, desired: &Desired) -> Option<Found> {
    let lost = facts.record.applied.reached.is_some() || facts.object.origin == Origin::Adopted;
    let id = facts.record.id.as_ref().map_or("", |id| id.as_str());
    (lost && desired.on_deletion == OnDrift::Correct).then(|| Found {
        kind: DriftKind::Deletion,
        text: format!("VM {id} was deleted").replace("  ", " "),
    })
}

/// Without the prefix `spec.`: the same text is shown to users of kinds whose fields have other paths.
fn instead(drift: &Drift) -> String {
    let field = drift.field.trim_start_matches("spec.");
    format!("{field} is {} instead of {}", drift.found, drift.declared)
}

/// The sentence about a correction in progress, for the conditions.
pub(super) fn in_progress(correction: &Correction) -> String {
    let Found { kind, text } = &correction.found;
    let (work, policy) = match kind {
        DriftKind::Power => ("correcting the power state", "power=Correct"),
        DriftKind::Size => ("correcting it", "size=Correct"),
        DriftKind::Deletion => ("recreating it with new disks", "deletion=Recreate"),
    };
    format!("Changed outside Kubernetes: {text}; {work} (driftPolicy.{policy})")
}

fn over(correction: &Correction) -> String {
    let Found { kind, text } = &correction.found;
    let work = match kind {
        DriftKind::Power => "The power state was corrected",
        DriftKind::Size => "It was corrected",
        DriftKind::Deletion => "The VM was recreated with new disks",
    };
    format!("Changed outside Kubernetes: {text}. {work}")
}

/// The event of a correction that begins or ends with this status; `None` if neither.
pub(super) fn note(old: &VirtualMachineStatus, new: &VirtualMachineStatus) -> Option<Note> {
    let (before, now) = (from_status(old), from_status(new)?);
    if before.as_ref() == Some(&now) {
        return None;
    }
    Some(match (now.corrected, now.found.kind) {
        (Some(_), _) => Note::warning(Reason::DriftCorrected, over(&now)),
        (None, DriftKind::Deletion) => Note::warning(Reason::Recreating, in_progress(&now)),
        (None, _) => Note::warning(Reason::DriftDetected, in_progress(&now)),
    })
}

/// Reads the correction of a status.
pub fn from_status(status: &VirtualMachineStatus) -> Option<Correction> {
    let written = status.last_correction.as_deref()?;
    Some(Correction {
        found: Found {
            kind: written.kind,
            text: written.found.clone(),
        },
        detected: written.detected.0,
        corrected: written.corrected.as_ref().map(|time| time.0),
    })
}

pub(super) fn restart_from_status(status: &VirtualMachineStatus) -> Option<Restart> {
    let written = status.last_restart.as_deref()?;
    Some(Restart {
        at: written.time.0,
        reason: written.reason,
    })
}

pub(super) fn write(record: &Record, status: &mut VirtualMachineStatus) {
    let time = |at: Timestamp| Time(whole_second(at));
    status.last_correction = record.correction.as_ref().map(|correction| {
        Box::new(api::DriftCorrection {
            kind: correction.found.kind,
            found: correction.found.text.clone(),
            detected: time(correction.detected),
            corrected: correction.corrected.map(time),
        })
    });
    status.last_restart = record.restart.map(|restart| {
        Box::new(api::LastRestart {
            time: time(restart.at),
            reason: restart.reason,
        })
    });
}
