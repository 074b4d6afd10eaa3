//! What is in flight on the provider.

use std::time::Duration;

use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{ErrorKind, Extension, ProviderError, TaskId};
use polyvirt_plan::virtual_machine::{Operation, OperationKind, Outcome, Shape, overdue_task};

use super::pass::{Flow, Pass, Reach, Ready, Seen};
use crate::link::observations::TASK_SILENCE;

/// How often a task is asked for where no stream tells of it.
const POLLED_TASK_RECHECK: Duration = Duration::from_secs(2);

impl Pass<'_> {
    pub(super) async fn check_task(&mut self, task: TaskId) -> Flow {
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
            Ok(TaskState::Running { .. }) => match self.overdue_task() {
                Some(error) => self.operation_failed(error),
                None => self.await_task(&task),
            },
            Ok(TaskState::Succeeded) => {
                self.revert_task_over();
                self.operation_over()
            }
            Ok(TaskState::Failed(error)) if self.revert_task_refused(&error) => Flow::Continue,
            Ok(TaskState::Failed(error)) => self.operation_failed(error),
            // A provider that restarted has forgotten its tasks. What they did is to be seen on the VM.
            Err(error) if error.kind == ErrorKind::NotFound => self.operation_forgotten(),
            Err(error) => Flow::End(Outcome::Failed(error)),
        }
    }

    fn overdue_task(&self) -> Option<ProviderError> {
        let operation = self.record.operation.as_ref()?;
        overdue_task(operation, self.ctx.now())
    }

    fn operation_forgotten(&mut self) -> Flow {
        self.doubt_shape();
        self.operation_over()
    }

    /// What an operation was to bring about is not sure any more.
    fn doubt_shape(&mut self) {
        match self.record.operation.as_ref().map(|o| o.kind) {
            // Unlike everything, so that the change is sent again unless the VM shows it.
            Some(OperationKind::Reconfigure) => {
                let options = &mut self.record.applied.options;
                *options = options.take().map(|_| String::new());
                self.record.applied.shape = Some(Shape::default());
            }
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

    pub(super) fn await_task(&mut self, task: &TaskId) -> Flow {
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

    pub(super) fn operation_over(&mut self) -> Flow {
        self.record.operation = None;
        self.seen = Seen::Unknown;
        Flow::Continue
    }

    /// What was told of the VM may be from before an operation that failed half-way: the provider is asked.
    fn doubt_observation(&self) {
        if let (Reach::Ready(ready), Some(id)) = (&self.reach, &self.record.id) {
            ready.link.seen(|seen| seen.forget(id));
        }
    }

    fn unheard_shutdown(&mut self) -> Option<&mut Operation> {
        let operation = self.record.operation.as_mut();
        operation.filter(|o| o.kind == OperationKind::GracefulStop)
    }

    fn operation_failed(&mut self, error: ProviderError) -> Flow {
        if let Some(asked) = self.unheard_shutdown() {
            // It was asked, and has its time; then it is stopped hard. Asked again, it would have it for ever.
            asked.task = None;
            self.seen = Seen::Unknown;
            return Flow::Continue;
        }
        self.doubt_shape();
        let ended = self.record.operation.take().map(|o| o.kind);
        if ended == Some(OperationKind::Create) {
            // What was refused late is refused all the same: the next host is tried.
            self.is_misplaced(&error);
        }
        let sent = self.memo.sent.take();
        if let Some(kind) = ended {
            let seen = sent.map_or_else(|| self.present().cloned(), |(_, seen)| seen);
            self.set_back(kind, seen, &error);
        }
        self.doubt_observation();
        self.seen = Seen::Unknown;
        Flow::End(Outcome::Failed(error))
    }
}
