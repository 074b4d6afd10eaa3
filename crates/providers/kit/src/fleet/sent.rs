//! VMs whose creation was sent to a host and whose fate is not certain. As long as it is not, no other host gets them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use polyvirt_contract::{ErrorKind, Result};
use tokio::sync::OwnedMutexGuard;

use crate::turns::Turns;

/// A VM on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The place of the host.
    pub host: usize,
    /// What it will take there.
    pub memory_mib: u64,
}

/// All that are on their way.
#[derive(Debug, Default)]
pub struct Book {
    on_the_way: Mutex<BTreeMap<String, Sent>>,
    turns: Turns,
}

impl Book {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Sent>> {
        self.on_the_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody else creates the same VM.
    pub async fn turn(&self, key: &str) -> OwnedMutexGuard<()> {
        self.turns.wait(key).await
    }

    /// Where it was sent, if that is not settled.
    pub fn where_is(&self, key: &str) -> Option<usize> {
        self.lock().get(key).map(|sent| sent.host)
    }

    /// Memory on its way to a host.
    pub fn memory_mib(&self, host: usize) -> u64 {
        let on_the_way = self.lock();
        let there = on_the_way.values().filter(|sent| sent.host == host);
        there.map(|sent| sent.memory_mib).sum()
    }

    /// Notes where it goes.
    pub fn send(&self, key: &str, sent: Sent) {
        self.lock().insert(key.to_owned(), sent);
    }

    /// Takes in the answer: an uncertain one leaves the VM on its way.
    pub fn settle<T>(&self, key: &str, answer: &Result<T>) {
        if !is_uncertain(answer) {
            self.lock().remove(key);
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
}
