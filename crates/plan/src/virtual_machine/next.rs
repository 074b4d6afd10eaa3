//! The planner: facts in, one step out.

mod present;

use std::time::Duration;

use jiff::Timestamp;
use polyvirt_contract::model::VmState;

use crate::problem::Problem;
use crate::reason::Reason;
use crate::virtual_machine::facts::{
    Answer, Attention, Claim, DeletionPolicy, Desired, Facts, Force, ImageReadiness, Intent, Life,
    Observed, OnDrift, Operation, OperationKind, Origin, Placing, ProviderFacts, Sent,
};
use crate::virtual_machine::hooks;
use crate::virtual_machine::step::{Done, Release, Step, WaitFor};

use present::present;

/// How long a change that was sent may take to show before it is sent again.
pub const RESEND_AFTER: Duration = Duration::from_secs(15);

/// How long a create whose answer never came may take to show, on a provider where create is not find-or-create.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(120);

/// How long a request whose caller has gone may be on its way to a provider that knows our contract.
pub const ON_ITS_WAY: Duration = Duration::from_secs(5);

/// A provider that is connected but slow to tell of its VMs wakes nobody.
const CONNECTING_RECHECK: Duration = Duration::from_secs(31);

/// The one next step for these facts.
pub fn next_step(facts: &Facts<'_>) -> Step {
    let step = match facts.object.life {
        Life::Deleting(policy) => deleting(facts, policy),
        Life::Alive => alive(facts),
    };
    if let Some(wait) = wait_for_move(facts, &step) {
        return wait;
    }
    match step {
        Step::Done(Done::Converged | Done::Drifted(_) | Done::RestartNeeded(_)) => {
            await_the_last_word(facts, step)
        }
        step => hold_back_repeats(facts, step),
    }
}

/// While a VM moves nobody else changes it, and what is seen of it is no verdict: it may show on two hosts, or on none.
fn wait_for_move(facts: &Facts<'_>, step: &Step) -> Option<Step> {
    let harmless = matches!(
        step,
        Step::Claim
            | Step::Look
            | Step::CheckTask(_)
            | Step::Release(Release::Forced | Release::Retained)
            | Step::Wait(_)
            | Step::Done(Done::Paused | Done::NothingToRelease)
    );
    let name = facts.moving.filter(|_| !harmless)?;
    Some(Step::wait(WaitFor::Moving(name.to_owned())))
}

/// What we see may be older than what we sent last. A verdict on it would take our own change for somebody else's.
fn await_the_last_word(facts: &Facts<'_>, verdict: Step) -> Step {
    let Some(sent) = facts.sent else {
        return verdict;
    };
    let open = sent.answer == Answer::Open || always_shows(sent.kind);
    match remaining(facts.asked, sent.at, RESEND_AFTER).filter(|_| open) {
        Some(rest) => wait_for_effect(sent, rest),
        None => verdict,
    }
}

/// Whether the operation, once carried out, changes what a provider tells of the VM.
const fn always_shows(kind: OperationKind) -> bool {
    matches!(kind, OperationKind::PowerOn | OperationKind::PowerOff)
}

fn wait_for_effect(sent: &Sent, rest: Duration) -> Step {
    let on = match sent.answer {
        Answer::Open => WaitFor::Answer,
        Answer::Taken => WaitFor::Effect(sent.kind),
    };
    Step::wait_at_most(on, rest.min(Duration::from_secs(2)))
}

/// A change that was just sent and has not shown yet is waited for, not sent again; and what needs to know whether the VM
/// runs waits for a change of power.
fn hold_back_repeats(facts: &Facts<'_>, step: Step) -> Step {
    let Some(kind) = step.operation() else {
        return step;
    };
    let holds = |s: &&Sent| s.kind == kind || (always_shows(s.kind) && step != Step::Delete);
    let Some(sent) = facts.sent.filter(holds) else {
        return step;
    };
    if is_lost_create(facts, sent) {
        return step;
    }
    match remaining(facts.now, sent.at, RESEND_AFTER) {
        Some(rest) => wait_for_effect(sent, rest),
        None => step,
    }
}

