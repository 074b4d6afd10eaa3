//! Work that may outlive its call. It goes on when the caller goes away, and asked for twice it is done once.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{ErrorKind, ProviderError, Result, TaskId};
use tokio::sync::watch;

use crate::hub::Hub;

/// How long a call waits for the end of its work before it answers with a task.
const GRACE: Duration = Duration::from_secs(5);
/// Ended tasks that are remembered.
const REMEMBERED: usize = 4096;

/// All tasks of this life of the provider.
#[derive(Clone)]
pub struct Tasks {
    inside: Arc<Mutex<Inside>>,
    hub: Hub,
    /// Tells this life from others, whose tasks nobody knows any more.
    life: String,
    grace: Duration,
}

#[derive(Default)]
struct Inside {
    last: u64,
    states: BTreeMap<u64, watch::Receiver<TaskState>>,
    /// What is being done, by what it does.
    by_key: HashMap<String, u64>,
}

/// A task that was begun or found.
#[derive(Clone, Debug)]
pub struct Begun {
    id: TaskId,
    grace: Duration,
    state: watch::Receiver<TaskState>,
}

/// By which work tells how far it is.
#[derive(Clone)]
pub struct Progress {
    id: TaskId,
    state: Arc<watch::Sender<TaskState>>,
    hub: Hub,
}

impl Progress {
    /// Tells how far the work is, in percent; the same number again is not told.
    pub fn at(&self, percent: u8) {
        let state = TaskState::Running {
            percent: Some(percent),
        };
        let changed = self.state.send_if_modified(|old| {
            let changed = *old != state;
            old.clone_from(&state);
            changed
        });
        if changed {
            let id = self.id.clone();
            self.hub.publish(VmEvent::Task { id, state });
        }
    }
}

impl Tasks {
    /// No tasks yet. `life` must differ from that of every earlier life of the provider.
    pub fn new(hub: Hub, life: String) -> Self {
        Self {
            inside: Arc::default(),
            hub,
            life,
            grace: GRACE,
        }
    }

    /// The same, with calls that wait so long for the end of their work before they answer with a task.
    #[must_use]
    pub const fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self, number: u64) -> TaskId {
        TaskId::from(format!("{}-{number}", self.life))
    }

    /// Begins the work, unless work of this key is under way: then that is it.
    pub fn begin<F>(&self, key: &str, work: impl FnOnce(Progress) -> F) -> Begun
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let mut inside = self.lock();
        if let Some(begun) = self.under_way(&inside, key) {
            return begun;
        }
        inside.last += 1;
        let number = inside.last;
        let (sender, state) = watch::channel(TaskState::Running { percent: None });
        inside.states.insert(number, state.clone());
        inside.by_key.insert(key.to_owned(), number);
        inside.forget();
        drop(inside);
        let progress = Progress {
            id: self.id(number),
            state: Arc::new(sender),
            hub: self.hub.clone(),
        };
        let id = progress.id.clone();
        let work = work(progress.clone());
        let (me, key) = (self.clone(), key.to_owned());
        tokio::spawn(async move {
            // Work that panics ends its task like any other failure: its key is free again, and whoever waits is answered.
            let ended = AssertUnwindSafe(work).catch_unwind().await;
            let ended = ended.unwrap_or_else(|_| Err(panicked(&key)));
            me.end(&key, number, &progress, ended);
        });
        Begun {
            id,
            grace: self.grace,
            state,
        }
    }

    fn under_way(&self, inside: &Inside, key: &str) -> Option<Begun> {
        let number = *inside.by_key.get(key)?;
        let state = inside.states.get(&number)?.clone();
        Some(Begun {
            id: self.id(number),
            grace: self.grace,
            state,
        })
    }

    fn end(&self, key: &str, number: u64, progress: &Progress, ended: Result<()>) {
        let state = ended.map_or_else(TaskState::Failed, |()| TaskState::Succeeded);
        let mut inside = self.lock();
        if inside.by_key.get(key) == Some(&number) {
            inside.by_key.remove(key);
        }
        drop(inside);
        progress.state.send_replace(state.clone());
        let id = progress.id.clone();
        self.hub.publish(VmEvent::Task { id, state });
    }

    /// The work of this key, if it is under way.
    pub fn find(&self, key: &str) -> Option<Begun> {
        self.under_way(&self.lock(), key)
    }

    /// How a task stands; `None` if nobody remembers it.
    pub fn status(&self, id: &TaskId) -> Option<TaskState> {
        let number = id.as_str().strip_prefix(&self.life)?.strip_prefix('-')?;
        let inside = self.lock();
        let state = inside.states.get(&number.parse().ok()?)?;
        Some(state.borrow().clone())
    }
}

