//! One step against Kubernetes or the provider.

use std::sync::Arc;
use std::time::Duration;

use polyvirt_api::names;
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{ErrorKind, Extension, ProviderError, TaskId};
use polyvirt_plan::migration::{
    End, Intent, Outcome, Progress, Quiet, Record, Release, Step, Stop,
};
use polyvirt_plan::virtual_machine::next::remaining;
use polyvirt_plan::{Note, Reason};

use super::target::Target;
use super::{Flow, Pass, Seen};
use crate::cluster::{About, ClusterError, Patch};
use crate::next::Next;
use crate::runtime::key::Kind;
use crate::runtime::vanished;
use crate::shared::{finalizers_patch, with_finalizer, without_finalizer};
use crate::subject::AboutVm as _;
use crate::virtual_machine::reach::{Reach, Ready};

/// How often the figures of a move are read, and so how often they are written at most.
pub(super) const FIGURES: Duration = Duration::from_secs(5);

impl Pass<'_> {
    /// Carries out one step.
    pub(super) async fn act(&mut self, step: Step) -> Flow {
        match step {
            Step::Claim => self.claim().await,
            Step::RecordIntent => self.record_intent().await,
            Step::Yield(other) => self.give_way(&other).await,
            Step::Look => self.look().await,
            Step::Send => self.send().await,
            Step::CheckTask(task) => self.check_task(task).await,
            Step::Cancel(why) => self.cancel(why).await,
            Step::Retry(error) => self.retry(error),
            Step::Finish(end) => self.end(end),
            Step::Release(release) => self.release(release).await,
            Step::Done(done) => Flow::End(Outcome::Done(done)),
            Step::Wait(wait) => Flow::End(Outcome::Waiting(wait)),
            Step::Stop(problem) => Flow::End(Outcome::Stopped(problem)),
        }
    }

    /// Our finalizer, so that a move that is under way is not lost with its object.
    async fn claim(&mut self) -> Flow {
        let finalizers = with_finalizer(&*self.object, names::MIGRATION_FINALIZER);
        let patch = finalizers_patch(&*self.object, &finalizers);
        match self.write(patch).await {
            Ok(()) => Flow::Continue,
            Err(error) => Flow::Abandon(Next::after_refusal(&error)),
        }
    }

    /// Writes, and goes on with the object as it is then.
    pub(super) async fn write(&mut self, patch: Patch) -> Result<(), ClusterError> {
        let (cluster, store) = (&*self.ctx.cluster, &self.ctx.stores.migrations);
        let written = vanished::write(cluster, store, &self.key, &*self.object, patch).await?;
        if let Some(change) = written.change {
            self.ctx.observer.migration(change);
        }
        self.object = Arc::new(written.object);
        Ok(())
    }

    /// From here on nobody else changes the VM.
    async fn record_intent(&mut self) -> Flow {
        let (host, hosts) = match self.target().await {
            Ok(Target::Host(host, hosts)) => (host, hosts),
            Ok(Target::None(problem, hosts)) => {
                self.record.hosts = hosts;
                self.come_again = Some(Next::Backoff);
                return Flow::End(Outcome::Stopped(problem));
            }
            Ok(Target::Unknown(error)) => {
                self.record.source = self.host();
                return self.end(End::Failed(error));
            }
            Err(error) => return Flow::End(Outcome::Failed(error)),
        };
        self.record = Record {
            vm: self.place.clone(),
            source: self.host(),
            target: host,
            hosts,
            begun: Some(self.ctx.now()),
            ..Record::default()
        };
        self.intent = Intent::JustWritten;
        let written = self.write_status(&Outcome::InFlight).await;
        self.ctx.placements.forget_target(&self.object.vm());
        match written {
            Ok(()) => Flow::Continue,
            Err(error) => Flow::Abandon(Next::after_refusal(&error)),
        }
    }

    fn host(&self) -> String {
        match &self.seen {
            Seen::Vm(vm) => vm.host.clone(),
            _ => String::new(),
        }
    }

    /// Two began at once. Nothing was sent: whoever sees the other takes it back, and both try again at different times.
    async fn give_way(&mut self, other: &str) -> Flow {
        self.record = Record::default();
        self.intent = Intent::Earlier;
        let wait = polyvirt_plan::migration::Wait {
            on: polyvirt_plan::migration::WaitFor::Behind(other.to_owned()),
            recheck: None,
        };
        match self.write_status(&Outcome::Waiting(wait)).await {
            Ok(()) => Flow::Abandon(Next::Backoff),
            Err(error) => Flow::Abandon(Next::after_refusal(&error)),
        }
    }

    pub(super) fn ready(&self) -> Option<&Ready> {
        match &self.reach {
            Reach::Ready(ready) => Some(ready),
            _ => None,
        }
    }

    /// Learns where the VM is.
    async fn look(&mut self) -> Flow {
        let (Some(ready), Some(vm)) = (self.ready(), self.subject()) else {
            return Flow::Abandon(Next::Backoff);
        };
        let (provider, link, id) = (ready.provider.clone(), ready.link.clone(), vm.id.clone());
        self.seen = match provider.describe(&id).await {
            Ok(Some(state)) => {
                link.seen(|seen| seen.answer(state.clone()));
                self.judge(Arc::new(state))
            }
            Ok(None) => Seen::NoVm,
            Err(error) => return Flow::End(Outcome::Failed(error)),
        };
        Flow::Continue
    }

    async fn send(&mut self) -> Flow {
        let (Some(vm), Ok(desired), Some(ready)) = (self.vm_ref(), &self.desired, self.ready())
        else {
            return Flow::Abandon(Next::Backoff);
        };
        let mut request = desired.request.clone();
        request.target_host.clone_from(&self.record.target);
        let provider = ready.provider.clone();
        match provider.migrate(&vm, request).await {
            Ok(Some(task)) => {
                self.record.task = Some(task.clone());
                self.under_way(&task, None).await
            }
            Ok(None) => self.over(Some(not_there())),
            // It may be at it: the same request is sent again.
            Err(error) if error.kind.is_unanswered() => Flow::End(Outcome::Failed(error)),
            Err(error) => self.over(Some(error)),
        }
    }

    /// Nothing is under way any more; what came of it is to be seen on the VM, and else is this.
    fn over(&mut self, otherwise: Option<ProviderError>) -> Flow {
        self.record.task = None;
        self.failure = otherwise;
        self.seen = Seen::Unknown;
        Flow::Continue
    }

    async fn check_task(&mut self, task: TaskId) -> Flow {
        let Some(ready) = self.ready() else {
            return Flow::Abandon(Next::Backoff);
        };
        let (provider, now) = (ready.provider.clone(), self.ctx.now());
        let told = ready
            .link
            .seen(|seen| (seen.take_task(&task), seen.awaits(&task, now)));
        let state = match told {
            (Some(state), _) => Ok(state),
            (None, true) if !self.wants_figures() => return Flow::End(Outcome::InFlight),
            (None, _) => provider.task_status(&task).await,
        };
        match state {
            Ok(TaskState::Running { percent }) => self.under_way(&task, percent).await,
            Ok(TaskState::Succeeded) => {
                self.read_figures(&task, Some(100)).await;
                self.quiet = Quiet::Told;
                self.over(Some(not_there()))
            }
            Ok(TaskState::Failed(error)) => {
                self.quiet = Quiet::Told;
                self.over(Some(error))
            }
            // What a forgotten task did is to be seen on the VM. If nothing, the same request is sent again.
            Err(error) if error.kind == ErrorKind::NotFound => self.over(None),
            Err(error) => Flow::End(Outcome::Failed(error)),
        }
    }

    async fn under_way(&mut self, task: &TaskId, percent: Option<u8>) -> Flow {
        if let Some(ready) = self.ready()
            && ready.features.has(Extension::Watch)
        {
            let (object, now) = (&self.key.object, self.ctx.now());
            ready.link.seen(|seen| seen.await_task(task, object, now));
        }
        if self.wants_figures() {
            self.read_figures(task, percent).await;
        }
        Flow::End(Outcome::InFlight)
    }

    fn wants_figures(&self) -> bool {
        let last = self.record.progress.as_ref().map(|p| p.at);
        last.is_none_or(|at| remaining(self.ctx.now(), at, FIGURES).is_none())
    }

    /// A provider that does not tell leaves what was told. The same figures are no news.
    async fn read_figures(&mut self, task: &TaskId, percent: Option<u8>) {
        let Some(ready) = self.ready() else { return };
        let provider = ready.provider.clone();
        let told = provider.migration_progress(task).await.ok();
        let old = self.record.progress.clone();
        let Some(figures) = told.or_else(|| old.as_ref().map(|p| p.figures.clone())) else {
            return;
        };
        if self.record.target.is_empty() {
            self.record.target.clone_from(&figures.target_host);
        }
        let same = old.is_some_and(|p| p.figures == figures && p.percent == percent);
        if !same {
            self.record.progress = Some(Progress {
                percent,
                figures,
                at: self.ctx.now(),
            });
        }
    }

    async fn cancel(&mut self, why: Stop) -> Flow {
        let request = polyvirt_plan::migration::desired::request_id(&self.object);
        let (Some(vm), Some(request), Some(ready)) = (self.vm_ref(), request, self.ready()) else {
            return Flow::Abandon(Next::Backoff);
        };
        let provider = ready.provider.clone();
        let answer = provider.cancel_migration(&vm, &request).await;
        self.tell_stop(why);
        match answer {
            Ok(()) => self.stopping(),
            Err(error) if error.kind == ErrorKind::NotFound => {
                self.quiet = Quiet::Told;
                self.over(None)
            }
            // It goes on to its end, which is then told.
            Err(error)
                if matches!(error.kind, ErrorKind::Precondition | ErrorKind::Unsupported) =>
            {
                let text = format!("The move cannot be stopped: {}", error.message);
                self.notes.push(Note::warning(error.kind.into(), text));
                self.stopping()
            }
            Err(error) => Flow::End(Outcome::Failed(error)),
        }
    }

    fn tell_stop(&mut self, why: Stop) {
        if self.record.cancelled.is_some() {
            return;
        }
        let cause = match why {
            Stop::Asked => "spec.cancel is set",
            Stop::Deleted => "this object is being deleted",
            Stop::VmLeaving => "the VirtualMachine is being deleted",
            Stop::TimedOut => "spec.options.timeout is over",
        };
        let text = format!("The move is being stopped: {cause}");
        let note = Note::normal(Reason::MigrationStopping, text);
        self.notes.push(note);
    }

    /// Where no task is known, the provider is asked again until it says that it is not at it.
    fn stopping(&mut self) -> Flow {
        self.record.cancelled = Some(self.ctx.now());
        if self.record.task.is_some() {
            return Flow::Continue;
        }
        self.come_again = Some(Next::After(Duration::from_secs(1)));
        Flow::End(Outcome::InFlight)
    }

    fn retry(&mut self, error: ProviderError) -> Flow {
        self.record.retries += 1;
        self.record.failed = Some(self.ctx.now());
        self.record.progress = None;
        self.come_again = Some(Next::After(Duration::from_secs(1)));
        Flow::End(Outcome::Failed(error))
    }

    fn end(&mut self, end: End) -> Flow {
        self.record.ended = Some(self.ctx.now());
        self.record.result = Some(end.result());
        self.record.task = None;
        if self.record.target.is_empty() && end == End::Moved {
            self.record.target = self.host();
        }
        Flow::End(Outcome::Ended(end))
    }

    /// Takes the finalizer off.
    async fn release(&mut self, release: Release) -> Flow {
        let keep = without_finalizer(&*self.object, names::MIGRATION_FINALIZER);
        let patch = finalizers_patch(&*self.object, &keep);
        let about = About::of(Kind::VMMigration, &*self.object);
        match self.write(patch).await {
            Ok(()) | Err(ClusterError::NotFound) => {
                if release == Release::Forced && self.record.is_open() {
                    let text = "Deleted by force: the VM may still move";
                    let note = Note::warning(Reason::ForceDeleted, text);
                    self.ctx.cluster.event(&about, note);
                }
                Flow::Abandon(Next::Idle)
            }
            Err(error) => Flow::Abandon(Next::after_refusal(&error)),
        }
    }
}

fn not_there() -> ProviderError {
    let text = "The provider says that it has moved the VM, but shows it elsewhere";
    ProviderError::new(ErrorKind::Internal, text)
}
