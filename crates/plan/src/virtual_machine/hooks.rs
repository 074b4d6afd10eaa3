//! Actions around start and stop: `spec.lifecycle`.
//!
//! ```text
//!             BeginHook        RunHook
//!   (none) ──────────► Running ───────┬─► Done ──────────────► the VM is started, or stopped
//!                        ▲            ├─► Waiting ─► RunHook     (it cannot have run: the guest still boots)
//!                        └── again ◄──┴─► Failed ──┬─ Ignore ──► the VM is started, or stopped
//!                                                  └─ Fail ────► Stop, until the spec changes or it is time for another try
//! ```
//!
//! `preStart` comes before the VM is switched on, `postStart` after that, `preStop` before it is switched off or deleted. Only
//! what we do ourselves has hooks: not a guest that shuts down by itself, and not a reboot.
//!
//! A hook is run at least once. Each try is written down before it is made, so a manager that dies makes it again, at most
//! [`MOST_TRIES`] times in all; what failed because somebody was not there goes on after that, ever more seldom. That a start is to be followed by `postStart` is written down before the start. What was written
//! goes when the VM is as declared: the next start is another one.

mod run;

use std::time::Duration;

use polyvirt_api::infra::{self as api, VirtualMachine};
use polyvirt_contract::model::{PowerState, VmState};

use crate::problem::Problem;
use crate::reason::Reason;
use crate::virtual_machine::facts::{Desired, Facts, OperationKind};
use crate::virtual_machine::next::remaining;
use crate::virtual_machine::step::{Step, WaitFor};

pub use polyvirt_api::infra::{HookFailurePolicy, HookState};
pub use run::{Again, Fresh, Run, Runs};
pub(super) use run::{from_status, to_status};

/// How often a hook is tried.
pub const MOST_TRIES: u32 = 3;

/// Between two tries.
pub const PAUSE: Duration = Duration::from_secs(5);

/// Between two tries of what failed [`MOST_TRIES`] times because somebody was not there. The last goes for all that follow.
pub const LATER: [Duration; 4] = [
    Duration::from_mins(1),
    Duration::from_mins(2),
    Duration::from_mins(5),
    Duration::from_mins(10),
];

/// How long a guest may take until its agent answers.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// When a hook is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the VM is switched on.
    PreStart,
    /// After the VM was switched on.
    PostStart,
    /// Before the VM is switched off or deleted.
    PreStop,
}

impl Moment {
    /// The field that says what to do then.
    pub const fn field(self) -> &'static str {
        match self {
            Self::PreStart => "spec.lifecycle.preStart",
            Self::PostStart => "spec.lifecycle.postStart",
            Self::PreStop => "spec.lifecycle.preStop",
        }
    }

    /// The last part of the field.
    pub const fn word(self) -> &'static str {
        match self {
            Self::PreStart => "preStart",
            Self::PostStart => "postStart",
            Self::PreStop => "preStop",
        }
    }
}

/// What to do at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    /// What to do.
    pub action: Action,
    /// How long it may take.
    pub timeout: Duration,
    /// What a failure means.
    pub on_failure: HookFailurePolicy,
}

/// What a hook does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Runs a command in the guest.
    Exec(Vec<String>),
    /// Calls a web server.
    HttpGet(api::HttpGetAction),
    /// Takes a snapshot.
    Snapshot(api::SnapshotAction),
}

/// The hooks of a VM.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hooks {
    /// The generation of the object that declares them.
    pub generation: Option<i64>,
    /// Before the start.
    pub pre_start: Option<Hook>,
    /// After the start.
    pub post_start: Option<Hook>,
    /// Before the stop.
    pub pre_stop: Option<Hook>,
}

macro_rules! by_moment {
    ($holder:ident, $of:ty) => {
        impl $holder {
            /// That of a moment.
            pub const fn at(&self, moment: Moment) -> Option<&$of> {
                match moment {
                    Moment::PreStart => self.pre_start.as_ref(),
                    Moment::PostStart => self.post_start.as_ref(),
                    Moment::PreStop => self.pre_stop.as_ref(),
                }
            }

            /// Replaces that of a moment.
            pub fn set(&mut self, moment: Moment, value: Option<$of>) {
                match moment {
                    Moment::PreStart => self.pre_start = value,
                    Moment::PostStart => self.post_start = value,
                    Moment::PreStop => self.pre_stop = value,
                }
            }
        }
    };
}

by_moment!(Hooks, Hook);
by_moment!(Runs, Run);

/// The hooks that are declared.
pub fn declared(vm: &VirtualMachine) -> Hooks {
    let Some(lifecycle) = vm.spec.lifecycle.as_deref() else {
        return Hooks::default();
    };
    Hooks {
        generation: vm.metadata.generation,
        pre_start: hook(lifecycle.pre_start.as_ref(), HookFailurePolicy::Fail),
        post_start: hook(lifecycle.post_start.as_ref(), HookFailurePolicy::Ignore),
        pre_stop: hook(lifecycle.pre_stop.as_ref(), HookFailurePolicy::Ignore),
    }
}

