//! What the planner of schedules may know.

use std::time::Duration;

use jiff::Timestamp;
use polyvirt_api::infra::{ConcurrencyPolicy, SnapshotPhase, VMSnapshot};
use polyvirt_api::names;

use crate::problem::Problem;
use crate::snapshot::desired;
use crate::snapshot::schedule::calendar::Calendar;

/// All inputs of one decision.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The time of the decision.
    pub now: Timestamp,
    /// What was declared.
    pub schedule: &'a Schedule,
    /// What earlier passes have written down.
    pub memory: &'a Memory,
    /// What the schedule has made and is still there.
    pub children: &'a [Child],
    /// Whether there is something to take a snapshot of.
    pub subject: Subject,
}

/// A schedule as it was declared.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Its times.
    pub calendar: Calendar,
    /// The times and the zone as they were written; another text is another schedule.
    pub rule: String,
    /// Whether it is in force.
    pub force: InForce,
    /// What happens when one is due while another is being taken.
    pub policy: ConcurrencyPolicy,
    /// How many it keeps.
    pub limits: Limits,
}

/// Whether a schedule is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InForce {
    /// It is.
    Yes,
    /// It rests: `suspend` is set, or `enabled` was taken away.
    Suspended,
}

/// How many snapshots a schedule keeps. Pinned ones, and the one that the VM was told to go back to, do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Whole ones; `None` if their age alone decides, or all are kept.
    pub whole: Option<usize>,
    /// Failed ones.
    pub failed: usize,
}

/// What passes write down for the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The rule that the other times are about.
    pub rule: Option<String>,
    /// Slots after this moment count. `None` while the schedule rests.
    pub since: Option<Timestamp>,
    /// The slot of the last snapshot that was made.
    pub last: Option<Timestamp>,
}

/// A snapshot that the schedule has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Name of its object.
    pub name: String,
    /// UID of its object.
    pub uid: String,
    /// The slot that it was made for.
    pub slot: Timestamp,
    /// How it stands.
    pub state: ChildState,
    /// Whether it may be deleted to make room.
    pub hold: Hold,
    /// When it was whole.
    pub completed: Option<Timestamp>,
}

/// How a child stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildState {
    /// It is being taken, or waits to be.
    Active,
    /// It can be gone back to.
    Whole,
    /// It could not be taken, or is lost.
    Failed,
    /// It is being deleted.
    Leaving,
}

/// Whether a child may be deleted to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// It may.
    #[default]
    Free,
    /// It is pinned, or its VM was told to go back to it.
    Kept,
}

/// Whether there is something to take a snapshot of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The VirtualMachine is there.
    Here,
    /// There is none, or it is being deleted.
    Missing,
}

/// Whether an object is a schedule, and takes no snapshot of its own. One that has taken one stays what it is; one that was a
/// schedule stays one when it is switched off, so that nothing is taken at a moment that nobody chose.
pub fn is_schedule(object: &VMSnapshot) -> bool {
    let status = object.status.as_ref();
    let has_own = status.is_some_and(|s| s.vm.is_some());
    let was = status.is_some_and(|s| s.schedule.is_some());
    let enabled = object.spec.schedule.as_ref().is_some_and(|s| s.enabled);
    !has_own && (enabled || was)
}

/// The schedule that an object declares, or why it cannot be followed. Intervals count from the object's creation.
pub fn schedule(object: &VMSnapshot) -> Result<Schedule, Problem> {
    let spec = object.spec.schedule.clone().unwrap_or_default();
    let retention = object.spec.retention_policy.clone().unwrap_or_default();
    let text = spec.cron_spec.as_deref().unwrap_or("@yearly");
    let born = object.metadata.creation_timestamp.as_ref();
    let anchor = born.map_or(Timestamp::UNIX_EPOCH, |t| t.0);
    let (max_age, _) = desired::lifetime(&object.spec, &retention)?;
    let in_force = spec.enabled && !spec.suspend;
    Ok(Schedule {
        calendar: Calendar::parse(text, &spec.timezone, anchor)?,
        rule: format!("{text} {}", spec.timezone),
        force: if in_force {
            InForce::Yes
        } else {
            InForce::Suspended
        },
        policy: spec.concurrency_policy,
        limits: Limits {
            whole: most_whole(retention.max_count, max_age, history(object)),
            failed: usize::try_from(spec.failed_jobs_history_limit).unwrap_or(0),
        },
    })
}

/// What says how long snapshots are kept goes before what says how many objects are.
fn most_whole(count: Option<i32>, age: Option<Duration>, history: Option<i32>) -> Option<usize> {
    let most = count.or_else(|| history.filter(|_| age.is_none()));
    most.map(|n| usize::try_from(n).unwrap_or(0))
}

/// How many objects are kept; `None` for all. The field has a default, so that its absence cannot say that.
fn history(object: &VMSnapshot) -> Option<i32> {
    let annotations = object.metadata.annotations.as_ref();
    let word = annotations.and_then(|a| a.get(names::KEEP_ALL_ANNOTATION));
    let schedule = object.spec.schedule.clone().unwrap_or_default();
    let all = word.is_some_and(|word| word.eq_ignore_ascii_case("true"));
    (!all).then_some(schedule.successful_jobs_history_limit)
}

/// What a VMSnapshot is to the schedule that made it; `None` if no schedule did.
pub fn child(object: &VMSnapshot, revert_to: Option<&str>) -> Option<Child> {
    let name = object.metadata.name.clone()?;
    let annotations = object.metadata.annotations.as_ref();
    let slot = annotations.and_then(|a| a.get(names::SCHEDULED_AT_ANNOTATION));
    let status = object.status.as_ref();
    Some(Child {
        uid: object.metadata.uid.clone()?,
        slot: slot?.parse().ok()?,
        state: child_state(object),
        hold: hold(object, revert_to),
        completed: status.and_then(|s| s.completion_time.as_ref()).map(|t| t.0),
        name,
    })
}

/// Whether an object may be deleted by itself, where its VM is told to go back to that name.
pub fn hold(object: &VMSnapshot, revert_to: Option<&str>) -> Hold {
    let named = revert_to.is_some() && revert_to == object.metadata.name.as_deref();
    if named || desired::is_kept(&object.spec) {
        Hold::Kept
    } else {
        Hold::Free
    }
}

/// The UID of the newest whole one that a schedule has made.
pub fn newest<'a>(
    objects: impl IntoIterator<Item = &'a VMSnapshot>,
    schedule: &str,
) -> Option<String> {
    let made = |object: &&VMSnapshot| maker(object).is_some_and(|(_, uid)| uid == schedule);
    let made = objects.into_iter().filter(made);
    let whole = made
        .filter_map(|object| child(object, None))
        .filter(|child| child.state == ChildState::Whole);
    whole.max_by_key(|child| child.slot).map(|child| child.uid)
}

fn child_state(object: &VMSnapshot) -> ChildState {
    if object.metadata.deletion_timestamp.is_some() {
        return ChildState::Leaving;
    }
    match object.status.as_ref().and_then(|s| s.phase) {
        Some(SnapshotPhase::Ready | SnapshotPhase::Expired) => ChildState::Whole,
        Some(SnapshotPhase::Failed) => ChildState::Failed,
        _ => ChildState::Active,
    }
}

/// The UID of the schedule that made an object.
pub fn maker(object: &VMSnapshot) -> Option<(&str, &str)> {
    let owners = object.metadata.owner_references.iter().flatten();
    let mut made_by = owners.filter(|o| o.controller == Some(true) && o.kind == "VMSnapshot");
    made_by.next().map(|o| (o.name.as_str(), o.uid.as_str()))
}
