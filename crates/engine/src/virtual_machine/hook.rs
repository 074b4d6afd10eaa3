//! Runs the actions of `spec.lifecycle`. The rules are those of [`polyvirt_plan::virtual_machine::hooks`].

use std::time::Duration;

use futures::future::BoxFuture;
use polyvirt_api::infra::{
    LocalRef, SnapshotAction, SnapshotConfig, SnapshotPhase, VMSnapshot, VMSnapshotSpec,
};
use polyvirt_api::names;
use polyvirt_contract::model::{ExecOutput, ExecRequest};
use polyvirt_contract::{ErrorKind, Extension, ProviderError};
use polyvirt_plan::virtual_machine::hooks::{
    Action, Again, Fresh, Hook, HookState, Moment, PAUSE, Run, Runs,
};
use polyvirt_plan::virtual_machine::{OperationKind, Outcome, Wait, WaitFor, remaining};
use polyvirt_plan::{Note, Reason};

use super::errands::{Standing, Try, Whose};
use super::pass::{Flow, Pass};
use crate::cluster::ClusterError;
use crate::runtime::key::{Key, Kind, ObjectKey};
use crate::runtime::vm_index::provider_of;

/// How often a guest is asked whose agent does not answer yet. Its address wakes us earlier.
pub(super) const GUEST_RECHECK: Duration = Duration::from_secs(15);

/// Characters of a command's output that an event shows.
const SHOWN: usize = 200;

/// A try to be made beside the passes.
pub(super) type Work = BoxFuture<'static, Ended>;

/// How a try ended.
pub(crate) enum Ended {
    Well(String),
    Badly(String, Again),
    /// It has not been run, or is still at work.
    NotYet(String, Duration),
}

