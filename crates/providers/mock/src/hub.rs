//! Watch streams: each reader has a bounded queue, and one that falls behind is sent home to begin anew.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use futures::Stream;
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{ErrorKind, ProviderError, Result};

use crate::state::VmKey;

/// Readers are counted as they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReaderNumber(u64);

/// One reader's messages.
#[derive(Debug, Default)]
struct Queue {
    number: ReaderNumber,
    messages: VecDeque<Arc<VmEvent>>,
    ended: Option<ProviderError>,
    waker: Option<Waker>,
}

/// All readers.
#[derive(Debug)]
pub(crate) struct Hub {
    limit: usize,
    last: ReaderNumber,
    readers: Vec<Weak<Mutex<Queue>>>,
}

impl Hub {
    pub(crate) const fn new(limit: usize) -> Self {
        Self {
            limit,
            last: ReaderNumber(0),
            readers: Vec::new(),
        }
    }

    /// Whether anybody listens; without readers no message need be made.
    pub(crate) fn has_readers(&mut self) -> bool {
        self.readers.retain(|reader| reader.strong_count() > 0);
        !self.readers.is_empty()
    }

    /// The reader that came last.
    pub(crate) const fn last_reader(&self) -> ReaderNumber {
        self.last
    }

    pub(crate) fn publish(&mut self, event: VmEvent) {
        self.publish_late(event, self.last);
    }

    /// Tells those who were there when it happened, up to this reader. Later ones have seen what came of it.
    pub(crate) fn publish_late(&mut self, event: VmEvent, up_to: ReaderNumber) {
        let event = Arc::new(event);
        let limit = self.limit;
        self.each(|queue| {
            if queue.number > up_to {
                return;
            }
            if queue.messages.len() >= limit {
                let message = "The reader of the watch fell behind; open a new one";
                queue.end(ProviderError::new(ErrorKind::Unavailable, message));
            } else if queue.ended.is_none() {
                queue.messages.push_back(event.clone());
            }
        });
    }

    /// Ends all streams behind what they have been sent.
    pub(crate) fn break_all(&mut self, message: &str) {
        self.each(|queue| queue.end(ProviderError::new(ErrorKind::Unavailable, message)));
        self.readers.clear();
    }

    fn each(&mut self, act: impl Fn(&mut Queue)) {
        self.readers.retain(|reader| {
            let Some(reader) = reader.upgrade() else {
                return false;
            };
            let mut queue = lock(&reader);
            act(&mut queue);
            let waker = queue.waker.take();
            drop(queue);
            waker.into_iter().for_each(Waker::wake);
            true
        });
    }

    /// A new reader, which begins with the VMs of `snapshot` as they are when their turn comes.
    pub(crate) fn subscribe<F>(&mut self, snapshot: Vec<VmKey>, look: F) -> Subscription<F> {
        self.last.0 += 1;
        let queue = Arc::new(Mutex::new(Queue {
            number: self.last,
            ..Queue::default()
        }));
        self.readers.push(Arc::downgrade(&queue));
        Subscription {
            queue,
            snapshot: Some(snapshot.into_iter()),
            look,
            over: false,
        }
    }
}

impl Queue {
    fn end(&mut self, error: ProviderError) {
        if self.ended.is_none() {
            self.ended = Some(error);
        }
    }
}

/// One watch stream.
///
/// The snapshot is not copied: each VM is looked at when it is read, so a stream over ten thousand VMs costs a number each.
/// What is told so is never older than what the queue holds, and the revision tells the reader so.
pub(crate) struct Subscription<F> {
    queue: Arc<Mutex<Queue>>,
    snapshot: Option<std::vec::IntoIter<VmKey>>,
    look: F,
    over: bool,
}

impl<F: FnMut(VmKey) -> Option<VmEvent> + Unpin> Stream for Subscription<F> {
    type Item = Result<VmEvent>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<VmEvent>>> {
        if self.over {
            return Poll::Ready(None);
        }
        if let Some(event) = self.next_of_snapshot() {
            return Poll::Ready(Some(Ok(event)));
        }
        let mut queue = lock(&self.queue);
        if let Some(event) = queue.messages.pop_front() {
            return Poll::Ready(Some(Ok(Arc::unwrap_or_clone(event))));
        }
        if let Some(error) = queue.ended.take() {
            drop(queue);
            self.over = true;
            return Poll::Ready(Some(Err(error)));
        }
        queue.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<F: FnMut(VmKey) -> Option<VmEvent>> Subscription<F> {
    fn next_of_snapshot(&mut self) -> Option<VmEvent> {
        let snapshot = self.snapshot.as_mut()?;
        for key in snapshot.by_ref() {
            let seen = (self.look)(key);
            if seen.is_some() {
                return seen;
            }
        }
        self.snapshot = None;
        Some(VmEvent::Synced)
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};

    use super::*;

    fn nothing(_: VmKey) -> Option<VmEvent> {
        None
    }

    #[test]
    fn a_slow_reader_gets_what_it_was_sent_and_then_an_error() {
        let mut hub = Hub::new(2);
        let mut reader = hub.subscribe(vec![VmKey(1)], nothing);
        for _ in 0..4 {
            hub.publish(VmEvent::Heartbeat);
        }
        let read = reader
            .by_ref()
            .collect::<Vec<_>>()
            .now_or_never()
            .expect("ended");
        assert_eq!(read.len(), 4, "{read:?}");
        assert_eq!(read[0], Ok(VmEvent::Synced));
        assert_eq!(read[2], Ok(VmEvent::Heartbeat));
        let error = read[3].as_ref().expect_err("fell behind");
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains("fell behind"));
    }

    #[test]
    fn what_was_held_back_is_not_told_to_those_who_came_later() {
        let mut hub = Hub::new(2);
        let mut early = hub.subscribe(Vec::new(), nothing);
        let then = hub.last_reader();
        let mut later = hub.subscribe(Vec::new(), nothing);
        hub.publish_late(VmEvent::Heartbeat, then);
        let next = |stream: &mut Subscription<_>| stream.next().now_or_never();
        assert_eq!(next(&mut early), Some(Some(Ok(VmEvent::Synced))));
        assert_eq!(next(&mut early), Some(Some(Ok(VmEvent::Heartbeat))));
        assert_eq!(next(&mut later), Some(Some(Ok(VmEvent::Synced))));
        assert_eq!(next(&mut later), None);
    }

    #[test]
    fn readers_that_went_away_cost_nothing() {
        let mut hub = Hub::new(2);
        drop(hub.subscribe(Vec::new(), nothing));
        assert!(!hub.has_readers());
        let _reader = hub.subscribe(Vec::new(), nothing);
        assert!(hub.has_readers());
    }
}
