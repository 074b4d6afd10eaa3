//! The planner of moves: facts in, one step out.

use std::time::Duration;

use polyvirt_contract::model::{MigrationMode, PowerState, Stage, VmState};
use polyvirt_contract::{ErrorKind, Extension, ProviderError};

use super::facts::{Facts, Intent, Observed, Quiet, VmFacts, Wish};
use super::step::{Done, End, Release, Step, Stop, WaitFor};
use crate::problem::Problem;
use crate::reason::Reason;
use crate::snapshot::Life;
use crate::virtual_machine::next::{ON_ITS_WAY, remaining};
use crate::virtual_machine::{Attention, Claim, Force, ProviderFacts};

/// A provider that is connected but slow to tell of its VMs wakes nobody.
const CONNECTING_RECHECK: Duration = Duration::from_secs(31);

/// The one next step for these facts.
pub fn next_step(facts: &Facts<'_>) -> Step {
    match facts.object.life {
        Life::Deleting => deleting(facts),
        Life::Alive => alive(facts),
    }
}

fn alive(facts: &Facts<'_>) -> Step {
    if let Some(result) = facts.record.result {
        return Step::Done(Done::Over(result));
    }
    if facts.object.attention == Attention::Paused {
        return Step::Done(Done::Paused);
    }
    if facts.record.is_open() {
        return open(facts);
    }
    not_begun(facts)
}

fn deleting(facts: &Facts<'_>) -> Step {
    if facts.object.claim != Claim::Held {
        return Step::Done(Done::NothingToRelease);
    }
    if facts.object.force == Force::Yes {
        return Step::Release(Release::Forced);
    }
    if !facts.record.is_open() {
        return Step::Release(Release::AtRest);
    }
    if facts.object.attention == Attention::Paused {
        return Step::Done(Done::Paused);
    }
    open(facts)
}

fn not_begun(facts: &Facts<'_>) -> Step {
    if facts.object.wish == Wish::Cancel {
        return Step::Finish(End::Stopped(Stop::Asked));
    }
    if let Some(wait) = vm_in_the_way(facts).or_else(|| unreachable(facts)) {
        return wait;
    }
    let desired = match facts.desired {
        Ok(desired) => desired,
        Err(problem) => return Step::Stop(problem.clone()),
    };
    if let Some(problem) = unsupported(facts) {
        return Step::Stop(problem);
    }
    if let Some(other) = facts.rival {
        return Step::wait(WaitFor::Behind(other.to_owned()));
    }
    let vm = match facts.observed {
        Observed::Unknown => return Step::Look,
        Observed::NoVm => return Step::wait(WaitFor::VmNotMade),
        Observed::Vm(vm) => vm,
    };
    if !desired.request.target_host.is_empty() && vm.host == desired.request.target_host {
        return Step::Finish(End::WasThere);
    }
    if facts.vm == VmFacts::Busy || vm.stage != Stage::Whole {
        return Step::wait(WaitFor::VmBusy);
    }
    if desired.request.mode == MigrationMode::Live && vm.power == PowerState::Off {
        return Step::wait(WaitFor::VmOff);
    }
    if facts.object.claim != Claim::Held {
        return Step::Claim;
    }
    Step::RecordIntent
}

