//! The planner of snapshots: facts in, one step out.

use std::time::Duration;

use jiff::Timestamp;
use polyvirt_contract::model::SnapshotContents;

use crate::problem::Problem;
use crate::reason::Reason;
use crate::snapshot::facts::{Facts, Intent, Life, Maker, Observed, OnVmGone, VmFacts};
use crate::snapshot::schedule::Hold;
use crate::snapshot::step::{Done, EndOfLife, Lost, Release, Step, WaitFor};
use crate::virtual_machine::next::FORGOTTEN_AFTER;
use crate::virtual_machine::{Attention, Claim, Force, OperationKind, ProviderFacts};

/// A provider that is connected but slow to tell of its VMs wakes nobody.
const CONNECTING_RECHECK: Duration = Duration::from_secs(31);

/// How often a request that nobody remembers is looked for.
const EFFECT_RECHECK: Duration = Duration::from_secs(15);

/// The one next step for these facts.
pub fn next_step(facts: &Facts<'_>) -> Step {
    match facts.object.life {
        Life::Deleting => deleting(facts),
        Life::Alive if facts.object.attention == Attention::Paused => Step::Done(Done::Paused),
        Life::Alive if goes_with_its_maker(facts) => Step::DeleteObject(EndOfLife::ScheduleGone),
        Life::Alive if facts.record.completed.is_some() => taken(facts),
        Life::Alive => not_taken(facts),
    }
}

/// What is held outlives the schedule that made it.
fn goes_with_its_maker(facts: &Facts<'_>) -> bool {
    facts.maker == Maker::Gone && facts.hold == Hold::Free
}

/// When a snapshot that is at rest has to be looked at again: its life, or its time of grace, ends.
pub fn alarm(facts: &Facts<'_>) -> Option<Duration> {
    let (expires, deleted) = lifetime(facts)?;
    let next = if facts.now < expires {
        expires
    } else {
        deleted
    };
    Duration::try_from(next.duration_since(facts.now)).ok()
}

/// When its life ends, and when it is deleted. `None` for a snapshot that is kept, or was not taken.
pub fn lifetime(facts: &Facts<'_>) -> Option<(Timestamp, Timestamp)> {
    let free = facts.hold == Hold::Free;
    let completed = facts.record.completed.filter(|_| free)?;
    let desired = facts.desired.ok()?;
    let expires = completed.checked_add(desired.max_age?).ok()?;
    let deleted = expires.checked_add(desired.grace).ok()?;
    Some((expires, deleted))
}

/// It was whole once. Nothing is asked for: what the provider tells by itself is enough to say how it stands.
fn taken(facts: &Facts<'_>) -> Step {
    if let Some(end) = without_its_object(facts) {
        return end;
    }
    match lifetime(facts) {
        Some((_, deleted)) if facts.now >= deleted => {
            return Step::DeleteObject(EndOfLife::Expired);
        }
        _ => {}
    }
    Step::Done(match facts.observed {
        // It is known to go, and what becomes of its snapshots is decided when it is gone.
        _ if facts.vm == VmFacts::Leaving => at_rest(facts),
        Observed::Silent | Observed::NoVm => Done::Lost(Lost::WithItsVm),
        Observed::Listed(_) if facts.found().is_none() => Done::Lost(Lost::Alone),
        Observed::Gone => Done::Lost(Lost::Alone),
        _ => at_rest(facts),
    })
}

fn at_rest(facts: &Facts<'_>) -> Done {
    match lifetime(facts) {
        Some((expires, deleted)) if facts.now >= expires => Done::Expired(deleted),
        _ => Done::Ready,
    }
}

/// The VirtualMachine is gone. Its VM may have been retained: only the provider knows.
fn without_its_object(facts: &Facts<'_>) -> Option<Step> {
    let reachable = matches!(facts.provider, ProviderFacts::Ready { .. });
    if facts.vm != VmFacts::Missing || !reachable {
        return None;
    }
    match facts.observed {
        Observed::Unknown | Observed::Silent => Some(Step::Look),
        Observed::NoVm if on_vm_gone(facts) == OnVmGone::Delete => {
            Some(Step::DeleteObject(EndOfLife::VmGone))
        }
        _ => None,
    }
}

fn on_vm_gone(facts: &Facts<'_>) -> OnVmGone {
    facts.desired.map_or(OnVmGone::Keep, |d| d.on_vm_gone)
}

fn not_taken(facts: &Facts<'_>) -> Step {
    if let Some(step) = vm_in_the_way(facts) {
        return step;
    }
    if let Some(wait) = unreachable(facts) {
        return wait;
    }
    if let Some(problem) = facts.desired.err() {
        return Step::Stop(problem.clone());
    }
    if let Some(problem) = unsupported(facts) {
        return Step::Stop(problem);
    }
    if facts.object.claim != Claim::Held {
        return Step::Claim;
    }
    if facts.record.vm.is_none() {
        return Step::RecordIntent;
    }
    if let Some(step) = task_in_flight(facts) {
        return step;
    }
    seen(facts)
}

/// Before the VM is written down it has to be there; afterwards only the hypervisor can tell.
fn vm_in_the_way(facts: &Facts<'_>) -> Option<Step> {
    match facts.vm {
        VmFacts::Leaving => Some(Step::wait(WaitFor::VmLeaving)),
        VmFacts::Missing if facts.record.vm.is_none() => Some(Step::wait(WaitFor::VmMissing)),
        VmFacts::NotMade if facts.record.vm.is_none() => Some(Step::wait(WaitFor::VmNotMade)),
        _ => None,
    }
}

