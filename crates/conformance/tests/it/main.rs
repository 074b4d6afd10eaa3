//! The suite against the mock, in process and over the wire, and against providers that break one promise each.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests too"
)]

mod defects;
mod mock;
mod restart;
mod shelf;
mod wire;