/// A create whose provider came back after it was sent: its answer can no longer come, and where create finds what is there
/// another one does no harm.
fn is_lost_create(facts: &Facts<'_>, sent: &Sent) -> bool {
    let came_back = facts.connected.is_some_and(|since| since > sent.at);
    let open = sent.kind == OperationKind::Create && sent.answer == Answer::Open;
    open && came_back && facts.provider.has_identity()
}

fn deleting(facts: &Facts<'_>, policy: DeletionPolicy) -> Step {
    match facts.object.claim {
        Claim::Missing => return Step::Done(Done::NothingToRelease),
        Claim::Disputed => return Step::Release(Release::NotOurs),
        Claim::Held
            if facts.object.attention == Attention::Paused && facts.object.force == Force::No =>
        {
            return Step::Done(Done::Paused);
        }
        Claim::Held if facts.object.force == Force::Yes => return Step::Release(Release::Forced),
        Claim::Held if policy == DeletionPolicy::Retain => return retain(facts),
        Claim::Held => {}
    }
    if never_created(facts) {
        return Step::Release(Release::Proved);
    }
    if let Some(wait) = unreachable(facts) {
        return wait;
    }
    if let Some(step) = task_in_flight(facts) {
        return step;
    }
    match facts.observed {
        Observed::Unknown => Step::Look,
        Observed::Absent => create_under_way(facts)
            .or_else(|| create_of_a_former_life(facts))
            .unwrap_or(Step::Release(Release::Proved)),
        Observed::Stranger(_) => Step::Release(Release::NotOurs),
        Observed::Present(vm) => wait_for_keeper(facts)
            .or_else(|| hooks::before_delete(facts, vm))
            .unwrap_or(Step::Delete),
    }
}

/// No snapshot outlives its VM on any hypervisor: one that is to stay keeps the VM until somebody decides.
fn wait_for_keeper(facts: &Facts<'_>) -> Option<Step> {
    let name = facts.keeper?;
    Some(Step::wait(WaitFor::Keeper(name.to_owned())))
}

/// A VM that comes late and says not whose it is would be taken for the one of the next object of this name.
fn retain(facts: &Facts<'_>) -> Step {
    let nameless = !facts.provider.has_identity();
    let late = create_under_way(facts).filter(|_| nameless);
    late.unwrap_or(Step::Release(Release::Retained))
}

/// A create may have been sent whose answer nobody heard: its VM is waited for before its absence proves anything.
fn create_under_way(facts: &Facts<'_>) -> Option<Step> {
    let Intent::Older(since) = facts.intent else {
        return None;
    };
    // Where create finds what is there, an unanswered one may come after one that was answered.
    if facts.record.id.is_some() && !facts.provider.has_identity() {
        return None;
    }
    let span = if facts.provider.has_identity() {
        ON_ITS_WAY
    } else {
        FORGOTTEN_AFTER
    };
    let rest = remaining(facts.asked, since, span)?;
    Some(Step::wait_at_most(
        WaitFor::LateCreate,
        rest.min(RESEND_AFTER),
    ))
}

/// A manager that died may have sent a create that is still on its way. It is let arrive before absence proves anything.
fn create_of_a_former_life(facts: &Facts<'_>) -> Option<Step> {
    if !facts.provider.has_identity() {
        // There the intent was written first.
        return None;
    }
    let rest = remaining(facts.asked, facts.connected?, ON_ITS_WAY)?;
    Some(Step::wait_at_most(WaitFor::LateCreate, rest))
}

/// Without identity a VM of ours exists only if we wrote down the intent or its id first.
fn never_created(facts: &Facts<'_>) -> bool {
    matches!(facts.provider, ProviderFacts::Ready { .. })
        && !facts.provider.has_identity()
        && facts.record.id.is_none()
        && facts.intent == Intent::Missing
}

