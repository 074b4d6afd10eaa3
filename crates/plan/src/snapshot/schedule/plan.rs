//! The planner of schedules: facts in, what to make and what to delete out.

use jiff::{SignedDuration, Timestamp};
use polyvirt_api::infra::ConcurrencyPolicy;

use crate::snapshot::schedule::facts::{Child, ChildState, Facts, Hold, InForce, Memory, Subject};

/// The most snapshots of one schedule that may be at work at once, whatever its policy.
pub const MOST_ACTIVE: usize = 10;

/// The most snapshots of one schedule. One that reaches it rests until some are gone.
pub const MOST_CHILDREN: usize = 500;

/// Objects that one pass deletes at most.
const MOST_DELETED: usize = 20;

/// A clock that is this far behind what was written down was wrong then.
const WRONG_CLOCK: SignedDuration = SignedDuration::from_hours(24);

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Snapshots to delete, oldest first.
    pub delete: Vec<Removal>,
    /// What becomes of the slot that is due.
    pub slot: Slot,
    /// What to write down when all of it is done.
    pub memory: Memory,
    /// The next slot; `None` if the schedule rests or has no more.
    pub next: Option<Timestamp>,
}

/// A snapshot to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Name of the object.
    pub name: String,
    /// UID of the object.
    pub uid: String,
    /// Why it goes.
    pub why: Why,
}

/// Why a snapshot of a schedule is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There are more than are to be kept.
    TooMany,
    /// There are more failed tries than are to be kept.
    TooManyFailed,
    /// A later one takes its place.
    Replaced,
}

/// What becomes of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// None is due.
    NotDue,
    /// Its snapshot is to be made.
    Make(Timestamp),
    /// It passes without a snapshot.
    LeftOut(Timestamp, LeftOut),
    /// It is due and waits for the VirtualMachine.
    Waits,
}

/// Why a slot passes without a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// An earlier one is still being taken.
    AtWork,
    /// There are too many to make another.
    Full,
    /// Somebody else has a VMSnapshot of its name.
    NameTaken,
}

impl Plan {
    /// The same, with a slot that turned out to have no snapshot.
    #[must_use]
    pub fn leave_out(mut self, at: Timestamp, why: LeftOut) -> Self {
        self.slot = Slot::LeftOut(at, why);
        self.memory.since = self.memory.since.max(Some(at));
        self
    }
}

/// What to do now.
pub fn plan(facts: &Facts<'_>) -> Plan {
    let memory = remembered(facts);
    let slot = slot(facts, &memory);
    let mut delete = surplus(facts);
    if let (Slot::Make(_), ConcurrencyPolicy::Replace) = (slot, facts.schedule.policy) {
        delete.extend(active(facts).map(|child| removal(child, Why::Replaced)));
    }
    let memory = after(memory, slot);
    Plan {
        delete,
        slot,
        next: next(facts, &memory),
        memory,
    }
}

/// What was written down, as far as it is still about this schedule and this clock.
fn remembered(facts: &Facts<'_>) -> Memory {
    let Memory { rule, since, last } = facts.memory.clone();
    if facts.schedule.force == InForce::Suspended {
        return Memory {
            rule,
            since: None,
            last,
        };
    }
    let same = rule.as_deref() == Some(facts.schedule.rule.as_str());
    let mut written = [since, last].into_iter().flatten();
    let wrong = written.any(|time| is_wrong(facts.now, time));
    Memory {
        rule: Some(facts.schedule.rule.clone()),
        since: since.filter(|_| same && !wrong).or(Some(facts.now)),
        last: last.filter(|_| !wrong).max(newest(facts)),
    }
}

/// What was made is remembered, whether it was written down or not.
fn newest(facts: &Facts<'_>) -> Option<Timestamp> {
    let slots = facts.children.iter().map(|child| child.slot);
    slots.filter(|slot| !is_wrong(facts.now, *slot)).max()
}

fn is_wrong(now: Timestamp, written: Timestamp) -> bool {
    written.duration_since(now) > WRONG_CLOCK
}

fn baseline(memory: &Memory) -> Option<Timestamp> {
    let since = memory.since?;
    Some(memory.last.map_or(since, |last| last.max(since)))
}

/// Of all slots that have passed the last one counts, so that a long night is followed by one snapshot.
fn slot(facts: &Facts<'_>, memory: &Memory) -> Slot {
    let due =
        baseline(memory).and_then(|from| facts.schedule.calendar.last_between(from, facts.now));
    let Some(due) = due else {
        return Slot::NotDue;
    };
    if facts.subject == Subject::Missing {
        return Slot::Waits;
    }
    match (facts.schedule.policy, active(facts).count()) {
        _ if facts.children.len() >= MOST_CHILDREN => Slot::LeftOut(due, LeftOut::Full),
        (_, 0) | (ConcurrencyPolicy::Replace, _) => Slot::Make(due),
        (ConcurrencyPolicy::Allow, few) if few < MOST_ACTIVE => Slot::Make(due),
        _ => Slot::LeftOut(due, LeftOut::AtWork),
    }
}

fn after(memory: Memory, slot: Slot) -> Memory {
    match slot {
        Slot::Make(at) => Memory {
            last: Some(at),
            ..memory
        },
        Slot::LeftOut(at, _) => Memory {
            since: Some(at),
            ..memory
        },
        Slot::NotDue | Slot::Waits => memory,
    }
}

fn next(facts: &Facts<'_>, memory: &Memory) -> Option<Timestamp> {
    let from = baseline(memory)?.max(facts.now);
    facts.schedule.calendar.next_after(from)
}

fn active<'a>(facts: &Facts<'a>) -> impl Iterator<Item = &'a Child> {
    let children = facts.children.iter();
    children.filter(|child| child.state == ChildState::Active)
}

/// What goes for its number, oldest first. The newest whole one always stays.
fn surplus(facts: &Facts<'_>) -> Vec<Removal> {
    let limits = facts.schedule.limits;
    let most = limits.whole.map_or(usize::MAX, |most| most.max(1));
    let mut list = beyond(facts, ChildState::Whole, most, Why::TooMany);
    list.extend(beyond(
        facts,
        ChildState::Failed,
        limits.failed,
        Why::TooManyFailed,
    ));
    list.truncate(MOST_DELETED);
    list
}

fn beyond(facts: &Facts<'_>, state: ChildState, most: usize, why: Why) -> Vec<Removal> {
    let children = facts.children.iter();
    let mut free: Vec<_> = children
        .filter(|c| c.state == state && c.hold == Hold::Free && is_past(facts, c))
        .collect();
    free.sort_by_key(|child| child.slot);
    let surplus = free.len().saturating_sub(most);
    free.truncate(surplus);
    free.into_iter().map(|child| removal(child, why)).collect()
}

/// Whether its slot cannot come again. One that nobody has written down would be made anew if its object were gone.
fn is_past(facts: &Facts<'_>, child: &Child) -> bool {
    let Memory { since, last, .. } = facts.memory;
    let rests = facts.schedule.force == InForce::Suspended;
    rests || Some(child.slot) <= (*since).max(*last)
}

fn removal(child: &Child, why: Why) -> Removal {
    Removal {
        name: child.name.clone(),
        uid: child.uid.clone(),
        why,
    }
}
