//! The wire, against bytes, documents and real sockets.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod basic_mode;
mod calls;
mod fixtures;
mod foreign_manager;
mod golden;
mod golden_messages;
mod json;
mod layout;
mod lifecycle;
mod next_release;
mod recorder;
mod round_trip;
mod streams;
mod support;
mod tls;
