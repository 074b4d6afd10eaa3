//! Hooks at work beside the passes.
//!
//! ```text
//!   pass ─ begin ─► waits for a place ─► at work ─► over ─ wakes the VM ─► pass ─ take
//! ```
//!
//! A hook may take minutes, and a pass that waited for it would hold a place of its provider's lane for so long. So a pass begins
//! it and ends. Hooks have places of their own, so many for one provider and so many in all, and get them in their turn.
//!
//! Nothing of this is kept: who dies has written before that a try was begun, and makes another, as far as there may be one.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use polyvirt_plan::virtual_machine::hooks::{Again, Moment, Run};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::hook::Ended;
use crate::runtime::background::caught;
use crate::runtime::key::ObjectKey;

/// Hooks at work for all providers together, and for one.
const MOST: usize = 128;
const MOST_OF_ONE: usize = 32;

/// One try of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Try {
    pub(crate) moment: Moment,
    since: Timestamp,
    tries: u32,
}

impl Try {
    pub(crate) const fn of(moment: Moment, run: &Run) -> Self {
        Self {
            moment,
            since: run.since,
            tries: run.tries,
        }
    }
}

/// How it stands with a try.
pub(crate) enum Standing {
    /// Nobody has begun it here.
    Unknown,
    /// It waits for a place, or has one.
    AtWork,
    /// It is over, and nobody had heard of that yet.
    Over(Ended),
}

enum State {
    AtWork(AbortHandle),
    Over(Ended),
}

struct Errand {
    which: Try,
    state: State,
}

impl Errand {
    fn stop(self) {
        if let State::AtWork(task) = self.state {
            task.abort();
        }
    }
}

/// Whose hook it is.
pub(crate) struct Whose {
    pub(crate) vm: ObjectKey,
    pub(crate) provider: ObjectKey,
}

/// All hooks at work. Dropping them stops them.
pub(crate) struct Errands {
    at_hand: Arc<Mutex<HashMap<ObjectKey, Errand>>>,
    places: Arc<Semaphore>,
    /// Places of each provider.
    lanes: Mutex<HashMap<ObjectKey, Arc<Semaphore>>>,
}

impl Default for Errands {
    fn default() -> Self {
        Self {
            at_hand: Arc::default(),
            places: Arc::new(Semaphore::new(MOST)),
            lanes: Mutex::default(),
        }
    }
}

impl Errands {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Errand>> {
        self.at_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a try beside the passes; `wake` is done when it is over. A VM has one at a time: another one is stopped.
    pub(crate) fn begin(
        &self,
        whose: Whose,
        which: Try,
        work: impl Future<Output = Ended> + Send + 'static,
        wake: impl FnOnce() + Send + 'static,
    ) {
        let places = (self.lane(&whose.provider), self.places.clone());
        let (at_hand, vm, this) = (self.at_hand.clone(), whose.vm.clone(), which.clone());
        // Held until it is in there: it may be over at once.
        let mut errands = self.lock();
        let task = tokio::spawn(async move {
            let ended = in_turn(places, work).await;
            let mut errands = at_hand.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(errand) = errands.get_mut(&vm).filter(|errand| errand.which == this) {
                errand.state = State::Over(ended);
            }
            drop(errands);
            wake();
        });
        let state = State::AtWork(task.abort_handle());
        let before = errands.insert(whose.vm, Errand { which, state });
        drop(errands);
        before.into_iter().for_each(Errand::stop);
    }

    fn lane(&self, provider: &ObjectKey) -> Arc<Semaphore> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        // Whom nobody waits for is forgotten.
        lanes.retain(|key, lane| key == provider || Arc::strong_count(lane) > 1);
        let lane = lanes.entry(provider.clone());
        lane.or_insert_with(|| Arc::new(Semaphore::new(MOST_OF_ONE)))
            .clone()
    }

    /// How it stands with that try. One that is over is told of once.
    pub(crate) fn take(&self, vm: &ObjectKey, which: &Try) -> Standing {
        let mut errands = self.lock();
        match errands.get(vm) {
            Some(errand) if errand.which != *which => Standing::Unknown,
            Some(Errand {
                state: State::AtWork(_),
                ..
            }) => Standing::AtWork,
            _ => match errands.remove(vm).map(|errand| errand.state) {
                Some(State::Over(ended)) => Standing::Over(ended),
                _ => Standing::Unknown,
            },
        }
    }

