//! Work that may outlive its call. It goes on when the caller goes away, and asked for twice it is done once.
//!
//! A task that dies with the provider is forgotten: the caller looks at the VM and asks again, and every task begins by
//! looking how far the one before it came.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{Result, TaskId};
use tokio::sync::watch;

use crate::errors;
use crate::hub::Hub;

/// How long a call waits for the end of its work before it answers with a task.
const GRACE: Duration = Duration::from_millis(500);
/// Ended tasks that are remembered.
const REMEMBERED: usize = 4096;
/// No task goes on for longer.
const LONGEST: Duration = Duration::from_hours(2);

/// All tasks of this life of the provider.
#[derive(Clone)]
pub(crate) struct Tasks {
    inside: Arc<Mutex<Inside>>,
    hub: Hub,
    /// Tells this life from others, whose tasks nobody knows any more.
    life: String,
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
pub(crate) struct Begun {
    id: TaskId,
    state: watch::Receiver<TaskState>,
}

impl Tasks {
    pub(crate) fn new(hub: Hub, life: String) -> Self {
        Self {
            inside: Arc::default(),
            hub,
            life,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self, number: u64) -> TaskId {
        TaskId::from(format!("{}-{number}", self.life))
    }

    /// Begins the work, unless work of this key is under way: then that is it.
    pub(crate) fn begin<F>(&self, key: &str, work: F) -> Begun
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
        let (me, key, id) = (self.clone(), key.to_owned(), self.id(number));
        tokio::spawn(async move {
            let ended = tokio::time::timeout(LONGEST, work).await;
            let ended = ended.unwrap_or_else(|_| Err(errors::late("The task")));
            me.end(&key, number, &sender, ended);
        });
        Begun { id, state }
    }

    fn under_way(&self, inside: &Inside, key: &str) -> Option<Begun> {
        let number = *inside.by_key.get(key)?;
        let state = inside.states.get(&number)?.clone();
        Some(Begun {
            id: self.id(number),
            state,
        })
    }

    fn end(&self, key: &str, number: u64, told: &watch::Sender<TaskState>, ended: Result<()>) {
        let state = ended.map_or_else(TaskState::Failed, |()| TaskState::Succeeded);
        let mut inside = self.lock();
        if inside.by_key.get(key) == Some(&number) {
            inside.by_key.remove(key);
        }
        drop(inside);
        told.send_replace(state.clone());
        let id = self.id(number);
        self.hub.publish(VmEvent::Task { id, state });
    }

    /// How a task stands; `None` if nobody remembers it.
    pub(crate) fn status(&self, id: &TaskId) -> Option<TaskState> {
        let number = id.as_str().strip_prefix(&self.life)?.strip_prefix('-')?;
        let inside = self.lock();
        let state = inside.states.get(&number.parse().ok()?)?;
        Some(state.borrow().clone())
    }
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
    /// Waits a while: nothing to tell if the work is done by then, else the task to ask for.
    pub(crate) async fn answer(mut self) -> Result<Option<TaskId>> {
        let ended = self
            .state
            .wait_for(|state| !matches!(state, TaskState::Running { .. }));
        match tokio::time::timeout(GRACE, ended).await {
            Err(_) => Ok(Some(self.id)),
            Ok(Ok(state)) => match &*state {
                TaskState::Failed(error) => Err(error.clone()),
                _ => Ok(None),
            },
            Ok(Err(_)) => Err(errors::internal("The work ended without a word; try again")),
        }
    }
}

#[cfg(test)]
mod tests {
    use polyvirt_contract::ProviderError;

    use super::*;

    fn tasks() -> Tasks {
        Tasks::new(Hub::new(), "life".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn quick_work_is_answered_at_once_and_slow_work_by_a_task() {
        let tasks = tasks();
        let quick = tasks.begin("quick", async { Ok(()) });
        assert_eq!(quick.answer().await, Ok(None));
        let slow = tasks.begin("slow", async {
            tokio::time::sleep(GRACE * 3 / 2).await;
            Ok(())
        });
        let again = tasks.begin("slow", async { Ok(()) });
        let id = slow.answer().await.expect("accepted").expect("a task");
        assert_eq!(again.answer().await, Ok(None), "it ends with the first");
        assert_eq!(tasks.status(&id), Some(TaskState::Succeeded));
        assert_eq!(tasks.status(&TaskId::from("other-1")), None);
    }

    #[tokio::test]
    async fn a_failure_is_the_answer() {
        let begun = tasks().begin("x", async { Err(ProviderError::unsupported("x")) });
        assert!(begun.answer().await.is_err());
    }
}
