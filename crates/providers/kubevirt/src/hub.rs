//! Where the ends of tasks are told to all watch streams.

use polyvirt_contract::watch::VmEvent;
use tokio::sync::broadcast;

/// Messages that a reader may be behind.
const BUFFER: usize = 1024;

/// Where the ends of tasks are told.
#[derive(Clone, Debug)]
pub(crate) struct Hub(broadcast::Sender<VmEvent>);

impl Hub {
    pub(crate) fn new() -> Self {
        Self(broadcast::channel(BUFFER).0)
    }

    pub(crate) fn publish(&self, event: VmEvent) {
        // Without readers there is nobody to tell.
        let _ = self.0.send(event);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<VmEvent> {
        self.0.subscribe()
    }
}