    /// The try of a VM that was begun here and of whose end nobody has heard.
    pub(crate) fn of(&self, vm: &ObjectKey) -> Option<Try> {
        self.lock().get(vm).map(|errand| errand.which.clone())
    }

    /// Stops that of a VM.
    pub(crate) fn stop(&self, vm: &ObjectKey) {
        let stopped = self.lock().remove(vm);
        stopped.into_iter().for_each(Errand::stop);
    }

    /// VMs whose try is over.
    pub(crate) fn over(&self) -> Vec<ObjectKey> {
        let errands = self.lock();
        let over = errands
            .iter()
            .filter(|(_, errand)| matches!(errand.state, State::Over(_)));
        over.map(|(vm, _)| vm.clone()).collect()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}

impl Drop for Errands {
    fn drop(&mut self) {
        let all = std::mem::take(&mut *self.lock());
        all.into_values().for_each(Errand::stop);
    }
}

/// A provider that has all of its places in use waits for them before it takes one of the common ones.
async fn in_turn(
    (lane, places): (Arc<Semaphore>, Arc<Semaphore>),
    work: impl Future<Output = Ended>,
) -> Ended {
    // They are never closed.
    let _lane = lane.acquire().await;
    let _place = places.acquire().await;
    caught(work)
        .await
        .unwrap_or_else(|fault| Ended::Badly(fault.to_string(), Again::Perhaps))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("ns", name)
    }

    fn first(moment: Moment) -> Try {
        Try {
            moment,
            since: Timestamp::UNIX_EPOCH,
            tries: 1,
        }
    }

    /// Begins one that ends after a time, and tells of its end by its number.
    fn begin(
        errands: &Errands,
        number: usize,
        provider: &str,
        told: &mpsc::UnboundedSender<usize>,
    ) {
        let whose = Whose {
            vm: key(&number.to_string()),
            provider: key(provider),
        };
        let work = async {
            tokio::time::sleep(Duration::from_secs(300)).await;
            Ended::Well(String::new())
        };
        let told = told.clone();
        let wake = move || told.send(number).expect("heard");
        errands.begin(whose, first(Moment::PostStart), work, wake);
    }

    #[tokio::test(start_paused = true)]
    async fn the_hooks_of_one_provider_do_not_keep_those_of_another() {
        let errands = Errands::default();
        let (tell, mut told) = mpsc::unbounded_channel();
        for number in 0..=MOST_OF_ONE {
            begin(&errands, number, "busy", &tell);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        begin(&errands, 999, "other", &tell);
        for _ in 0..MOST_OF_ONE {
            assert_ne!(told.recv().await, Some(999));
        }
        assert_eq!(told.recv().await, Some(999), "the last of the others waits");
        assert_eq!(told.recv().await, Some(MOST_OF_ONE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_try_is_told_of_once_and_one_that_was_stopped_never() {
        let errands = Errands::default();
        let (tell, mut told) = mpsc::unbounded_channel();
        let try_of = first(Moment::PostStart);
        begin(&errands, 1, "p", &tell);
        begin(&errands, 2, "p", &tell);
        errands.stop(&key("2"));
        assert!(matches!(errands.take(&key("1"), &try_of), Standing::AtWork));
        assert_eq!(told.recv().await, Some(1));
        assert_eq!(errands.over(), [key("1")]);
        let other = first(Moment::PreStop);
        assert!(matches!(errands.take(&key("1"), &other), Standing::Unknown));
        assert!(matches!(
            errands.take(&key("1"), &try_of),
            Standing::Over(Ended::Well(_))
        ));
        assert!(errands.is_empty());
        tokio::time::sleep(Duration::from_secs(999)).await;
        assert!(told.try_recv().is_err(), "it was stopped");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_panics_has_failed() {
        let errands = Errands::default();
        let (tell, mut told) = mpsc::unbounded_channel();
        let whose = Whose {
            vm: key("1"),
            provider: key("p"),
        };
        let try_of = first(Moment::PreStop);
        let wake = move || tell.send(()).expect("heard");
        let work = async { panic!("a fault") };
        errands.begin(whose, try_of.clone(), work, wake);
        told.recv().await.expect("told");
        let standing = errands.take(&key("1"), &try_of);
        assert!(matches!(standing, Standing::Over(Ended::Badly(..))));
    }
}
