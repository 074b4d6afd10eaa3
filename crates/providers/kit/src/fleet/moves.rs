//! What is around a move, whatever the hosts are: who asked for it, which task it is, how far it is, and how it is stopped.

use std::sync::Arc;

use polyvirt_contract::model::{MigrationProgress, VmRef};
use polyvirt_contract::{ErrorKind, ProviderError, RequestId, Result, TaskId};
use tokio_util::sync::CancellationToken;

use super::running::{Moves, Running, Stage};
use crate::tasks::{Begun, Progress, Tasks};
use crate::uuid::Uuid;

/// The key of the task that moves a VM, or settles who has it. The VM is told by its UUID, or by the id that is the same.
pub fn key(vm: &impl std::fmt::Display) -> String {
    format!("migrate {vm}")
}

/// The work, as long as the provider lives.
pub async fn unless_stopped(
    stop: CancellationToken,
    work: impl Future<Output = Result<()>> + Send,
) -> Result<()> {
    tokio::select! {
        () = stop.cancelled() => Err(ProviderError::new(
            ErrorKind::Unavailable,
            "The provider stops, and the move with it",
        )),
        done = work => done,
    }
}

/// Says that a move is over, however it ends.
struct Ended(Arc<Running>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn precondition(message: impl Into<String>) -> ProviderError {
    ProviderError::new(ErrorKind::Precondition, message)
}

/// Waits a while, and tells how it went if it was refused by then. Else it is by its task that one asks: a failure that sounds as if
/// nobody had answered, such as that the target went away, would have the whole move asked for again.
pub async fn told(begun: Begun) -> Result<Option<TaskId>> {
    let id = begun.id().clone();
    match begun.answer().await {
        Err(error) if !error.kind.is_unanswered() => Err(error),
        _ => Ok(Some(id)),
    }
}

impl Moves {
    /// The move of the VM that is under way, if the same request asked for it: one VM goes one way at a time.
    pub fn under_way(
        &self,
        tasks: &Tasks,
        vm: Uuid,
        request: Option<&RequestId>,
    ) -> Result<Option<Begun>> {
        let Some(begun) = tasks.find(&key(&vm)) else {
            return Ok(None);
        };
        let running = self.of_vm(vm);
        if running.is_some_and(|running| running.request.as_ref() == request) {
            return Ok(Some(begun));
        }
        Err(precondition(format!(
            "The VM {vm} is being moved already; wait for that, or stop it"
        )))
    }

    /// Begins a move as a task, which ends with the provider. Told even of one that is over by then ([`told`]).
    pub async fn begin<F>(
        &self,
        (tasks, stop): (&Tasks, CancellationToken),
        running: Arc<Running>,
        carry: impl FnOnce(Arc<Running>, Progress) -> F,
    ) -> Result<Option<TaskId>>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let begun = tasks.begin(&key(&running.vm), |progress| {
            let ended = Ended(running.clone());
            let carried = carry(running.clone(), progress);
            async move {
                let moved = unless_stopped(stop, carried).await;
                drop(ended);
                moved
            }
        });
        self.remember(begun.id().clone(), running);
        told(begun).await
    }

    /// How far a move is.
    pub fn progress(&self, task: &TaskId) -> Result<MigrationProgress> {
        let found = self.of_task(task);
        let absent = || ProviderError::not_found(format!("The move {task}"));
        Ok(found.ok_or_else(absent)?.progress())
    }

    /// Stops a move, if that can still be done.
    pub fn stop(&self, vm: &VmRef, request: &RequestId) -> Result<()> {
        let uuid = Uuid::parse(vm.id.as_str());
        let found = uuid.and_then(|uuid| self.of_vm(uuid));
        let running = found.filter(|running| running.request.as_ref() == Some(request));
        let absent = || ProviderError::not_found(format!("A move for the request {request}"));
        let running = running.ok_or_else(absent)?;
        if running.stage() != Stage::Open {
            let message = "The guest is about to go on at its target, which cannot be taken back";
            return Err(precondition(message));
        }
        running.stop.cancel();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use polyvirt_contract::watch::TaskState;

    use super::*;
    use crate::hub::Hub;

    fn vm(uuid: Uuid) -> VmRef {
        VmRef {
            id: uuid.vm_id(),
            owner: None,
        }
    }

    /// A move that goes on until it is stopped.
    async fn begun(moves: &Moves, tasks: &Tasks, stop: &CancellationToken) -> (Uuid, TaskId) {
        let uuid = Uuid::from_bytes([7; 16]);
        let hosts = ("a".to_owned(), "b".to_owned());
        let running = Running::new(uuid, Some("r1".into()), hosts);
        let carry = |running: Arc<Running>, _| async move {
            running.stop.cancelled().await;
            Err(ProviderError::new(ErrorKind::Cancelled, "stopped"))
        };
        let task = moves.begin((tasks, stop.clone()), running, carry).await;
        (uuid, task.expect("begun").expect("a task"))
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_moves_a_vm_at_a_time_and_can_stop_it() {
        let (moves, stop) = (Moves::default(), CancellationToken::new());
        let tasks = Tasks::new(Hub::new(), "task-1".to_owned());
        let (uuid, task) = begun(&moves, &tasks, &stop).await;
        let same = moves.under_way(&tasks, uuid, Some(&"r1".into()));
        assert_eq!(same.expect("the same").expect("goes on").id(), &task);
        let other = moves.under_way(&tasks, uuid, Some(&"r2".into()));
        assert_eq!(other.err().map(|e| e.kind), Some(ErrorKind::Precondition));
        assert_eq!(moves.progress(&task).expect("known").target_host, "b");
        let wrong = moves.stop(&vm(uuid), &"r2".into()).expect_err("another's");
        assert_eq!(wrong.kind, ErrorKind::NotFound);
        moves.stop(&vm(uuid), &"r1".into()).expect("stopped");
        let ended = tasks.find(&key(&uuid)).expect("goes on").done().await;
        assert_eq!(ended.err().map(|e| e.kind), Some(ErrorKind::Cancelled));
        assert!(moves.of_vm(uuid).is_none(), "it is over");
    }

    #[tokio::test(start_paused = true)]
    async fn a_move_that_fails_at_once_has_an_end_all_the_same() {
        for kind in [ErrorKind::Unavailable, ErrorKind::Timeout] {
            let tasks = Tasks::new(Hub::new(), "task-1".to_owned());
            let hosts = ("a".to_owned(), "b".to_owned());
            let running = Running::new(Uuid::from_bytes([7; 16]), Some("r1".into()), hosts);
            let carry = move |_, _| async move { Err(ProviderError::new(kind, "b went away")) };
            let office = (&tasks, CancellationToken::new());
            let task = Moves::default().begin(office, running, carry).await;
            let task = task.expect("answered").expect("a task");
            let Some(TaskState::Failed(error)) = tasks.status(&task) else {
                panic!("{task} failed");
            };
            assert_eq!(error.kind, kind);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_move_that_is_refused_is_answered_so() {
        let tasks = Tasks::new(Hub::new(), "task-1".to_owned());
        let hosts = ("a".to_owned(), "b".to_owned());
        let running = Running::new(Uuid::from_bytes([7; 16]), Some("r1".into()), hosts);
        let carry = |_, _| async { Err(precondition("It has snapshots")) };
        let office = (&tasks, CancellationToken::new());
        let answer = Moves::default().begin(office, running, carry).await;
        assert_eq!(answer.err().map(|e| e.kind), Some(ErrorKind::Precondition));
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_stops_ends_its_moves() {
        let (moves, stop) = (Moves::default(), CancellationToken::new());
        let tasks = Tasks::new(Hub::new(), "task-1".to_owned());
        let (uuid, _) = begun(&moves, &tasks, &stop).await;
        let under_way = tasks.find(&key(&uuid)).expect("goes on");
        stop.cancel();
        let ended = under_way.done().await;
        assert_eq!(ended.err().map(|e| e.kind), Some(ErrorKind::Unavailable));
    }
}
