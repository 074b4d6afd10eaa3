//! One step against Kubernetes or the provider.

use std::sync::Arc;

use polyvirt_api::infra::SnapshotPhase;
use polyvirt_api::names;
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{ErrorKind, Extension, ProviderError, TaskId};
use polyvirt_plan::snapshot::{Done, EndOfLife, Intent, Outcome, Release, Step};
use polyvirt_plan::virtual_machine::{Operation, OperationKind, overdue_task};
use polyvirt_plan::{Note, Reason};

use super::refusals::Refusal;
use super::{Flow, Pass, Seen};
use crate::cluster::{About, ClusterError, Patch};
use crate::next::Next;
use crate::runtime::key::Kind;
use crate::runtime::vanished;
use crate::shared::{finalizers_patch, with_finalizer, without_finalizer};
use crate::virtual_machine::reach::{Reach, Ready};

impl Pass<'_> {
    /// Carries out one step.
    pub(super) async fn act(&mut self, step: Step) -> Flow {
        match step {
            Step::Claim => self.claim().await,
            Step::RecordIntent => self.record_intent().await,
            Step::Look => self.look().await,
            Step::CheckTask(task) => self.check_task(task).await,
            Step::Create => self.create().await,
            Step::Delete => self.delete().await,
            Step::DeleteObject(why) => self.delete_object(why).await,
            Step::Release(release) => self.release(release).await,
            Step::Done(done) => Flow::End(self.done(done)),
            Step::Wait(wait) => Flow::End(Outcome::Waiting(wait)),
            Step::Stop(problem) => Flow::End(Outcome::Stopped(problem)),
        }
    }

    fn done(&mut self, done: Done) -> Outcome {
        if done == Done::Ready && self.record.completed.is_none() {
            self.record.completed = Some(self.ctx.now());
            self.record.operation = None;
            let found = self.facts().found().map(|s| s.id.clone());
            self.record.id = found.or_else(|| self.record.id.take());
        }
        Outcome::Done(done)
    }

    /// Our finalizer, before anything is done on the hypervisor.
    async fn claim(&mut self) -> Flow {
        let finalizers = with_finalizer(&*self.object, names::SNAPSHOT_FINALIZER);
        let patch = finalizers_patch(&*self.object, &finalizers);
        match self.write(patch).await {
            Ok(()) => Flow::Continue,
            Err(error) => Flow::Abandon(Next::after_refusal(&error)),
        }
    }

    /// Writes, and goes on with the object as it is then.
    pub(super) async fn write(&mut self, patch: Patch) -> Result<(), ClusterError> {
        let (cluster, store) = (&*self.ctx.cluster, &self.ctx.stores.snapshots);
        let written = vanished::write(cluster, store, &self.key, &*self.object, patch).await?;
        if let Some(change) = written.change {
            self.ctx.observer.snapshot(change);
        }
        self.object = Arc::new(written.object);
        Ok(())
    }

    async fn record_intent(&mut self) -> Flow {
        let now = self.ctx.now();
        self.record.vm = self.record.vm.take().or_else(|| self.place.clone());
        self.record.begun = self.record.begun.or(Some(now));
        self.record.operation = Some(operation(OperationKind::Create, None, now));
        self.intent = Intent::JustWritten;
        let creating = Outcome::InFlight(OperationKind::Create);
        match self.write_status(&creating).await {
            Ok(()) => Flow::Continue,
            Err(error) => Flow::Abandon(Next::after_refusal(&error)),
        }
    }

    fn ready(&self) -> Option<&Ready> {
        match &self.reach {
            Reach::Ready(ready) => Some(ready),
            _ => None,
        }
    }

    /// Learns which snapshots the VM has.
    async fn look(&mut self) -> Flow {
        let (Some(ready), Some(vm)) = (self.ready(), self.record.vm.clone()) else {
            return Flow::Continue;
        };
        let link = ready.link.clone();
        self.seen = match ready.provider.describe(&vm.id).await {
            Ok(Some(state)) => {
                link.seen(|seen| seen.answer(state.clone()));
                self.judge(Arc::new(state))
            }
            Ok(None) => Seen::NoVm,
            Err(error) => return Flow::End(Outcome::Failed(error)),
        };
        Flow::Continue
    }

    async fn check_task(&mut self, task: TaskId) -> Flow {
        let Some(ready) = self.ready() else {
            return Flow::Continue;
        };
        let now = self.ctx.now();
        let told = ready
            .link
            .seen(|seen| (seen.take_task(&task), seen.awaits(&task, now)));
        let state = match told {
            (Some(state), _) => Ok(state),
            (None, true) => return self.in_flight(),
            (None, false) => ready.provider.task_status(&task).await,
        };
        match state {
            Ok(TaskState::Running { .. }) => match self.overdue_task() {
                Some(error) => self.failed(error),
                None => self.await_task(&task),
            },
            Ok(TaskState::Succeeded) => self.task_succeeded(),
            Ok(TaskState::Failed(error)) => self.failed(error),
            // What a forgotten task did is to be seen on the VM, where that can be seen.
            Err(error) if error.kind == ErrorKind::NotFound => self.task_forgotten(),
            Err(error) => Flow::End(Outcome::Failed(error)),
        }
    }

    fn overdue_task(&self) -> Option<ProviderError> {
        let operation = self.record.operation.as_ref()?;
        overdue_task(operation, self.ctx.now())
    }

    fn await_task(&self, task: &TaskId) -> Flow {
        if let Some(ready) = self.ready()
            && ready.features.has(Extension::Watch)
        {
            let (object, now) = (&self.key.object, self.ctx.now());
            ready.link.seen(|seen| seen.await_task(task, object, now));
        }
        self.in_flight()
    }

    fn in_flight(&self) -> Flow {
        let operation = self.record.operation.as_ref();
        let kind = operation.map_or(OperationKind::Create, |o| o.kind);
        Flow::End(Outcome::InFlight(kind))
    }

    fn task_succeeded(&mut self) -> Flow {
        let ended = self.record.operation.take();
        self.end_of_request(ended.map_or(OperationKind::Create, |o| o.kind))
    }

    /// The VM is looked at; a provider that tells no list is believed that it deleted.
    fn end_of_request(&mut self, kind: OperationKind) -> Flow {
        let untold = matches!(&self.seen, Seen::Vm(vm) if vm.snapshots.is_none());
        self.seen = if kind == OperationKind::Delete && untold {
            Seen::Gone
        } else {
            Seen::Unknown
        };
        Flow::Continue
    }

    fn task_forgotten(&mut self) -> Flow {
        let ended = self.record.operation.take();
        if let Some(begun) = ended.filter(|o| o.kind == OperationKind::Create) {
            // It may have been taken. Without a list its id proves nothing any more.
            self.record.operation = Some(Operation {
                task: None,
                ..begun
            });
            if matches!(&self.seen, Seen::Vm(vm) if vm.snapshots.is_none()) {
                self.record.id = None;
            }
        }
        self.seen = Seen::Unknown;
        Flow::Continue
    }

    async fn create(&mut self) -> Flow {
        let (Some(vm), Ok(desired)) = (self.vm_ref(), self.desired.clone()) else {
            return Flow::Continue;
        };
        let Some(ready) = self.ready() else {
            return Flow::Continue;
        };
        let provider = ready.provider.clone();
        let refusals = &self.ctx.refusals;
        if let Some(error) = refusals.of(&self.key.object, &vm.id, &desired.request) {
            return self.refused(error);
        }
        let request = desired.request;
        match provider.snapshot_create(&vm, request.clone()).await {
            Ok(created) => {
                self.record.id = Some(created.id).filter(|id| !id.is_empty());
                self.accepted(OperationKind::Create, created.task)
            }
            Err(error) => {
                if matches!(error.kind, ErrorKind::Invalid | ErrorKind::Unsupported) {
                    let refusal = Refusal::new(vm.id, request, error.clone());
                    self.ctx.refusals.remember(&self.key.object, refusal);
                }
                self.failed(error)
            }
        }
    }

    fn refused(&mut self, error: ProviderError) -> Flow {
        if self.is_deleting() {
            self.record.operation = None;
        }
        Flow::End(Outcome::Failed(error))
    }

    async fn delete(&mut self) -> Flow {
        let id = self.facts().found().map(|s| s.id.clone());
        let id = id.or_else(|| self.record.id.clone());
        let (Some(vm), Some(id), Some(ready)) = (self.vm_ref(), id, self.ready()) else {
            return Flow::Continue;
        };
        let provider = ready.provider.clone();
        self.tell_deletion();
        match provider.snapshot_delete(&vm, &id).await {
            Ok(task) => self.accepted(OperationKind::Delete, task),
            Err(error) if error.kind == ErrorKind::NotFound => {
                // Its VM may be gone as well as itself; both end the same way.
                self.record.operation = None;
                self.seen = Seen::Gone;
                Flow::Continue
            }
            Err(error) => self.failed(error),
        }
    }

    /// Once: a deletion that is tried again is told by its error.
    fn tell_deletion(&mut self) {
        let status = self.object.status.as_ref();
        if status.and_then(|s| s.phase) != Some(SnapshotPhase::Deleting) {
            let text = format!("Snapshot {} is being deleted", self.name);
            self.notes
                .push(Note::normal(Reason::SnapshotDeleting, text));
        }
    }

    /// The provider took the request; with a task it is still at work.
    fn accepted(&mut self, kind: OperationKind, task: Option<TaskId>) -> Flow {
        let Some(task) = task else {
            self.record.operation = None;
            return self.end_of_request(kind);
        };
        let now = self.ctx.now();
        self.record.operation = Some(operation(kind, Some(task.clone()), now));
        self.await_task(&task)
    }

    /// The intent stays where the request may have been carried out, or can be repeated without harm.
    fn failed(&mut self, error: ProviderError) -> Flow {
        let known = self
            .ready()
            .is_some_and(|r| r.features.has(Extension::Identity));
        let creating = |o: &Operation| o.kind == OperationKind::Create;
        let stays = error.kind.may_have_happened() || (known && !self.is_deleting());
        let operation = self.record.operation.take();
        if let Some(begun) = operation.filter(|o| creating(o) && stays) {
            self.record.operation = Some(Operation {
                task: None,
                ..begun
            });
        }
        if !self.is_deleting() {
            self.record.id = None;
        }
        self.seen = Seen::Unknown;
        Flow::End(Outcome::Failed(error))
    }

    async fn delete_object(&mut self, why: EndOfLife) -> Flow {
        let uid = self.object.metadata.uid.clone().unwrap_or_default();
        let (reason, text) = match why {
            EndOfLife::Expired => (
                Reason::SnapshotExpired,
                "Deleted for its age, as spec.retentionPolicy.maxAge says",
            ),
            EndOfLife::VmGone => (
                Reason::VmMissing,
                "Deleted with its VM, as spec.retentionPolicy.deleteOnVMDelete says",
            ),
            EndOfLife::ScheduleGone => (
                Reason::SnapshotPruned,
                "Deleted with the schedule that made it",
            ),
        };
        match self.ctx.cluster.delete(&self.key, &uid).await {
            Ok(()) | Err(ClusterError::NotFound) => {
                let about = About::of(Kind::VMSnapshot, &*self.object);
                self.ctx.cluster.event(&about, Note::normal(reason, text));
                Flow::Abandon(Next::Idle)
            }
            Err(error) => Flow::Abandon(Next::after_refusal(&error)),
        }
    }

    /// Takes the finalizer off and tells why.
    async fn release(&mut self, release: Release) -> Flow {
        let keep = without_finalizer(&*self.object, names::SNAPSHOT_FINALIZER);
        let patch = finalizers_patch(&*self.object, &keep);
        let about = About::of(Kind::VMSnapshot, &*self.object);
        match self.write(patch).await {
            Ok(()) | Err(ClusterError::NotFound) => {
                self.ctx.refusals.forget(&self.key.object);
                self.ctx.cluster.event(&about, self.farewell(release));
                Flow::Abandon(Next::Idle)
            }
            Err(error) => Flow::Abandon(Next::after_refusal(&error)),
        }
    }

    fn farewell(&self, release: Release) -> Note {
        let name = &self.name;
        let text = match release {
            Release::Proved => format!("Snapshot {name} is gone from the hypervisor"),
            Release::NeverTaken => "No snapshot was taken".to_owned(),
            Release::VmGone => format!("Snapshot {name} went with its VM"),
            Release::Forced => {
                let text =
                    format!("Deleted by force: snapshot {name} may still be on the hypervisor");
                return Note::warning(Reason::ForceDeleted, text);
            }
        };
        Note::normal(Reason::SnapshotDeleted, text)
    }
}

const fn operation(kind: OperationKind, task: Option<TaskId>, since: jiff::Timestamp) -> Operation {
    Operation {
        kind,
        task,
        since,
        attempt: 0,
    }
}
