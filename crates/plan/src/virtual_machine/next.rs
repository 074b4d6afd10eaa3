//! The planner: facts in, one step out.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::Timestamp;
use polyvirt_contract::RequestId;
use polyvirt_contract::model::{PowerOp, PowerState, Stage, VmState};

use crate::problem::Problem;
use crate::reason::Reason;
use crate::virtual_machine::facts::{
    Answer, Attention, Claim, DeletionPolicy, Desired, DesiredPower, Facts, Force, ImageReadiness,
    Intent, Life, Observed, OnDrift, Operation, OperationKind, Origin, ProviderFacts,
    RestartPolicy, Sent, Shape,
};
use crate::virtual_machine::revert;
use crate::virtual_machine::size::{differences, power_matches, tells_shape};
use crate::virtual_machine::step::{Done, Drift, Release, Step, WaitFor};

/// How long a change that was sent may take to show before it is sent again.
pub const RESEND_AFTER: Duration = Duration::from_secs(15);

/// How long a create whose answer never came may take to show, on a provider where create is not find-or-create.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(120);

/// How long a request whose caller has gone may be on its way to a provider that knows our contract.
const ON_ITS_WAY: Duration = Duration::from_secs(5);

/// A provider that is connected but slow to tell of its VMs wakes nobody.
const CONNECTING_RECHECK: Duration = Duration::from_secs(31);