fn alive(facts: &Facts<'_>) -> Step {
    if facts.object.attention == Attention::Paused {
        return Step::Done(Done::Paused);
    }
    let desired = match facts.desired {
        Ok(desired) => desired,
        Err(problem) => return Step::Stop(problem.clone()),
    };
    if let Some(wait) = unreachable(facts) {
        return wait;
    }
    match facts.object.claim {
        Claim::Missing => return Step::Claim,
        Claim::Disputed => return Step::Stop(disputed()),
        Claim::Held => {}
    }
    if let Some(step) = task_in_flight(facts) {
        return step;
    }
    match facts.observed {
        // Nothing to ask for: no create was sent, and none can be.
        Observed::Unknown if never_created(facts) && desired.image != ImageReadiness::Ready => {
            absent(facts, desired)
        }
        Observed::Unknown => Step::Look,
        Observed::Stranger(vm) => Step::Stop(stranger(vm)),
        Observed::Absent => absent(facts, desired),
        Observed::Present(vm) => present(facts, desired, vm),
    }
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

fn task_in_flight(facts: &Facts<'_>) -> Option<Step> {
    let operation = facts.record.operation.as_ref()?;
    let task = operation.task.clone()?;
    if overdue_shutdown(facts, operation) {
        return None;
    }
    Some(Step::CheckTask(task))
}

/// A guest that was asked to stop and takes too long is no longer waited for.
fn overdue_shutdown(facts: &Facts<'_>, operation: &Operation) -> bool {
    let timeout = facts.desired.map_or(Duration::MAX, |d| d.graceful_timeout);
    operation.kind == OperationKind::GracefulStop
        && remaining(facts.now, operation.since, timeout).is_none()
}

fn disputed() -> Problem {
    Problem::new(
        Reason::IdentityConflict,
        "metadata.annotations[polyvirt.io/identity]",
        "Another VirtualMachine carries the same identity. Remove the annotation from the copy, or delete the copy",
    )
}

fn stranger(vm: &VmState) -> Problem {
    let who = vm.owner.as_ref().map_or_else(
        || "carries no mark of ours".to_owned(),
        |o| format!("belongs to {}/{}", o.namespace, o.name),
    );
    Problem::new(
        Reason::IdentityConflict,
        "metadata.name",
        format!(
            "The VM {} ({}) on the hypervisor {who}; it will not be touched. Rename this object, or remove or rename that VM",
            vm.name, vm.id
        ),
    )
}

fn absent(facts: &Facts<'_>, desired: &Desired) -> Step {
    if facts.object.origin == Origin::Adopted && facts.record.id.is_none() {
        return Step::wait(WaitFor::AdoptionId);
    }
    let lost = facts.record.applied.reached.is_some() || facts.object.origin == Origin::Adopted;
    if lost && desired.on_deletion == OnDrift::Report {
        return Step::Stop(missing());
    }
    make(facts, desired)
}

/// Creates the VM as soon as its image is there and its host is chosen.
fn make(facts: &Facts<'_>, desired: &Desired) -> Step {
    match &desired.image {
        ImageReadiness::Ready if facts.placing == Placing::Open => Step::Place,
        ImageReadiness::Ready => create(facts),
        ImageReadiness::Waiting(what) => Step::wait(WaitFor::Image(what.clone())),
        ImageReadiness::Failed(why) => Step::Stop(Problem::new(
            Reason::ImageFailed,
            "spec.imageRef",
            why.clone(),
        )),
    }
}

fn missing() -> Problem {
    Problem::new(
        Reason::VmMissing,
        "spec.driftPolicy.deletion",
        "The VM was deleted on the hypervisor. Set spec.driftPolicy.deletion to Recreate to create it anew \
         (its disks are lost), or delete this object",
    )
}

fn create(facts: &Facts<'_>) -> Step {
    if facts.provider.has_identity() {
        return Step::Create;
    }
    match facts.intent {
        Intent::JustWritten(at) if is_fresh(at, facts.now) => Step::Create,
        Intent::JustWritten(_) | Intent::Missing => Step::RecordIntent,
        Intent::Older(_) => create_under_way(facts).unwrap_or(Step::RecordIntent),
    }
}

/// Whether a create that is sent now is still waited for by whoever reads the intent.
pub fn is_fresh(intent: Timestamp, now: Timestamp) -> bool {
    remaining(now, intent, RESEND_AFTER).is_some()
}

/// The time left of `span` since `start`; `None` when it is over. A start in the future counts as now: clocks jump.
pub fn remaining(now: Timestamp, start: Timestamp, span: Duration) -> Option<Duration> {
    let passed = Duration::try_from(now.duration_since(start)).unwrap_or(Duration::ZERO);
    span.checked_sub(passed).filter(|rest| !rest.is_zero())
}