fn vm_in_the_way(facts: &Facts<'_>) -> Option<Step> {
    let on = match facts.vm {
        VmFacts::Missing => WaitFor::VmMissing,
        VmFacts::NotMade => WaitFor::VmNotMade,
        VmFacts::Leaving => WaitFor::VmLeaving,
        VmFacts::Busy | VmFacts::Made => return None,
    };
    Some(Step::wait(on))
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

fn unsupported(facts: &Facts<'_>) -> Option<Problem> {
    let ProviderFacts::Ready { features, .. } = facts.provider else {
        return None;
    };
    let text = "The provider of this VM does not move VMs between hosts. Delete this object, or stop the VM and start it elsewhere";
    (!features.has(Extension::Migrate))
        .then(|| Problem::new(Reason::UnsupportedByProvider, "spec.source.vmRef", text))
}

/// It has begun, and nobody has written down how it ended.
fn open(facts: &Facts<'_>) -> Step {
    if let (Intent::JustWritten, Some(other)) = (facts.intent, facts.rival) {
        return Step::Yield(other.to_owned());
    }
    if let Some(wait) = unreachable(facts) {
        return wait;
    }
    match (&facts.record.task, stop(facts)) {
        (Some(_), Some(why)) if facts.record.cancelled.is_none() => Step::Cancel(why),
        (Some(task), _) => Step::CheckTask(task.clone()),
        (None, why) => look(facts, why),
    }
}

/// Why it should not go on.
fn stop(facts: &Facts<'_>) -> Option<Stop> {
    if facts.object.life == Life::Deleting {
        return Some(Stop::Deleted);
    }
    if facts.object.wish == Wish::Cancel {
        return Some(Stop::Asked);
    }
    if matches!(facts.vm, VmFacts::Missing | VmFacts::Leaving) {
        return Some(Stop::VmLeaving);
    }
    let timeout = facts.desired.map_or(Duration::MAX, |d| d.timeout);
    let begun = facts.record.begun?;
    remaining(facts.now, begun, timeout)
        .is_none()
        .then_some(Stop::TimedOut)
}

/// No task is known. Where the VM is tells what is left to do.
fn look(facts: &Facts<'_>, why: Option<Stop>) -> Step {
    let vm = match facts.observed {
        Observed::Unknown => return Step::Look,
        Observed::NoVm => return Step::Finish(End::VmGone),
        Observed::Vm(vm) => vm,
    };
    if facts.has_arrived(vm) {
        return Step::Finish(End::Moved);
    }
    match (why, facts.failure) {
        (Some(why), _) => stopped(facts, why),
        (None, Some(error)) => failed(facts, error),
        (None, None) => send(facts, vm),
    }
}

/// It is over when the provider says that it is not at it, and no request can arrive any more.
fn stopped(facts: &Facts<'_>, why: Stop) -> Step {
    if facts.quiet == Quiet::Unknown {
        return Step::Cancel(why);
    }
    let since = facts.record.begun.max(facts.connected);
    let rest = since.and_then(|since| remaining(facts.now, since, ON_ITS_WAY));
    match rest {
        Some(rest) => Step::wait_at_most(WaitFor::LateRequest, rest),
        None => Step::Finish(End::Stopped(why)),
    }
}

fn failed(facts: &Facts<'_>, error: &ProviderError) -> Step {
    let allowed = facts.desired.map_or(0, |d| d.retries);
    if is_final(error) || facts.record.retries >= allowed {
        return Step::Finish(End::Failed(error.clone()));
    }
    Step::Retry(error.clone())
}

/// Whether the same request can only fail again.
const fn is_final(error: &ProviderError) -> bool {
    matches!(
        error.kind,
        ErrorKind::Invalid
            | ErrorKind::Unsupported
            | ErrorKind::IdentityConflict
            | ErrorKind::NameConflict
            | ErrorKind::Cancelled
    )
}

fn send(facts: &Facts<'_>, vm: &VmState) -> Step {
    if let Some(rest) = pause(facts) {
        return Step::wait_at_most(WaitFor::Pause, rest);
    }
    let live = facts
        .desired
        .is_ok_and(|d| d.request.mode == MigrationMode::Live);
    if live && vm.power == PowerState::Off {
        let text = "The VM was stopped before it could move. Start it and make another VMMigration";
        return Step::Finish(End::Failed(ProviderError::new(
            ErrorKind::Precondition,
            text,
        )));
    }
    match facts.desired {
        Ok(_) => Step::Send,
        Err(problem) => {
            let text = problem.to_string();
            Step::Finish(End::Failed(ProviderError::new(ErrorKind::Invalid, text)))
        }
    }
}

/// What is left of the pause after a failure.
fn pause(facts: &Facts<'_>) -> Option<Duration> {
    let (failed, desired) = (facts.record.failed?, facts.desired.ok()?);
    let doublings = facts.record.retries.saturating_sub(1);
    let growth = desired.growth.max(1).saturating_pow(doublings);
    remaining(facts.now, failed, desired.pause.saturating_mul(growth))
}