fn hook(handler: Option<&api::LifecycleHandler>, usual: HookFailurePolicy) -> Option<Hook> {
    let handler = handler?;
    let (action, seconds) = match (&handler.exec, &handler.http_get, &handler.snapshot) {
        (Some(exec), ..) => (Action::Exec(exec.command.clone()), 30),
        (None, Some(get), _) => (Action::HttpGet(get.clone()), 30),
        (None, None, Some(snapshot)) => (Action::Snapshot(snapshot.clone()), 300),
        (None, None, None) => return None,
    };
    let asked = handler.timeout_seconds.and_then(|s| u64::try_from(s).ok());
    Some(Hook {
        action,
        timeout: Duration::from_secs(asked.unwrap_or(seconds).clamp(1, 300)),
        on_failure: handler.failure_policy.unwrap_or(usual),
    })
}

/// What comes before a change of power; the change itself if nothing does.
pub(super) fn before(facts: &Facts<'_>, desired: &Desired, step: Step) -> Step {
    let first = match step.operation() {
        Some(OperationKind::PowerOn) => before_start(facts, desired),
        Some(OperationKind::PowerOff | OperationKind::GracefulStop) => {
            hold_or_run(facts, desired, Moment::PreStop)
        }
        _ => None,
    };
    first.unwrap_or(step)
}

fn before_start(facts: &Facts<'_>, desired: &Desired) -> Option<Step> {
    let owed = facts.record.hooks.post_start.as_ref();
    let owed = owed.is_some_and(|run| run.state == HookState::Due);
    let owe = desired.hooks.post_start.is_some() && !owed;
    hold_or_run(facts, desired, Moment::PreStart).or_else(|| owe.then_some(Step::OweHook))
}

/// A failure that counts keeps the VM as it is.
fn hold_or_run(facts: &Facts<'_>, desired: &Desired, moment: Moment) -> Option<Step> {
    let hook = desired.hooks.at(moment)?;
    let run = facts.record.hooks.at(moment);
    if let Some(failed) = run.filter(|run| is_over(facts, run)) {
        return match hook.on_failure {
            HookFailurePolicy::Ignore => None,
            HookFailurePolicy::Fail => Some(held(facts, moment, failed)),
        };
    }
    run_step(facts, moment)
}

/// Until somebody corrects it, or for a while.
fn held(facts: &Facts<'_>, moment: Moment, run: &Run) -> Step {
    let Some(at) = run.next_try else {
        return Step::Stop(problem(moment, run));
    };
    match Duration::try_from(at.duration_since(facts.now)) {
        Ok(rest) if !rest.is_zero() => Step::wait_at_most(WaitFor::NextTry(moment), rest),
        _ => Step::BeginHook(moment),
    }
}

fn problem(moment: Moment, run: &Run) -> Problem {
    let why = run.message.as_deref().unwrap_or("It did not end");
    let text = format!(
        "{why}. Correct it, or set failurePolicy to Ignore; any change of spec tries it again"
    );
    Problem::new(Reason::HookFailed, moment.field(), text)
}

/// Whether it failed for good, for the object as it is.
fn is_over(facts: &Facts<'_>, run: &Run) -> bool {
    let same = facts
        .desired
        .is_ok_and(|d| d.hooks.generation == run.generation);
    let spent =
        run.state == HookState::Running && run.fresh == Fresh::No && run.tries >= MOST_TRIES;
    same && (run.state == HookState::Failed || spent)
}

/// A VM that is on its way out is not kept by a hook that fails.
pub(super) fn before_delete(facts: &Facts<'_>, vm: &VmState) -> Option<Step> {
    let hook = facts.desired.ok()?.hooks.pre_stop.as_ref()?;
    // A snapshot would go with the VM.
    let runs = vm.power == PowerState::On && !matches!(hook.action, Action::Snapshot(_));
    let run = facts.record.hooks.pre_stop.as_ref().filter(|_| runs);
    match run {
        _ if !runs => None,
        Some(run) if run.state == HookState::Failed || is_over(facts, run) => None,
        _ => run_step(facts, Moment::PreStop),
    }
}

/// What a VM that was started still lacks.
pub(super) fn after_start(facts: &Facts<'_>, desired: &Desired, vm: &VmState) -> Option<Step> {
    facts.record.hooks.post_start.as_ref()?;
    let on = vm.power == PowerState::On;
    on.then(|| hold_or_run(facts, desired, Moment::PostStart))?
}

fn run_step(facts: &Facts<'_>, moment: Moment) -> Option<Step> {
    let Some(run) = facts.record.hooks.at(moment) else {
        return Some(Step::BeginHook(moment));
    };
    match (run.state, run.fresh) {
        (HookState::Done, _) => None,
        (HookState::Running, Fresh::Yes) | (HookState::Waiting, _) => Some(Step::RunHook(moment)),
        (HookState::Running, Fresh::No) => match remaining(facts.now, run.since, PAUSE) {
            Some(rest) => Some(Step::wait_at_most(WaitFor::Hook(moment), rest)),
            None => Some(Step::BeginHook(moment)),
        },
        (HookState::Due | HookState::Failed, _) => Some(Step::BeginHook(moment)),
    }
}
