//! What is known of the peer, as long as the connection lasts on which it was learned.

use std::sync::{Mutex, PoisonError};

use crate::capabilities::Features;

/// Who is at the other end.
#[derive(Clone, Debug)]
pub(super) enum Peer {
    /// Someone who knows only `provider.v1`.
    Basic,
    /// Someone with our extensions.
    Extended(Features),
}

#[derive(Debug, Default)]
pub(super) struct KnownPeer(Mutex<Option<(u64, Peer)>>);

impl KnownPeer {
    /// Who was found on this connection.
    pub(super) fn on(&self, connection: u64) -> Option<Peer> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (learned_on, peer) = known.as_ref()?;
        (*learned_on == connection).then(|| peer.clone())
    }

    pub(super) fn learn(&self, connection: u64, peer: Peer) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((connection, peer));
    }

    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
