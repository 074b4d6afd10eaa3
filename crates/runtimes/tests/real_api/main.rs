//! What a Provider of mode Remote gets, on a real API server. No pod runs here: `make e2e` has those.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests"
)]

mod credentials;
mod lab;
mod objects;
mod rolls;
mod trouble;
