//! Work on the same thing, one after the other; on others beside.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

type Turn = tokio::sync::Mutex<()>;

/// Whose turn it is, by the name of the thing.
#[derive(Debug, Default)]
pub struct Turns(Mutex<BTreeMap<String, Weak<Turn>>>);

impl Turns {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Weak<Turn>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, key: &str) -> Arc<Turn> {
        let mut turns = self.lock();
        turns.retain(|_, turn| turn.strong_count() > 0);
        let known = turns.get(key).and_then(Weak::upgrade);
        let turn = known.unwrap_or_default();
        turns.insert(key.to_owned(), Arc::downgrade(&turn));
        turn
    }

    /// Waits until nobody else is at it.
    pub async fn wait(&self, key: &str) -> OwnedMutexGuard<()> {
        self.of(key).lock_owned().await
    }

    /// The turn, unless somebody is at it.
    pub fn now(&self, key: &str) -> Option<OwnedMutexGuard<()>> {
        self.of(key).try_lock_owned().ok()
    }
}

/// Waits for both locks. Two callers that name the same locks in another order do not wait for each other: which lock is taken
/// first depends on the locks alone. They must be two.
pub async fn both<'a>(one: &'a Turn, other: &'a Turn) -> [tokio::sync::MutexGuard<'a, ()>; 2] {
    let (first, second) = if std::ptr::from_ref(one) < std::ptr::from_ref(other) {
        (one, other)
    } else {
        (other, one)
    };
    // One after the other, in this order: waiting for both at the same time would take them in any.
    let first = first.lock().await;
    [first, second.lock().await]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn two_locks_are_taken_in_one_order() {
        let (a, b) = (Turn::default(), Turn::default());
        let there = async {
            for _ in 0..100 {
                let _both = both(&a, &b).await;
                tokio::task::yield_now().await;
            }
        };
        let back = async {
            for _ in 0..100 {
                let _both = both(&b, &a).await;
                tokio::task::yield_now().await;
            }
        };
        let ended = async { tokio::join!(there, back) };
        let ended = tokio::time::timeout(std::time::Duration::from_secs(10), ended).await;
        assert!(ended.is_ok(), "they wait for each other");
    }

    #[tokio::test]
    async fn one_thing_is_worked_on_by_one_at_a_time_and_others_beside() {
        let turns = Turns::default();
        let first = turns.wait("a").await;
        let other = turns.wait("b").await;
        assert!(turns.now("a").is_none());
        let waits = tokio::time::timeout(std::time::Duration::from_millis(20), turns.wait("a"));
        assert!(waits.await.is_err());
        drop((first, other));
        let again = turns.now("a").expect("free");
        assert_eq!(turns.lock().len(), 1, "turns that are over are forgotten");
        drop(again);
    }
}
