//! From the end of a pass to what people read of a schedule. Pure, and written only if it differs.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{
    SnapshotPhase, SnapshotRef, SnapshotScheduleStatus, VMSnapshot, VMSnapshotStatus,
};

use crate::conditions::{self, Finding, Truth, kind};
use crate::note::Note;
use crate::problem::Problem;
use crate::reason::Reason;
use crate::snapshot::schedule::child;
use crate::snapshot::schedule::facts::{Child, ChildState, InForce, Memory, Schedule};
use crate::snapshot::schedule::plan::{LeftOut, MOST_CHILDREN, Plan, Removal, Slot, Why};

/// Names of snapshots at work that are shown.
const SHOWN: usize = 10;

/// The end of a pass.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// All of the plan was done.
    Followed(&'a Schedule, &'a Plan, &'a [Child]),
    /// What was declared cannot be followed.
    Stopped(&'a Problem),
    /// The user has paused us.
    Paused,
}

/// What earlier passes have written.
pub fn memory(object: &VMSnapshot) -> Memory {
    let status = object.status.as_ref().and_then(|s| s.schedule.as_deref());
    let Some(told) = status else {
        return Memory::default();
    };
    Memory {
        rule: told.rule.clone(),
        since: told.since.as_ref().map(|t| t.0),
        last: told.last_schedule_time.as_ref().map(|t| t.0),
    }
}

/// The status to write, or `None` if what is there says the same.
pub fn status(
    object: &VMSnapshot,
    outcome: Outcome<'_>,
    now: Timestamp,
) -> Option<VMSnapshotStatus> {
    let old = object.status.clone().unwrap_or_default();
    let mut new = old.clone();
    if let Outcome::Followed(_, plan, children) = outcome {
        new.schedule = Some(Box::new(told(object, plan, children)));
    }
    new.phase = phase(outcome).or(old.phase);
    new.observed_generation = object.metadata.generation;
    let ready = ready(object, outcome);
    new.message = Some(ready.message.clone());
    conditions::set(&mut new.conditions, ready, object.metadata.generation, now);
    (new != old).then_some(new)
}

fn told(object: &VMSnapshot, plan: &Plan, children: &[Child]) -> SnapshotScheduleStatus {
    let of = |state| children.iter().filter(move |c| c.state == state);
    let count = |state| i32::try_from(of(state).count()).unwrap_or(i32::MAX);
    let done = of(ChildState::Whole).filter_map(|c| c.completed).max();
    let mut active: Vec<_> = of(ChildState::Active)
        .map(|c| refer(object, &c.name, Some(&c.uid)))
        .collect();
    if let Slot::Make(slot) = plan.slot {
        active.push(refer(object, &child::name(object, slot), None));
    }
    active.sort_by(|a, b| a.name.cmp(&b.name));
    active.truncate(SHOWN);
    let before = object.status.as_ref().and_then(|s| s.schedule.as_deref());
    let before = before
        .and_then(|s| s.last_successful_time.as_ref())
        .map(|t| t.0);
    SnapshotScheduleStatus {
        rule: plan.memory.rule.clone(),
        since: plan.memory.since.map(Time),
        last_schedule_time: plan.memory.last.map(Time),
        last_successful_time: done.max(before).map(Time),
        next_schedule_time: plan.next.map(Time),
        active,
        snapshots: count(ChildState::Whole),
        failed: count(ChildState::Failed),
    }
}

fn refer(schedule: &VMSnapshot, name: &str, uid: Option<&String>) -> SnapshotRef {
    SnapshotRef {
        name: name.to_owned(),
        namespace: schedule.metadata.namespace.clone(),
        uid: uid.cloned(),
    }
}

const fn phase(outcome: Outcome<'_>) -> Option<SnapshotPhase> {
    match outcome {
        Outcome::Followed(schedule, ..) => Some(match schedule.force {
            InForce::Yes => SnapshotPhase::Scheduled,
            InForce::Suspended => SnapshotPhase::Suspended,
        }),
        Outcome::Stopped(_) => Some(SnapshotPhase::Failed),
        Outcome::Paused => None,
    }
}

fn ready(object: &VMSnapshot, outcome: Outcome<'_>) -> Finding {
    let (truth, reason, text) = match outcome {
        Outcome::Stopped(problem) => (Truth::False, problem.reason, problem.to_string()),
        Outcome::Paused => (
            Truth::Unknown,
            Reason::Paused,
            "Paused: nothing is changed until the annotation virtrigaud.io/paused is removed"
                .to_owned(),
        ),
        Outcome::Followed(schedule, plan, _) => followed(object, schedule, plan),
    };
    Finding::new(kind::READY, truth, reason, text)
}

fn followed(object: &VMSnapshot, schedule: &Schedule, plan: &Plan) -> (Truth, Reason, String) {
    let vm = &object.spec.vm_ref.name;
    if schedule.force == InForce::Suspended {
        let text = "The schedule rests until spec.schedule says enabled and not suspend";
        return (Truth::False, Reason::ScheduleSuspended, text.to_owned());
    }
    match (plan.slot, plan.next) {
        (Slot::Waits, _) => (
            Truth::False,
            Reason::WaitingForDependencies,
            format!(
                "A snapshot is due, and VirtualMachine {vm} does not exist or is being deleted"
            ),
        ),
        (_, Some(next)) => (
            Truth::True,
            Reason::Scheduled,
            format!("The next snapshot is taken at {next:.0}"),
        ),
        (_, None) => (
            Truth::False,
            Reason::Scheduled,
            "No time of spec.schedule.cronSpec ever comes. Correct it".to_owned(),
        ),
    }
}

/// The event of a deletion.
pub fn removed(removal: &Removal) -> Note {
    let name = &removal.name;
    let text = match removal.why {
        Why::TooMany => format!("Snapshot {name} is deleted: there are more than are kept"),
        Why::TooManyFailed => {
            format!("Failed snapshot {name} is deleted: there are more than are kept")
        }
        Why::Replaced => format!(
            "Snapshot {name} is given up for a later one, as spec.schedule.concurrencyPolicy says"
        ),
    };
    Note::normal(Reason::SnapshotPruned, text)
}

/// The event of a slot.
pub fn slot(object: &VMSnapshot, slot: Slot) -> Option<Note> {
    match slot {
        Slot::Make(at) => {
            let text = format!("Snapshot {} is taken", child::name(object, at));
            Some(Note::normal(Reason::SnapshotMade, text))
        }
        Slot::LeftOut(at, why) => {
            let text = match why {
                LeftOut::AtWork => {
                    format!("No snapshot is taken for {at:.0}: an earlier one is still at work")
                }
                LeftOut::Full => format!(
                    "No snapshot is taken for {at:.0}: this schedule has {MOST_CHILDREN}. Set spec.retentionPolicy.maxCount"
                ),
                LeftOut::NameTaken => format!(
                    "No snapshot is taken for {at:.0}: a VMSnapshot {} of somebody else is there",
                    child::name(object, at)
                ),
            };
            Some(Note::warning(Reason::SnapshotLeftOut, text))
        }
        Slot::NotDue | Slot::Waits => None,
    }
}
