//! One step against Kubernetes or the provider.

use std::sync::Arc;
use std::time::Duration;

use kube::api::ObjectMeta;
use polyvirt_api::infra::VirtualMachine;
use polyvirt_api::names;
use polyvirt_contract::model::{CreateVm, PowerOp, PowerRequest, PowerState};
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{ErrorKind, Extension, ProviderError, RequestId, TaskId};
use polyvirt_plan::user_data::{self, Sources};
use polyvirt_plan::virtual_machine::size::differences;
use polyvirt_plan::virtual_machine::{
    Answer, Applied, Claim, Desired, Intent, Operation, OperationKind, Outcome, Release, Sent,
    Shape, Step, Wait, record,
};
use polyvirt_plan::{Note, Problem, Reason};
use serde_json::json;

use super::pass::{Flow, Pass, Reach, Ready, Seen};
use crate::cluster::{self, ClusterError, Patch};
use crate::context::Memo;
use crate::link::observations::TASK_SILENCE;
use crate::next::Next;
use crate::runtime::key::{Key, Kind, ObjectKey};

/// How often a task is asked for where no stream tells of it.
const POLLED_TASK_RECHECK: Duration = Duration::from_secs(2);

impl Pass<'_> {
    /// Carries out one step.
    pub async fn act(&mut self, step: Step) -> Flow {
        match step {
            Step::Claim => self.take_claim().await,
            Step::RecordIntent => self.record_intent().await,
            Step::RecordChange(kind) => self.record_change(kind).await,
            Step::Look => self.look().await,
            Step::CheckTask(task) => self.check_task(task).await,
            Step::Create => self.create().await,
            Step::Power(request) => self.power(request).await,
            Step::Reconfigure => self.reconfigure().await,
            Step::Revert(snapshot) => self.revert(snapshot).await,
            Step::Delete => self.delete().await,
            Step::Release(release) => self.release(release).await,
            Step::Done(done) => Flow::End(Outcome::Done(done)),
            Step::Wait(wait) => Flow::End(Outcome::Waiting(wait)),
            Step::Stop(problem) => Flow::End(Outcome::Stopped(problem)),
        }
    }

    /// Finalizer and identity, in one write, before anything is done on the hypervisor.
    async fn take_claim(&mut self) -> Flow {
        let mut finalizers = self.vm.metadata.finalizers.clone().unwrap_or_default();
        if !record::has_finalizer(&self.vm) {
            finalizers.push(names::VIRTUAL_MACHINE_FINALIZER.to_owned());
        }
        let patch = json!({"metadata": {
            "resourceVersion": self.vm.metadata.resource_version,
            "finalizers": finalizers,
            "annotations": {names::IDENTITY_ANNOTATION: self.identity.as_str()},
        }});
        match self.write(Patch::Metadata(patch)).await {
            Ok(()) => {
                self.claim = Some(Claim::Held);
                Flow::Continue
            }
            Err(error) => Flow::Abandon(Next::after_refusal(&error)),
        }
    }

    /// Writes, and goes on with the object as it is then.
    pub(super) async fn write(&mut self, patch: Patch) -> Result<(), ClusterError> {
        let key = Key::new(Kind::VirtualMachine, self.key.clone());
        let written: VirtualMachine = cluster::patch(&*self.ctx.cluster, &key, patch).await?;
        let written = crate::runtime::trim::metadata(written);
        if self.is_overtaken_by(&written) {
            // The watch has nothing newer to tell, so nobody else would look at the edit.
            self.come_again = Some(Next::After(Duration::ZERO));
        }
        if let Some(change) = self.ctx.stores.vms.written(written.clone()) {
            self.ctx.observer.vm(change);
        }
        self.vm = Arc::new(written);
        Ok(())
    }

    /// Whether the answer to a write of ours shows an edit that this pass does not know of.
    fn is_overtaken_by(&self, written: &VirtualMachine) -> bool {
        let (known, now) = (&self.vm.metadata, &written.metadata);
        let others = |meta: &ObjectMeta| {
            let mut annotations = meta.annotations.clone().unwrap_or_default();
            annotations.remove(names::IDENTITY_ANNOTATION);
            annotations
        };
        self.generation != now.generation
            || known.labels != now.labels
            || others(known) != others(now)
    }

    /// What an earlier VM had been brought to says nothing about the new one.
    async fn record_intent(&mut self) -> Flow {
        self.tell_recreation();
        self.intent = Intent::JustWritten;
        self.record.id = None;
        self.record.applied = Applied::default();
        let creating = Outcome::InFlight(OperationKind::Create);
        match self.write_status(&creating).await {
            Ok(()) => Flow::Continue,
            Err(error) => Flow::Abandon(Next::after_refusal(&error)),
        }
    }

    async fn record_change(&mut self, kind: OperationKind) -> Flow {
        match kind {
            OperationKind::Reconfigure => {
                self.record.applied.shape = None;
                // What waited was the change before this one.
                self.record.restart_required.clear();
            }
            OperationKind::Revert => self.record_revert(),
            OperationKind::Reboot => {
                self.record.reboot_handled = record::object(&self.vm).reboot.to_owned();
            }
            _ => self.record.applied.power = None,
        }
        match self.write_status(&Outcome::InFlight(kind)).await {
            Ok(()) => Flow::Continue,
            Err(error) => Flow::Abandon(Next::after_refusal(&error)),
        }
    }

    async fn check_task(&mut self, task: TaskId) -> Flow {
        let Reach::Ready(ready) = &self.reach else {
            return Flow::Continue;
        };
        let now = self.ctx.now();
        if self.is_deletion_over(ready) {
            return self.operation_over();
        }
        let told = ready
            .link
            .seen(|seen| (seen.take_task(&task), seen.awaits(&task, now)));
        let state = match told {
            (Some(state), _) => Ok(state),
            (None, true) => return self.in_flight(),
            (None, false) => ready.provider.task_status(&task).await,
        };
        match state {
            Ok(TaskState::Running { .. }) => self.await_task(&task),
            Ok(TaskState::Succeeded) => {
                self.revert_over();
                self.operation_over()
            }
            Ok(TaskState::Failed(error)) if self.revert_refused(&error) => Flow::Continue,
            Ok(TaskState::Failed(error)) => self.operation_failed(error),
            // A provider that restarted has forgotten its tasks. What they did is to be seen on the VM.
            Err(error) if error.kind == ErrorKind::NotFound => self.operation_forgotten(),
            Err(error) => Flow::End(Outcome::Failed(error)),
        }
    }

    fn operation_forgotten(&mut self) -> Flow {
        self.doubt_shape();
        self.operation_over()
    }

    /// What an operation was to bring about is not sure any more.
    fn doubt_shape(&mut self) {
        match self.record.operation.as_ref().map(|o| o.kind) {
            // Unlike everything, so that the change is sent again unless the VM shows it.
            Some(OperationKind::Reconfigure) => self.record.applied.shape = Some(Shape::default()),
            Some(OperationKind::Create) => self.record.applied.shape = None,
            _ => {}
        }
    }

    /// Whether the stream tells no more of a VM that is being deleted. Its task says no more than the look that follows.
    fn is_deletion_over(&self, ready: &Ready) -> bool {
        let operation = self.record.operation.as_ref();
        let deleting = operation.is_some_and(|o| o.kind == OperationKind::Delete);
        let Some(id) = self.record.id.as_ref().filter(|_| deleting) else {
            return false;
        };
        ready
            .link
            .seen(|seen| seen.synced() && seen.get(id).is_none())
    }

    fn await_task(&mut self, task: &TaskId) -> Flow {
        if let Reach::Ready(ready) = &self.reach
            && ready.features.has(Extension::Watch)
        {
            ready
                .link
                .seen(|seen| seen.await_task(task, &self.key, self.ctx.now()));
        }
        self.in_flight()
    }

    fn in_flight(&self) -> Flow {
        let kind = self
            .record
            .operation
            .as_ref()
            .map_or(OperationKind::Create, |o| o.kind);
        Flow::End(Outcome::InFlight(kind))
    }

    /// When to ask for a task that is in flight.
    pub(super) fn task_recheck(&self) -> Duration {
        let streamed = self
            .ready()
            .is_some_and(|r| r.features.has(Extension::Watch));
        let most = if streamed {
            TASK_SILENCE
        } else {
            POLLED_TASK_RECHECK
        };
        let stopping = self
            .record
            .operation
            .as_ref()
            .filter(|o| o.kind == OperationKind::GracefulStop);
        match (stopping, &self.desired) {
            (Some(_), Ok(desired)) => {
                most.min(desired.graceful_timeout.max(Duration::from_secs(1)))
            }
            _ => most,
        }
    }

    fn operation_over(&mut self) -> Flow {
        self.record.operation = None;
        self.seen = Seen::Unknown;
        Flow::Continue
    }

    fn operation_failed(&mut self, error: ProviderError) -> Flow {
        self.doubt_shape();
        self.record.operation = None;
        self.memo.sent = None;
        self.seen = Seen::Unknown;
        Flow::End(Outcome::Failed(error))
    }

    async fn create(&mut self) -> Flow {
        let request = match self.request().await {
            Ok(request) => request,
            Err(flow) => return flow,
        };
        let Reach::Ready(ready) = &self.reach else {
            return Flow::Continue;
        };
        let provider = ready.provider.clone();
        if let Some(refusal) = self.refused(&request) {
            return refusal;
        }
        self.sending(OperationKind::Create, None);
        match provider.create(request.clone()).await {
            Ok(created) => {
                self.tell_recreation();
                self.record.id = Some(created.id);
                let shape = self.desired.as_ref().ok().map(Desired::shape);
                self.record.applied = Applied {
                    shape,
                    ..Applied::default()
                };
                self.accepted(OperationKind::Create, created.task)
            }
            Err(error) => {
                self.remember_refusal(request, &error);
                self.create_failed(error)
            }
        }
    }

    /// A VM that was there and had to be made again is worth a warning: its disks are lost.
    fn tell_recreation(&mut self) {
        if self.record.applied.reached.is_none() {
            return;
        }
        let id = self.record.id.as_ref().map_or("", |id| id.as_str());
        let text =
            format!("VM {id} was deleted on the hypervisor and is made anew, with new disks");
        self.notes.push(Note::warning(Reason::Recreating, text));
    }

    /// After an error that leaves it open whether the VM was made, the intent stays written: it is looked for by name.
    fn create_failed(&mut self, error: ProviderError) -> Flow {
        let open = error.kind.may_have_happened();
        self.intent = match self.intent {
            Intent::Missing => Intent::Missing,
            _ if !open => Intent::Missing,
            Intent::JustWritten => Intent::Older(self.ctx.now()),
            older @ Intent::Older(_) => older,
        };
        self.failed(error)
    }

    async fn power(&mut self, request: PowerRequest) -> Flow {
        let (Some(vm), Reach::Ready(ready)) = (self.vm_ref(), &self.reach) else {
            return Flow::Continue;
        };
        let provider = ready.provider.clone();
        let kind = Step::Power(request.clone())
            .operation()
            .unwrap_or(OperationKind::PowerOn);
        self.sending(kind, request.request.clone());
        self.tell_power(&request);
        match provider.power(&vm, request.clone()).await {
            Ok(task) => {
                self.power_accepted(kind, &request);
                self.accepted(kind, task)
            }
            Err(error) => self.failed(error),
        }
    }

    fn tell_power(&mut self, request: &PowerRequest) {
        let overdue = self
            .record
            .operation
            .as_ref()
            .is_some_and(|o| o.kind == OperationKind::GracefulStop);
        if request.op == PowerOp::Off && overdue {
            let text = "The guest did not shut down in time and is stopped hard";
            self.notes
                .push(Note::warning(Reason::GracefulTimeout, text));
        }
    }

    fn power_accepted(&mut self, kind: OperationKind, request: &PowerRequest) {
        let asked = record::object(&self.vm).reboot.to_owned();
        if request.request == Some(RequestId::from(format!("reboot-{asked}"))) {
            self.notes.push(Note::normal(
                Reason::Rebooting,
                format!("Restarted as asked for by the annotation value {asked}"),
            ));
            self.record.reboot_handled = asked;
        } else if kind == OperationKind::Reboot {
            self.notes.push(Note::normal(
                Reason::Rebooting,
                "Restarted to make a change take effect",
            ));
        }
    }

    async fn reconfigure(&mut self) -> Flow {
        let request = match self.request().await {
            Ok(request) => request,
            Err(flow) => return flow,
        };
        let (Some(vm), Reach::Ready(ready)) = (self.vm_ref(), &self.reach) else {
            return Flow::Continue;
        };
        let provider = ready.provider.clone();
        let says_what_waits =
            ready.capabilities.reconfigure_online && ready.features.has(Extension::Identity);
        if let Some(refusal) = self.refused(&request) {
            return refusal;
        }
        self.sending(OperationKind::Reconfigure, None);
        match provider.reconfigure(&vm, request.clone()).await {
            Ok(task) => {
                if !says_what_waits {
                    self.expect_restart();
                }
                self.reconfigure_accepted();
                self.accepted(OperationKind::Reconfigure, task)
            }
            Err(error) => {
                self.remember_refusal(request, &error);
                self.failed(error)
            }
        }
    }

    /// A provider that cannot change all of a running VM, and does not say what waits, leaves it to us to say it. What the
    /// VM has taken up all the same shows at the next look.
    fn expect_restart(&mut self) {
        let (Ok(desired), Some(vm)) = (&self.desired, self.present()) else {
            return;
        };
        if vm.power == PowerState::On {
            let open = differences(&desired.shape(), vm);
            self.record.restart_required = open.into_iter().map(|d| d.field.to_owned()).collect();
        }
    }

    fn reconfigure_accepted(&mut self) {
        self.record.applied.shape = self.desired.as_ref().ok().map(Desired::shape);
        self.notes.push(Note::normal(
            Reason::Reconfigured,
            "The change of size, disks or networks was accepted",
        ));
    }

    async fn delete(&mut self) -> Flow {
        let (Some(vm), Reach::Ready(ready)) = (self.vm_ref(), &self.reach) else {
            return Flow::Continue;
        };
        let provider = ready.provider.clone();
        self.sending(OperationKind::Delete, None);
        match provider.delete(&vm).await {
            Ok(task) => self.accepted(OperationKind::Delete, task),
            Err(error) if error.kind == ErrorKind::NotFound => self.operation_over(),
            Err(error) => self.failed(error),
        }
    }

    /// Takes the finalizer off and tells why.
    async fn release(&mut self, release: Release) -> Flow {
        let keep: Vec<_> = self
            .vm
            .metadata
            .finalizers
            .iter()
            .flatten()
            .filter(|f| *f != names::VIRTUAL_MACHINE_FINALIZER)
            .collect();
        let patch = json!({"metadata": {
            "resourceVersion": self.vm.metadata.resource_version,
            "finalizers": keep,
        }});
        let about = cluster::About::of(Kind::VirtualMachine, &*self.vm);
        match self.write(Patch::Metadata(patch)).await {
            Ok(()) | Err(ClusterError::NotFound) => {
                self.ctx.cluster.event(&about, self.farewell(release));
                let released = Some(about.uid.clone());
                self.ctx.remember(
                    &self.key,
                    Memo {
                        released,
                        ..Memo::default()
                    },
                );
                Flow::Abandon(Next::Idle)
            }
            Err(error) => Flow::Abandon(Next::after_refusal(&error)),
        }
    }

    fn farewell(&self, release: Release) -> Note {
        let id = self.record.id.as_ref().map_or("(no id)", |id| id.as_str());
        let provider = &self.vm.spec.provider_ref.name;
        match release {
            Release::Proved => Note::normal(
                Reason::Deleted,
                format!("VM {id} is gone from provider {provider}"),
            ),
            Release::Retained => Note::normal(
                Reason::Retained,
                format!("VM {id} stays on provider {provider}"),
            ),
            Release::Forced => Note::warning(
                Reason::ForceDeleted,
                format!(
                    "Deleted by force: VM {id} (identity {}) may still be on provider {provider}",
                    self.identity
                ),
            ),
            Release::NotOurs => Note::warning(
                Reason::NotOurs,
                format!(
                    "The VM of this name on provider {provider} is not ours and was not touched"
                ),
            ),
        }
    }

    /// The whole request, with user data from Secrets.
    async fn request(&mut self) -> Result<CreateVm, Flow> {
        let desired = match &self.desired {
            Ok(desired) => desired.vm.clone(),
            Err(problem) => return Err(Flow::End(Outcome::Stopped(problem.clone()))),
        };
        let vm = self.vm.clone();
        let rendered = self.render(&Sources::of(&vm.spec)).await?;
        Ok(CreateVm {
            user_data: rendered.user_data,
            meta_data: user_data::complete_meta_data(
                &rendered.meta_data,
                self.key.name(),
                &self.identity,
            ),
            network_data: rendered.network_data,
            ..desired
        })
    }

    /// A Secret that cannot be read is told, and read again: nothing else would wake us.
    async fn render(&mut self, sources: &Sources<'_>) -> Result<user_data::Rendered, Flow> {
        let mut secrets = std::collections::BTreeMap::new();
        for (_, name) in user_data::secrets_needed(sources) {
            let key = ObjectKey::new(self.key.namespace(), name);
            match self.ctx.cluster.secret(&key).await {
                Ok(data) => secrets.insert(name.to_owned(), data),
                Err(error) => {
                    self.come_again = Some(Next::after_refusal(&error));
                    return Err(Flow::End(Outcome::Stopped(unreadable(name, &error))));
                }
            };
        }
        user_data::render(sources, &secrets).map_err(|problem| Flow::End(Outcome::Stopped(problem)))
    }

    /// A request that was refused for what it says is not sent again while it says the same, whoever wakes us.
    fn refused(&mut self, request: &CreateVm) -> Option<Flow> {
        let (refused, error) = self.memo.refused.as_deref()?;
        if refused == request {
            return Some(Flow::End(Outcome::Failed(error.clone())));
        }
        self.memo.refused = None;
        None
    }

    fn remember_refusal(&mut self, request: CreateVm, error: &ProviderError) {
        if matches!(error.kind, ErrorKind::Invalid | ErrorKind::Unsupported) {
            self.memo.refused = Some(Arc::new((request, error.clone())));
        }
    }

    /// Remembers what is about to be sent, so that it is not sent again before it can show.
    pub(super) fn sending(&mut self, kind: OperationKind, request: Option<RequestId>) {
        let sent = Sent {
            kind,
            at: self.ctx.now(),
            request,
            answer: Answer::Open,
        };
        self.memo.sent = Some((sent, self.present().cloned()));
    }

    /// The provider took the request; with a task it is still at work.
    pub(super) fn accepted(&mut self, kind: OperationKind, task: Option<TaskId>) -> Flow {
        self.seen = Seen::Unknown;
        if let Some((sent, _)) = &mut self.memo.sent {
            sent.answer = Answer::Taken;
        }
        let kept = self
            .record
            .operation
            .take()
            .filter(|o| o.kind == kind && o.task == task);
        let waits = task.is_some() || kind == OperationKind::GracefulStop;
        if waits {
            let since = kept.map_or_else(|| self.ctx.now(), |o| o.since);
            self.record.operation = Some(Operation {
                kind,
                task: task.clone(),
                since,
                attempt: 0,
            });
        }
        match task {
            Some(task) => self.await_task(&task),
            None => Flow::Continue,
        }
    }

    /// A request that failed for certain leaves nothing to wait for; otherwise the VM is looked at before the next try.
    pub(super) fn failed(&mut self, error: ProviderError) -> Flow {
        if !error.kind.may_have_happened() {
            self.memo.sent = None;
        }
        self.seen = Seen::Unknown;
        Flow::End(Outcome::Failed(error))
    }
}

fn unreadable(secret: &str, error: &ClusterError) -> Problem {
    Problem::new(
        Reason::SecretInvalid,
        "spec.userData",
        format!("Secret {secret} cannot be read: {error}"),
    )
}

/// Something wakes us, or the time does.
pub(super) fn wait_next(wait: &Wait) -> Next {
    wait.recheck.map_or(Next::Idle, Next::After)
}
