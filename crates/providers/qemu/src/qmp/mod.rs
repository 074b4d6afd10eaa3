//! QEMU's monitor: JSON lines over a Unix socket, answers matched by id, events for whoever listens.

mod backup;
mod client;
mod jobs;
mod message;

pub(crate) use client::{Qmp, QmpError};
pub(crate) use message::Event;
