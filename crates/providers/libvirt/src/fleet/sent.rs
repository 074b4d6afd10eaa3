//! VMs whose creation was sent to a host and whose fate is not certain. As long as it is not, no other host gets them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use polyvirt_contract::{ErrorKind, Result};
use tokio::sync::OwnedMutexGuard;

/// A VM on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// The place of the host.
    pub(super) host: usize,
    pub(super) memory_mib: u64,
}

#[derive(Default)]
struct Inside {
    on_the_way: BTreeMap<String, Sent>,
    turns: BTreeMap<String, Weak<tokio::sync::Mutex<()>>>,
}

/// All that are on their way.
#[derive(Default)]
pub(super) struct Book(Mutex<Inside>);

impl Book {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody else creates the same VM.
    pub(super) async fn turn(&self, key: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut inside = self.lock();
            inside.turns.retain(|_, turn| turn.strong_count() > 0);
            let known = inside.turns.get(key).and_then(Weak::upgrade);
            let turn = known.unwrap_or_default();
            inside.turns.insert(key.to_owned(), Arc::downgrade(&turn));
            turn
        };
        turn.lock_owned().await
    }

    /// Where it was sent, if that is not settled.
    pub(super) fn where_is(&self, key: &str) -> Option<usize> {
        self.lock().on_the_way.get(key).map(|sent| sent.host)
    }

    /// Memory on its way to a host.
    pub(super) fn memory_mib(&self, host: usize) -> u64 {
        let inside = self.lock();
        let there = inside.on_the_way.values().filter(|sent| sent.host == host);
        there.map(|sent| sent.memory_mib).sum()
    }

    pub(super) fn send(&self, key: &str, sent: Sent) {
        self.lock().on_the_way.insert(key.to_owned(), sent);
    }

    /// Takes in the answer: an uncertain one leaves the VM on its way.
    pub(super) fn settle<T>(&self, key: &str, answer: &Result<T>) {
        if !is_uncertain(answer) {
            self.lock().on_the_way.remove(key);
        }
    }
}

/// Whether the host may have done it although it does not say so.
fn is_uncertain<T>(answer: &Result<T>) -> bool {
    answer.as_ref().err().is_some_and(|error| {
        matches!(
            error.kind,
            ErrorKind::Unavailable
                | ErrorKind::Timeout
                | ErrorKind::Cancelled
                | ErrorKind::Internal
        )
    })
}

#[cfg(test)]
mod tests {
    use polyvirt_contract::ProviderError;

    use super::*;

    #[test]
    fn what_is_not_certain_stays_on_its_way() {
        let book = Book::default();
        for (kind, stays) in [
            (Some(ErrorKind::Unavailable), true),
            (Some(ErrorKind::Timeout), true),
            (Some(ErrorKind::Internal), true),
            (Some(ErrorKind::Invalid), false),
            (Some(ErrorKind::NameConflict), false),
            (None, false),
        ] {
            let sent = Sent {
                host: 1,
                memory_mib: 64,
            };
            book.send("a", sent);
            assert_eq!((book.memory_mib(1), book.memory_mib(0)), (64, 0));
            let answer = kind.map_or(Ok(()), |kind| Err(ProviderError::new(kind, "So")));
            book.settle("a", &answer);
            assert_eq!(book.where_is("a").is_some(), stays, "{kind:?}");
        }
    }

    #[tokio::test]
    async fn one_vm_is_created_by_one_at_a_time_and_others_beside() {
        let book = Book::default();
        let first = book.turn("a").await;
        let other = book.turn("b").await;
        let waits = tokio::time::timeout(std::time::Duration::from_millis(20), book.turn("a"));
        assert!(waits.await.is_err());
        drop((first, other));
        let again = book.turn("a").await;
        assert_eq!(
            book.lock().turns.len(),
            1,
            "turns that are over are forgotten"
        );
        drop(again);
    }
}
