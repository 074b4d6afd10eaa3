//! The stream of changes: each reader begins with all VMs, then hears what happens; one that falls behind begins anew.

use std::collections::VecDeque;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use polyvirt_contract::model::VmState;
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::CancellationToken;

/// Messages that a reader may be behind.
const BUFFER: usize = 4096;
/// A silent stream says so.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Where changes are told.
#[derive(Clone, Debug)]
pub struct Hub(broadcast::Sender<VmEvent>);

impl Default for Hub {
    fn default() -> Self {
        Self::new()
    }
}

impl Hub {
    /// One that nobody listens to yet.
    pub fn new() -> Self {
        Self(broadcast::channel(BUFFER).0)
    }

    /// Tells all readers.
    pub fn publish(&self, event: VmEvent) {
        // Without readers there is nobody to tell.
        let _ = self.0.send(event);
    }

    /// What is told from now on, for a provider that makes its streams itself.
    pub fn changes(&self) -> broadcast::Receiver<VmEvent> {
        self.0.subscribe()
    }

    /// A new stream. `snapshot` is asked after the stream has begun to listen, so that no change falls between.
    pub fn subscribe(
        &self,
        snapshot: impl FnOnce() -> Vec<VmState>,
        stop: CancellationToken,
    ) -> BoxStream<'static, Result<VmEvent>> {
        let changes = self.0.subscribe();
        let mut first: VecDeque<VmEvent> = snapshot().into_iter().map(VmEvent::State).collect();
        first.push_back(VmEvent::Synced);
        let reader = Reader {
            first,
            changes,
            stop,
            over: false,
        };
        stream::unfold(reader, |mut reader| async move {
            let event = reader.next().await?;
            Some((event, reader))
        })
        .boxed()
    }
}

struct Reader {
    first: VecDeque<VmEvent>,
    changes: broadcast::Receiver<VmEvent>,
    stop: CancellationToken,
    over: bool,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<VmEvent>> {
        if self.over {
            return None;
        }
        if let Some(event) = self.first.pop_front() {
            return Some(Ok(event));
        }
        Some(tokio::select! {
            () = self.stop.cancelled() => self.end("The provider stopped; open a new watch"),
            () = tokio::time::sleep(HEARTBEAT) => Ok(VmEvent::Heartbeat),
            event = self.changes.recv() => match event {
                Ok(event) => Ok(event),
                Err(RecvError::Lagged(_)) => {
                    self.end("The reader of the watch fell behind; open a new one")
                }
                Err(RecvError::Closed) => self.end("The provider stopped; open a new watch"),
            },
        })
    }

    fn end(&mut self, message: &str) -> Result<VmEvent> {
        self.over = true;
        Err(ProviderError::new(ErrorKind::Unavailable, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_begins_with_all_vms_and_then_beats() {
        let hub = Hub::new();
        let stop = CancellationToken::new();
        let mut stream = hub.subscribe(|| vec![VmState::default()], stop.clone());
        let mut next = async || stream.next().await.expect("goes on");
        assert_eq!(next().await, Ok(VmEvent::State(VmState::default())));
        assert_eq!(next().await, Ok(VmEvent::Synced));
        assert_eq!(next().await, Ok(VmEvent::Heartbeat));
        stop.cancel();
        assert!(next().await.is_err());
        assert_eq!(stream.next().await, None);
    }

    #[tokio::test]
    async fn a_slow_reader_is_told_so() {
        let hub = Hub::new();
        let mut stream = hub.subscribe(Vec::new, CancellationToken::new());
        for _ in 0..=BUFFER {
            hub.publish(VmEvent::Heartbeat);
        }
        assert_eq!(stream.next().await, Some(Ok(VmEvent::Synced)));
        let error = stream.next().await.expect("a word").expect_err("behind");
        assert!(error.message.contains("fell behind"), "{error}");
    }
}
