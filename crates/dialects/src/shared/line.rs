//! The line of objects that wait to be looked at.

use std::future::Future;
use std::time::Duration;

use polyvirt_engine::next::Next;
use polyvirt_engine::runtime::backoff::Backoff;
use polyvirt_engine::runtime::key::{Key, Kind, ObjectKey};
use polyvirt_engine::runtime::queue::{Lane, Queue, Ticket, Urgency};
use tokio::sync::watch;

/// How long passes under way may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The line of objects that wait to be looked at, and how long those that failed have to wait.
pub struct Line {
    queue: Queue,
    backoff: Backoff,
}

impl Line {
    /// So many are looked at at the same time.
    pub fn new(concurrency: usize) -> Self {
        Self {
            queue: Queue::new(concurrency.max(1)),
            backoff: Backoff::default(),
        }
    }

    /// An object is to be looked at.
    pub fn wake(&self, kind: Kind, key: &ObjectKey, urgency: Urgency) {
        self.wake_in(Lane::Control, Key::new(kind, key.clone()), urgency);
    }

    /// An object is to be looked at, and takes the time of that lane.
    pub fn wake_in(&self, lane: Lane, key: Key, urgency: Urgency) {
        self.queue.add(key, lane, urgency);
    }

    /// Hands out objects for ever, each to a task of its own.
    pub async fn serve<F>(&self, pass: impl Fn(Ticket) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        loop {
            let ticket = self.queue.pop().await;
            tokio::spawn(pass(ticket));
        }
    }

    /// When an object is to be looked at again.
    pub fn schedule(&self, ticket: &Ticket, next: Next) {
        let key = &ticket.key;
        let pause = match next {
            Next::Idle => return self.backoff.succeeded(key),
            Next::After(pause) => {
                self.backoff.succeeded(key);
                pause
            }
            Next::Backoff => self.backoff.failed(key),
            Next::Retry(pause) => pause,
        };
        let lane = ticket.lane.clone();
        self.queue
            .add_after(key.clone(), lane, Urgency::Event, pause);
    }

    /// Until no pass is under way, or for a while.
    pub async fn drain(&self) {
        let idle = async {
            while self.queue.in_flight() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, idle).await;
    }
}

/// Until every cache is complete: what is not listed yet must not look missing.
pub async fn all_listed(listed: impl IntoIterator<Item = watch::Receiver<bool>>) {
    for mut receiver in listed {
        let _ = receiver.wait_for(|done| *done).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As MAX_CONCURRENT_RECONCILES says: the next one begins when one of those under way has ended.
    #[tokio::test]
    async fn no_more_are_looked_at_than_may_be() {
        let line = Line::new(2);
        for name in ["a", "b", "c"] {
            line.wake(Kind::Machine, &ObjectKey::new("team", name), Urgency::User);
        }
        let (first, _second) = (line.queue.pop().await, line.queue.pop().await);
        let soon = Duration::from_millis(50);
        let third = tokio::time::timeout(soon, line.queue.pop()).await;
        assert!(third.is_err(), "a third one at the same time");
        drop(first);
        let third = tokio::time::timeout(PATIENCE, line.queue.pop()).await;
        assert!(third.is_ok(), "its turn has come");
    }
}