fn seen(facts: &Facts<'_>) -> Step {
    match facts.observed {
        Observed::Unknown | Observed::Silent => Step::Look,
        Observed::NoVm => vm_gone_before(facts),
        Observed::Listed(_) if facts.found().is_some() => Step::Done(Done::Ready),
        // It gave an id, and nothing is at work any more.
        Observed::Untold if facts.record.id.is_some() && facts.record.operation.is_none() => {
            Step::Done(Done::Ready)
        }
        Observed::Untold | Observed::Listed(_) | Observed::Gone => create(facts),
    }
}

fn vm_gone_before(facts: &Facts<'_>) -> Step {
    if facts.vm == VmFacts::Missing && on_vm_gone(facts) == OnVmGone::Delete {
        return Step::DeleteObject(EndOfLife::VmGone);
    }
    Step::Stop(Problem::new(
        Reason::VmMissing,
        "spec.vmRef.name",
        "The VM is gone from the hypervisor: there is nothing to take a snapshot of. Delete this object",
    ))
}

fn create(facts: &Facts<'_>) -> Step {
    if facts.provider.has_identity() || facts.intent == Intent::JustWritten {
        return Step::Create;
    }
    request_under_way(facts).unwrap_or(Step::RecordIntent)
}

/// Without identities a request may have been sent that nobody remembers.
fn request_under_way(facts: &Facts<'_>) -> Option<Step> {
    let sent = facts.record.operation.as_ref().filter(|_| is_open(facts))?;
    let passed = Duration::try_from(facts.now.duration_since(sent.since)).unwrap_or_default();
    let rest = FORGOTTEN_AFTER
        .checked_sub(passed)
        .filter(|r| !r.is_zero())?;
    Some(Step::wait_at_most(
        WaitFor::Effect(OperationKind::Create),
        rest.min(EFFECT_RECHECK),
    ))
}

fn task_in_flight(facts: &Facts<'_>) -> Option<Step> {
    let operation = facts.record.operation.as_ref()?;
    operation.task.clone().map(Step::CheckTask)
}

fn unreachable(facts: &Facts<'_>) -> Option<Step> {
    match facts.provider {
        ProviderFacts::Ready { .. } => None,
        ProviderFacts::Connecting => Some(Step::wait_at_most(
            WaitFor::ProviderConnecting,
            CONNECTING_RECHECK,
        )),
        ProviderFacts::Unavailable => Some(Step::wait(WaitFor::ProviderUnavailable)),
        ProviderFacts::Missing => Some(Step::wait(WaitFor::ProviderMissing)),
    }
}

/// What the provider says that it cannot do is not asked of it.
fn unsupported(facts: &Facts<'_>) -> Option<Problem> {
    let ProviderFacts::Ready { capabilities, .. } = facts.provider else {
        return None;
    };
    let with_memory = facts
        .desired
        .is_ok_and(|d| d.request.contents == SnapshotContents::DisksAndMemory);
    let problem = |field, text| Problem::new(Reason::UnsupportedByProvider, field, text);
    if !capabilities.snapshots {
        let text = "The provider of this VM takes no snapshots. Delete this object";
        return Some(problem("spec.vmRef.name", text));
    }
    if with_memory && !capabilities.memory_snapshots {
        let text = "The provider of this VM takes snapshots without memory only. Make another VMSnapshot without it";
        return Some(problem("spec.snapshotConfig.includeMemory", text));
    }
    None
}

fn deleting(facts: &Facts<'_>) -> Step {
    if facts.object.claim == Claim::Missing {
        return Step::Done(Done::NothingToRelease);
    }
    if facts.object.force == Force::Yes {
        return Step::Release(Release::Forced);
    }
    if facts.object.attention == Attention::Paused {
        return Step::Done(Done::Paused);
    }
    if facts.record.vm.is_none() {
        return Step::Release(Release::NeverTaken);
    }
    if let Some(wait) = unreachable(facts) {
        return wait;
    }
    if let Some(step) = task_in_flight(facts) {
        return step;
    }
    absent_or_delete(facts)
}

fn absent_or_delete(facts: &Facts<'_>) -> Step {
    match facts.observed {
        Observed::Unknown | Observed::Silent => Step::Look,
        Observed::NoVm => Step::Release(Release::VmGone),
        Observed::Gone => Step::Release(Release::Proved),
        Observed::Listed(_) if facts.found().is_some() => Step::Delete,
        Observed::Listed(_) => not_listed(facts),
        Observed::Untold if facts.record.id.is_some() => Step::Delete,
        Observed::Untold => not_known(facts),
    }
}

/// The provider may still be at work on a request whose answer was lost: asked again, it tells of the same snapshot.
fn not_listed(facts: &Facts<'_>) -> Step {
    if facts.provider.has_identity() && is_open(facts) {
        return Step::Create;
    }
    request_under_way(facts).unwrap_or(Step::Release(Release::Proved))
}

fn is_open(facts: &Facts<'_>) -> bool {
    let operation = facts.record.operation.as_ref();
    operation.is_some_and(|o| o.kind == OperationKind::Create && o.task.is_none())
}

/// The provider tells no list and never told us an id.
fn not_known(facts: &Facts<'_>) -> Step {
    if !is_open(facts) {
        return Step::Release(Release::NeverTaken);
    }
    if facts.provider.has_identity() {
        return Step::Create;
    }
    Step::Stop(Problem::new(
        Reason::SnapshotFailed,
        "spec.snapshotConfig.name",
        format!(
            "The provider did not say whether it took the snapshot, and tells no list. Look for {} there, then set the annotation virtrigaud.io/force-delete=true",
            facts.name
        ),
    ))
}