/// The one next step for these facts.
pub fn next_step(facts: &Facts<'_>) -> Step {
    let step = match facts.object.life {
        Life::Deleting(policy) => deleting(facts, policy),
        Life::Alive => alive(facts),
    };
    match step {
        Step::Done(Done::Converged | Done::Drifted(_) | Done::RestartNeeded(_)) => {
            await_the_last_word(facts, step)
        }
        step => hold_back_repeats(facts, step),
    }
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
    match remaining(facts.now, sent.at, RESEND_AFTER) {
        Some(rest) => wait_for_effect(sent, rest),
        None => step,
    }
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
        Observed::Present(_) => Step::Delete,
    }
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
    match &desired.image {
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

fn present(facts: &Facts<'_>, desired: &Desired, vm: &VmState) -> Step {
    if let Some(wait) = unfinished(vm) {
        return wait;
    }
    if let Some(step) = revert::step(facts) {
        return step;
    }
    let shape = shape_step(facts, desired, vm);
    let power = power_step(facts, desired, vm);
    // A stopped VM is changed before it starts, so that the change needs no restart; a running one that is to stop is
    // stopped first for the same reason.
    let first = if vm.power == PowerState::On && desired.power != DesiredPower::On {
        [power, shape]
    } else {
        [shape, power]
    };
    if let Some(step) = first.into_iter().flatten().next() {
        return announced(facts, desired, step);
    }
    reboot(facts, vm)
        .or_else(|| restart(facts, desired, vm))
        .unwrap_or_else(|| settled(facts, desired, vm))
}

/// A VM that is half made, or half gone, is neither changed nor counted as made. Its provider tells when that is over.
fn unfinished(vm: &VmState) -> Option<Step> {
    let kind = match vm.stage {
        Stage::Whole => return None,
        Stage::Creating => OperationKind::Create,
        Stage::Deleting => OperationKind::Delete,
    };
    Some(Step::wait_at_most(WaitFor::Effect(kind), RESEND_AFTER))
}

/// A change is sent only when the record no longer claims what it changes.
fn announced(facts: &Facts<'_>, desired: &Desired, step: Step) -> Step {
    let applied = &facts.record.applied;
    let claims = match &step {
        Step::Power(_) => applied.power.is_some_and(|power| power != desired.power),
        Step::Reconfigure => applied
            .shape
            .as_ref()
            .is_some_and(|shape| *shape != desired.shape()),
        _ => false,
    };
    match step.operation() {
        Some(kind) if claims => Step::RecordChange(kind),
        _ => step,
    }
}

fn shape_step(facts: &Facts<'_>, desired: &Desired, vm: &VmState) -> Option<Step> {
    let declared = desired.shape();
    let found = differences(&declared, vm);
    let edited = facts
        .record
        .applied
        .shape
        .as_ref()
        .is_some_and(|applied| *applied != declared);
    // What waits for a restart is not what the VM shows: taking a change back is a change too.
    let something_waits =
        !vm.restart_required.is_empty() || !facts.record.restart_required.is_empty();
    if edited && !(found.is_empty() && tells_shape(vm) && !something_waits) {
        return Some(Step::Reconfigure);
    }
    let first_time = facts.record.applied.shape.is_none();
    if first_time && facts.object.origin == Origin::Created && !tells_shape(vm) {
        // We made it, but nobody remembers with what, and the provider does not tell.
        return Some(Step::Reconfigure);
    }
    let waits = |drift: &Drift| waits_for_restart(facts, vm, drift);
    // What waits for a restart may be an earlier change of the same field.
    let open = match (first_time, desired.on_size_drift) {
        (true, _) => !found.is_empty() || something_waits,
        (false, OnDrift::Correct) => !found.iter().all(waits),
        (false, OnDrift::Report) => false,
    };
    open.then_some(Step::Reconfigure)
}

/// A difference that the provider, or where it does not tell the last pass, has already said a restart will mend.
fn waits_for_restart(facts: &Facts<'_>, vm: &VmState, drift: &Drift) -> bool {
    let named = |list: &[String]| list.iter().any(|f| f == drift.field);
    let guessed = !facts.provider.tells_what_waits() && named(&facts.record.restart_required);
    vm.power == PowerState::On && (named(&vm.restart_required) || guessed)
}

fn power_step(facts: &Facts<'_>, desired: &Desired, vm: &VmState) -> Option<Step> {
    let Some(matches) = power_matches(desired.power, vm.power) else {
        return Some(Step::wait_at_most(
            WaitFor::PowerUnknown,
            Duration::from_secs(30),
        ));
    };
    if matches {
        return None;
    }
    let drifted = facts.record.applied.power == Some(desired.power);
    if drifted && desired.on_power_drift == OnDrift::Report {
        return None;
    }
    Some(match desired.power {
        DesiredPower::On => Step::power(PowerOp::On),
        DesiredPower::Off => Step::power(PowerOp::Off),
        DesiredPower::OffGraceful => graceful_stop(facts, desired),
    })
}

/// Asks the guest once, waits for the deadline, then pulls the plug.
fn graceful_stop(facts: &Facts<'_>, desired: &Desired) -> Step {
    let asked = facts
        .record
        .operation
        .as_ref()
        .filter(|o| o.kind == OperationKind::GracefulStop);
    let Some(asked) = asked else {
        return Step::power(PowerOp::ShutdownGraceful {
            timeout: desired.graceful_timeout,
        });
    };
    match remaining(facts.now, asked.since, desired.graceful_timeout) {
        Some(rest) => Step::wait_at_most(WaitFor::GuestShutdown, rest),
        None => Step::power(PowerOp::Off),
    }
}

fn reboot(facts: &Facts<'_>, vm: &VmState) -> Option<Step> {
    let asked = facts.object.reboot;
    let open = !asked.is_empty() && asked != facts.record.reboot_handled;
    let request = RequestId::from(format!("reboot-{asked}"));
    let done = vm.last_request.as_ref() == Some(&request)
        || facts
            .sent
            .is_some_and(|s| s.request.as_ref() == Some(&request) && s.answer == Answer::Taken);
    (open && !done && vm.power == PowerState::On).then(|| Step::reboot(request))
}

fn restart(facts: &Facts<'_>, desired: &Desired, vm: &VmState) -> Option<Step> {
    let fields = restart_fields(facts, desired, vm);
    let wanted = !fields.is_empty()
        && desired.restart == RestartPolicy::WhenNeeded
        && vm.power == PowerState::On;
    if wanted && is_unrecorded_reboot(facts, vm) {
        // The next request makes the provider forget this one.
        return Some(Step::RecordChange(OperationKind::Reboot));
    }
    wanted.then(|| Step::reboot(restart_request(&desired.shape(), vm)))
}

/// One restart for one change: the same as long as neither the declaration nor the VM moves.
fn restart_request(shape: &Shape, vm: &VmState) -> RequestId {
    let mut hasher = DefaultHasher::new();
    shape.hash(&mut hasher);
    RequestId::from(format!("restart-{:016x}-{}", hasher.finish(), vm.revision))
}

/// Whether a reboot that was asked for was carried out, and only the provider knows.
fn is_unrecorded_reboot(facts: &Facts<'_>, vm: &VmState) -> bool {
    let asked = facts.object.reboot;
    let request = RequestId::from(format!("reboot-{asked}"));
    asked != facts.record.reboot_handled && vm.last_request.as_ref() == Some(&request)
}

fn restart_fields(facts: &Facts<'_>, desired: &Desired, vm: &VmState) -> Vec<String> {
    if !vm.restart_required.is_empty() {
        return vm.restart_required.clone();
    }
    differences(&desired.shape(), vm)
        .iter()
        .filter(|d| waits_for_restart(facts, vm, d))
        .map(|d| d.field.to_owned())
        .collect()
}

fn settled(facts: &Facts<'_>, desired: &Desired, vm: &VmState) -> Step {
    let waiting = restart_fields(facts, desired, vm);
    let mut drifts: Vec<_> = differences(&desired.shape(), vm)
        .into_iter()
        .filter(|d| !waiting.iter().any(|f| f == d.field))
        .collect();
    if power_matches(desired.power, vm.power) == Some(false) {
        let found = vm.power.wire();
        drifts.push(Drift {
            field: "spec.powerState",
            declared: format!("{:?}", desired.power),
            found: found.to_owned(),
        });
    }
    Step::Done(match (drifts.is_empty(), waiting.is_empty()) {
        (false, _) => Done::Drifted(drifts),
        (true, false) => Done::RestartNeeded(waiting),
        (true, true) => Done::Converged,
    })
}

/// The time left of `span` since `start`; `None` when it is over. A start in the future counts as now: clocks jump.
pub fn remaining(now: Timestamp, start: Timestamp, span: Duration) -> Option<Duration> {
    let passed = Duration::try_from(now.duration_since(start)).unwrap_or(Duration::ZERO);
    span.checked_sub(passed).filter(|rest| !rest.is_zero())
}
