//! What is written down of a hook.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{self as api, VirtualMachineStatus};

use super::{HookState, LATER, MOST_TRIES, PATIENCE};
use crate::virtual_machine::next::remaining;

/// What became of the hooks of the start or stop under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// Before the start.
    pub pre_start: Option<Run>,
    /// After the start.
    pub post_start: Option<Run>,
    /// Before the stop.
    pub pre_stop: Option<Run>,
}

/// How far a hook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// How far it is.
    pub state: HookState,
    /// Whether this very process is at it.
    pub fresh: Fresh,
    /// How often it was tried.
    pub tries: u32,
    /// When it was last begun.
    pub since: Timestamp,
    /// The generation of the object that it was run for.
    pub generation: Option<i64>,
    /// Why it failed.
    pub message: Option<String>,
    /// When it is tried again though it has failed as often as hooks are tried: only what others were missing for.
    pub next_try: Option<Timestamp>,
}

/// Whether this very process is at a try that was written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fresh {
    /// An earlier one was: it may have been run.
    #[default]
    No,
    /// This one is: this pass has just written it down, or the try is under way.
    Yes,
}

impl Run {
    /// A first or next try, begun by this pass.
    #[must_use]
    pub fn begin(before: Option<&Self>, generation: Option<i64>, now: Timestamp) -> Self {
        let same = before.filter(|run| run.generation == generation);
        let tries = same.map_or(0, |run| run.tries) + 1;
        // A manager that dies in it does not end it.
        let later = same.is_some_and(|run| run.next_try.is_some());
        Self {
            state: HookState::Running,
            fresh: Fresh::Yes,
            tries,
            since: whole_second(now),
            generation,
            message: None,
            next_try: later.then(|| later_than(now, tries)),
        }
    }

    /// A start that is to be followed by one.
    pub fn due(generation: Option<i64>, now: Timestamp) -> Self {
        Self {
            state: HookState::Due,
            fresh: Fresh::No,
            tries: 0,
            since: whole_second(now),
            generation,
            message: None,
            next_try: None,
        }
    }

    /// It ended well.
    #[must_use]
    pub fn done(self) -> Self {
        Self {
            state: HookState::Done,
            fresh: Fresh::No,
            next_try: None,
            ..self
        }
    }

    /// It failed, and is tried again where that can help.
    #[must_use]
    pub fn failed(self, why: String, again: Again, now: Timestamp) -> Self {
        let last = again == Again::Useless || self.tries >= MOST_TRIES;
        let later = last && again == Again::Later;
        Self {
            state: if last {
                HookState::Failed
            } else {
                HookState::Running
            },
            fresh: Fresh::No,
            message: Some(why),
            next_try: later.then(|| later_than(now, self.tries)),
            ..self
        }
    }

    /// It was not run: the guest cannot be reached yet. After a while that is a failure, which may pass.
    #[must_use]
    pub fn waits(self, why: String, now: Timestamp) -> Self {
        let over = remaining(now, self.since, PATIENCE).is_none();
        Self {
            state: if over {
                HookState::Failed
            } else {
                HookState::Waiting
            },
            fresh: Fresh::No,
            message: Some(why),
            next_try: over.then(|| later_than(now, self.tries)),
            ..self
        }
    }
}

/// When what has failed that often is tried again.
fn later_than(now: Timestamp, tries: u32) -> Timestamp {
    let spent = usize::try_from(tries.saturating_sub(MOST_TRIES)).unwrap_or(usize::MAX);
    let pause = LATER[spent.min(LATER.len() - 1)];
    whole_second(now.saturating_add(pause).unwrap_or(now))
}

/// Names are made of it, before and after it was written down.
fn whole_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Whether another try can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// It can.
    Perhaps,
    /// It can, once somebody is there who was not: it is tried again for as long as it takes, with longer and longer pauses.
    Later,
    /// It cannot.
    Useless,
}

/// What the status remembers.
pub(in crate::virtual_machine) fn from_status(status: &VirtualMachineStatus) -> Runs {
    let Some(told) = status.hooks.as_deref() else {
        return Runs::default();
    };
    Runs {
        pre_start: told.pre_start.as_ref().map(run_from),
        post_start: told.post_start.as_ref().map(run_from),
        pre_stop: told.pre_stop.as_ref().map(run_from),
    }
}

fn run_from(told: &api::HookStatus) -> Run {
    Run {
        state: told.state,
        fresh: Fresh::No,
        tries: u32::try_from(told.tries).unwrap_or(0),
        since: told.since.0,
        generation: told.generation,
        message: told.message.clone(),
        next_try: told.next_try.as_ref().map(|t| t.0),
    }
}

/// Writes what the status remembers.
pub(in crate::virtual_machine) fn to_status(runs: &Runs) -> Option<Box<api::HooksStatus>> {
    (*runs != Runs::default()).then(|| {
        Box::new(api::HooksStatus {
            pre_start: runs.pre_start.as_ref().map(run_to),
            post_start: runs.post_start.as_ref().map(run_to),
            pre_stop: runs.pre_stop.as_ref().map(run_to),
        })
    })
}

fn run_to(run: &Run) -> api::HookStatus {
    api::HookStatus {
        state: run.state,
        tries: i32::try_from(run.tries).unwrap_or(i32::MAX),
        since: Time(run.since),
        generation: run.generation,
        message: run.message.clone(),
        next_try: run.next_try.map(Time),
    }
}