fn panicked(key: &str) -> ProviderError {
    let text = format!(
        "The provider failed by a defect of its own during: {key}. The operation is retried; report the defect with the provider's log"
    );
    ProviderError::new(ErrorKind::Internal, text)
}

impl Inside {
    fn forget(&mut self) {
        let ended = |state: &watch::Receiver<TaskState>| {
            !matches!(*state.borrow(), TaskState::Running { .. })
        };
        if self.states.len() > REMEMBERED
            && let Some(number) = self.states.iter().find(|(_, s)| ended(s)).map(|(n, _)| *n)
        {
            self.states.remove(&number);
        }
    }
}

impl Begun {
    /// The task.
    pub const fn id(&self) -> &TaskId {
        &self.id
    }

    /// Waits a while: nothing to tell if the work is done by then, else the task to ask for.
    pub async fn answer(self) -> Result<Option<TaskId>> {
        let id = self.id.clone();
        match tokio::time::timeout(self.grace, self.done()).await {
            Ok(ended) => ended.map(|()| None),
            Err(_) => Ok(Some(id)),
        }
    }

    /// Waits for the end.
    pub async fn done(mut self) -> Result<()> {
        let ended = self
            .state
            .wait_for(|state| !matches!(state, TaskState::Running { .. }))
            .await;
        match ended.map(|state| state.clone()) {
            Ok(TaskState::Failed(error)) => Err(error),
            Ok(_) => Ok(()),
            Err(_) => Err(ProviderError::new(
                ErrorKind::Internal,
                "The work ended without a word; try again",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks() -> Tasks {
        Tasks::new(Hub::new(), "life".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn quick_work_is_answered_at_once_and_slow_work_by_a_task() {
        let tasks = tasks();
        let quick = tasks.begin("quick", |_| async { Ok(()) });
        assert_eq!(quick.answer().await, Ok(None));
        let slow = tasks.begin("slow", |_| async {
            tokio::time::sleep(GRACE * 3 / 2).await;
            Ok(())
        });
        let again = tasks.begin("slow", |_| async { Ok(()) });
        let id = slow.answer().await.expect("accepted").expect("a task");
        assert_eq!(
            again.answer().await,
            Ok(None),
            "the same work ends with the first"
        );
        assert_eq!(tasks.status(&id), Some(TaskState::Succeeded));
        assert_eq!(tasks.status(&TaskId::from("other-1")), None);
    }

    #[tokio::test]
    async fn work_that_panics_fails_and_can_be_begun_again() {
        let tasks = tasks();
        let begun = tasks.begin("x", |_| async { panic!("a defect") });
        let id = begun.id().clone();
        let error = begun.answer().await.expect_err("failed");
        assert_eq!(error.kind, ErrorKind::Internal);
        assert!(matches!(tasks.status(&id), Some(TaskState::Failed(_))));
        let again = tasks.begin("x", |_| async { Ok(()) });
        assert_ne!(*again.id(), id);
        assert_eq!(again.answer().await, Ok(None));
    }

    #[tokio::test]
    async fn a_failure_is_the_answer() {
        let begun = tasks().begin("x", |_| async { Err(ProviderError::unsupported("x")) });
        assert!(begun.answer().await.is_err());
    }
}
