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
        let key = Key::new(kind, key.clone());
        self.queue.add(key, Lane::Control, urgency);
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
    pub fn schedule(&self, key: &Key, next: Next) {
        let pause = match next {
            Next::Idle => return self.backoff.succeeded(key),
            Next::After(pause) => {
                self.backoff.succeeded(key);
                pause
            }
            Next::Backoff => self.backoff.failed(key),
        };
        self.queue
            .add_after(key.clone(), Lane::Control, Urgency::Event, pause);
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
