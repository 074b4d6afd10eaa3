//! The webhooks behind a real API server, with a real manager and its caches.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "specs are written where they are used"
)]

mod bombs;
mod certificates;
mod chart;
mod deletions;
mod nobody_answers;
mod owned;
mod refusals;
mod wire;
mod world;
