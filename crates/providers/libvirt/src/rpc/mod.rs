//! libvirt's own protocol, spoken directly: no C library, no thread per call, no process per call.
//!
//! * [`xdr`]: how values are written.
//! * [`frame`]: how messages are.
//! * [`connection`]: many calls on one socket.
//! * [`stream`]: bytes beside the calls.
//! * [`link`]: a connection that comes back.
//! * [`calls`]: the calls by their names.

mod calls;
mod connection;
mod error;
mod frame;
mod link;
mod procedure;
mod stream;
mod types;
mod xdr;

pub(crate) use calls::{Cookie, DomainJob, DomainStats, Ending, Message, Parameter, flags};
pub(crate) use connection::{Connection, Event, OnEvent, Turn};
#[cfg(test)]
pub(crate) use error::LibvirtError;
pub(crate) use error::{RpcError, code};
pub(crate) use link::{Link, Session, open_apart, open_apart_for};
pub(crate) use procedure::{LIFE_EVENT, REBOOT_EVENT};
pub(crate) use stream::Stream;
pub(crate) use types::{Domain, Named, Snapshot, Volume};