impl Pass<'_> {
    /// Each try is written down first, so that a manager that dies in it does not try for ever.
    pub(super) async fn begin_hook(&mut self, moment: Moment) -> Flow {
        let before = (self.intent, self.record.clone());
        let last = self.record.hooks.at(moment);
        let run = Run::begin(last, self.generation, self.ctx.now());
        self.record.hooks.set(moment, Some(run));
        let written = self.write_status(&waiting(moment, None)).await;
        self.go_on_if(written, before)
    }

    /// A manager that dies after the start knows that it owes a hook.
    pub(super) async fn owe_hook(&mut self) -> Flow {
        let before = (self.intent, self.record.clone());
        let due = Run::due(self.generation, self.ctx.now());
        self.record.hooks.post_start = Some(due);
        let starting = Outcome::InFlight(OperationKind::PowerOn);
        let written = self.write_status(&starting).await;
        self.go_on_if(written, before)
    }

    pub(super) async fn run_hook(&mut self, moment: Moment) -> Flow {
        let hook = self.desired.as_ref().ok().and_then(|d| d.hooks.at(moment));
        let (Some(hook), Some(run)) = (hook.cloned(), self.record.hooks.at(moment).cloned()) else {
            return Flow::Continue;
        };
        let ended = match &hook.action {
            Action::Snapshot(action) => self.snapshot_hook(moment, action, &hook, &run).await,
            Action::Exec(_) | Action::HttpGet(_) => match self.errand(moment, &hook, &run).await {
                Some(ended) => ended,
                // Its end wakes us. Should that be missed, we look.
                None => return Flow::End(waiting(moment, Some(hook.timeout + PAUSE))),
            },
        };
        self.hook_ended(moment, run, ended)
    }

    /// How a try ended that is made beside the passes, begun now if it was not; `None` while it is at work.
    async fn errand(&self, moment: Moment, hook: &Hook, run: &Run) -> Option<Ended> {
        let which = Try::of(moment, run);
        match self.ctx.errands.take(&self.key, &which) {
            Standing::AtWork => return None,
            Standing::Over(ended) => return Some(ended),
            Standing::Unknown => {}
        }
        let work = match &hook.action {
            Action::HttpGet(get) => self.call_work(moment, get, hook).await,
            Action::Exec(command) => self.exec_work(moment, command, hook),
            Action::Snapshot(_) => return None,
        };
        let whose = Whose {
            vm: self.key.clone(),
            provider: provider_of(&self.vm),
        };
        let (observer, vm) = (self.ctx.observer.clone(), self.key.clone());
        let wake = move || observer.hook_over(&vm);
        match work {
            Ok(work) => self.ctx.errands.begin(whose, which, work, wake),
            Err(ended) => return Some(ended),
        }
        None
    }

    /// A try that is under way in this process was not cut short, whatever the status says of it. One for which a VM that goes
    /// away has no use is stopped.
    pub(super) fn load_hooks(&mut self) {
        let Some(which) = self.ctx.errands.of(&self.key) else {
            return;
        };
        if self.is_deleting() && which.moment != Moment::PreStop {
            self.ctx.errands.stop(&self.key);
            return;
        }
        let run = self.record.hooks.at(which.moment).cloned();
        let same = run.filter(|run| Try::of(which.moment, run) == which);
        if let Some(run) = same {
            let fresh = Fresh::Yes;
            let run = Run { fresh, ..run };
            self.record.hooks.set(which.moment, Some(run));
        }
    }

    fn hook_ended(&mut self, moment: Moment, run: Run, ended: Ended) -> Flow {
        let (run, pause) = match ended {
            Ended::Well(said) => {
                let text = format!("{}: {said}", moment.field());
                self.notes.push(Note::normal(Reason::HookSucceeded, text));
                (run.done(), PAUSE)
            }
            Ended::Badly(why, again) => {
                let text = format!("{}: {why}", moment.field());
                self.notes.push(Note::warning(Reason::HookFailed, text));
                (run.failed(why, again, self.ctx.now()), PAUSE)
            }
            Ended::NotYet(why, pause) => (run.waits(why, self.ctx.now()), pause),
        };
        let over = matches!(run.state, HookState::Done | HookState::Failed);
        self.record.hooks.set(moment, Some(run));
        if over {
            return Flow::Continue;
        }
        Flow::End(waiting(moment, Some(pause)))
    }

    fn exec_work(&self, moment: Moment, command: &[String], hook: &Hook) -> Result<Work, Ended> {
        if moment == Moment::PreStart {
            let text = "A guest that does not run yet cannot run a command";
            return Err(Ended::Badly(text.to_owned(), Again::Useless));
        }
        let (Some(vm), Some(ready)) = (self.vm_ref(), self.ready()) else {
            let text = "The provider does not answer".to_owned();
            return Err(Ended::NotYet(text, PAUSE));
        };
        if !ready.features.has(Extension::GuestExec) {
            let text = "The provider of this VM runs no commands in guests";
            return Err(Ended::Badly(text.to_owned(), Again::Useless));
        }
        let request = ExecRequest {
            command: command.to_vec(),
            stdin: bytes::Bytes::new(),
            timeout: hook.timeout,
        };
        let provider = ready.provider.clone();
        Ok(Box::pin(async move {
            match provider.guest_exec(&vm, request).await {
                Ok(output) => judged(&output),
                Err(error) => refused(moment, &error),
            }
        }))
    }

    /// Taken once for one try: the name is that of its moment.
    async fn snapshot_hook(
        &self,
        moment: Moment,
        action: &SnapshotAction,
        hook: &Hook,
        run: &Run,
    ) -> Ended {
        if self.record.applied.reached.is_none() {
            return Ended::Well("No snapshot is taken of a VM that never ran".to_owned());
        }
        let time = run.since.strftime("%Y%m%d-%H%M%S");
        let name = format!("{}-{}-{time}", self.key.name(), action.name);
        let key = ObjectKey::new(self.key.namespace(), &name);
        let Some(found) = self.ctx.stores.snapshots.get(&key) else {
            return self.make_snapshot(moment, action, key, hook).await;
        };
        match self.snapshot_stands(&found, hook, run) {
            Ended::Badly(why, again) => match self.give_up(&found).await {
                Ok(()) => Ended::Badly(why, again),
                Err(error) => Ended::NotYet(format!("{why}. It is not given up: {error}"), PAUSE),
            },
            ended => ended,
        }
    }

    /// Its own controller would go on with one that failed, at a moment that nobody asked for.
    async fn give_up(&self, snapshot: &VMSnapshot) -> Result<(), ClusterError> {
        let key = Key::new(Kind::VMSnapshot, ObjectKey::of(snapshot));
        let uid = snapshot.metadata.uid.as_deref().unwrap_or_default();
        match self.ctx.cluster.delete(&key, uid).await {
            Ok(()) | Err(ClusterError::NotFound | ClusterError::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn snapshot_stands(&self, found: &VMSnapshot, hook: &Hook, run: &Run) -> Ended {
        let name = found.metadata.name.as_deref().unwrap_or_default();
        let status = found.status.as_ref();
        let message = status.and_then(|s| s.message.clone()).unwrap_or_default();
        match status.and_then(|s| s.phase) {
            Some(SnapshotPhase::Ready | SnapshotPhase::Expired) => {
                Ended::Well(format!("VMSnapshot {name} was taken"))
            }
            Some(SnapshotPhase::Failed) => {
                Ended::Badly(format!("VMSnapshot {name}: {message}"), Again::Perhaps)
            }
            _ => match remaining(self.ctx.now(), run.since, hook.timeout) {
                Some(rest) => Ended::NotYet(format!("VMSnapshot {name} is being taken"), rest),
                None => Ended::Badly(
                    format!("VMSnapshot {name} was not taken in time"),
                    Again::Useless,
                ),
            },
        }
    }

    async fn make_snapshot(
        &self,
        moment: Moment,
        action: &SnapshotAction,
        key: ObjectKey,
        hook: &Hook,
    ) -> Ended {
        let object = snapshot(&self.key, &key, moment, action);
        let text = format!("VMSnapshot {} is being taken", key.name());
        let key = Key::new(Kind::VMSnapshot, key);
        let body = serde_json::to_value(&object).unwrap_or_default();
        match self.ctx.cluster.create(&key, body).await {
            Ok(_) | Err(ClusterError::AlreadyExists) => {
                Ended::NotYet(text, hook.timeout.min(PAUSE))
            }
            Err(error @ ClusterError::Invalid(_)) => {
                Ended::Badly(error.to_string(), Again::Useless)
            }
            Err(error) => Ended::Badly(error.to_string(), Again::Later),
        }
    }

    /// What was written of hooks was about the start or stop that is over.
    pub(super) fn forget_hooks(&mut self) {
        self.ctx.errands.stop(&self.key);
        self.record.hooks = Runs::default();
    }
}

const fn waiting(moment: Moment, recheck: Option<Duration>) -> Outcome {
    Outcome::Waiting(Wait {
        on: WaitFor::Hook(moment),
        recheck,
    })
}

fn snapshot(
    vm: &ObjectKey,
    key: &ObjectKey,
    moment: Moment,
    action: &SnapshotAction,
) -> VMSnapshot {
    let spec = VMSnapshotSpec {
        vm_ref: LocalRef {
            name: vm.name().to_owned(),
        },
        snapshot_config: Some(SnapshotConfig {
            include_memory: action.include_memory,
            description: action.description.clone(),
            ..SnapshotConfig::default()
        }),
        ..VMSnapshotSpec::default()
    };
    let mut object = VMSnapshot::new(key.name(), spec);
    object.metadata.namespace = Some(key.namespace().to_owned());
    let label = (names::HOOK_LABEL.to_owned(), moment.word().to_owned());
    object.metadata.labels = Some([label].into());
    object
}

fn judged(output: &ExecOutput) -> Ended {
    let said = one_line(output);
    match output.exit_code {
        0 => Ended::Well(said),
        code => Ended::Badly(
            format!("The command ended with code {code}: {said}"),
            Again::Perhaps,
        ),
    }
}

/// Before a stop nobody waits for an agent that does not answer.
fn refused(moment: Moment, error: &ProviderError) -> Ended {
    let why = error.message.clone();
    match error.kind {
        ErrorKind::Precondition if moment == Moment::PostStart => Ended::NotYet(why, GUEST_RECHECK),
        ErrorKind::Invalid | ErrorKind::Unsupported => Ended::Badly(why, Again::Useless),
        ErrorKind::Precondition | ErrorKind::Unavailable => Ended::Badly(why, Again::Later),
        _ => Ended::Badly(why, Again::Perhaps),
    }
}

/// The first line that says something, fit for an event.
fn one_line(output: &ExecOutput) -> String {
    let first = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.next().map(ToOwned::to_owned)
    };
    let line = first(&output.stdout).or_else(|| first(&output.stderr));
    let line = line.unwrap_or_else(|| "it said nothing".to_owned());
    let plain = line.chars().map(|c| if c.is_control() { '?' } else { c });
    plain.take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_shows_one_plain_line() {
        let output = |out: &str, err: &str| ExecOutput {
            exit_code: 0,
            stdout: out.to_owned().into(),
            stderr: err.to_owned().into(),
        };
        assert_eq!(one_line(&output("\n ok\u{1b}[31m \nmore", "")), "ok?[31m");
        assert_eq!(one_line(&output(" \n", "bad")), "bad");
        assert_eq!(one_line(&output("", "")), "it said nothing");
        assert_eq!(one_line(&output(&"x".repeat(999), "")).len(), SHOWN);
    }
}
