//! A provider at the other end of a wire.
//!
//! [`connect`] gives a [`Client`], which is a [`Provider`](crate::Provider); [`serve`] puts any provider behind a port.
//! Each end works with peers that know only `provider.v1`: a client then has the basic mode, a server then has no owners.

mod client;
mod common_name;
mod connect;
mod deadline;
mod metadata;
mod serve;
mod server;
mod status;
mod tls;
mod tls_names;
mod tls_unchecked;

pub use client::Client;
pub use common_name::common_name;
pub use connect::{Target, connect};
pub use deadline::{Call, Deadlines};
pub use metadata::{IDENTITY, NAME, NAMESPACE, REQUEST_ID};
pub use serve::{Listen, ServeError, ServeOptions, serve};
pub use server::Server;
pub use status::{from_status, to_status};
pub use tls::{Clients, Pem, ServerCheck, ServerTls, TlsError, TlsFiles, TlsSource};
pub use tls_unchecked::Unchecked;

/// Enough for any message of `provider.v1`; the list of all VMs is the largest.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// One slow reader of a stream must not stop the others on its connection: the window of a connection holds many streams'.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;
