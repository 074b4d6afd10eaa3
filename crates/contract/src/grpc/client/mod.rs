//! A provider at the other end of a channel.

mod calls;
mod extensions;
mod handover;
mod known;
mod peer;
mod provider;
mod streams;

use tonic::transport::Channel;

use crate::wire::ext::extensions_client::ExtensionsClient;
use crate::wire::v1::provider_client::ProviderClient;

use self::known::Known;
use self::peer::KnownPeer;
use super::MAX_MESSAGE_BYTES;
use super::connect::Connections;
use super::deadline::Deadlines;

/// A [`Provider`](crate::Provider) that forwards each call.
///
/// Whether the peer has our extensions is asked once for each connection. Without them the basic mode holds: states have
/// no owner and no revision, and whatever needs an extension answers `Unsupported`. A call on a connection that cannot be
/// made fails at once and does not wait for the peer to come back; the next call tries again.
#[derive(Debug)]
pub struct Client {
    v1: ProviderClient<Channel>,
    ext: ExtensionsClient<Channel>,
    deadlines: Deadlines,
    connections: Connections,
    peer: KnownPeer,
    known: Known,
}

impl Client {
    /// A client on a channel made elsewhere; [`connect`](super::connect) makes one from an address.
    pub fn new(channel: Channel) -> Self {
        Self {
            v1: ProviderClient::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES),
            ext: ExtensionsClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES),
            deadlines: Deadlines::default(),
            connections: Connections::default(),
            peer: KnownPeer::default(),
            known: Known::default(),
        }
    }

    /// With other times for calls.
    #[must_use]
    pub fn with_deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        self
    }

    pub(super) fn with_connections(mut self, connections: Connections) -> Self {
        self.connections = connections;
        self
    }
}
