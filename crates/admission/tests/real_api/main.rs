//! The webhooks behind a real API server, with a real manager and its caches.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests"
)]

mod bombs;
mod certificates;
mod deletions;
mod nobody_answers;
mod refusals;
mod wire;
mod world;
