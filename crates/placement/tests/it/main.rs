//! The scheduler from outside: what is chosen, what is refused and why, and what never happens.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

mod affinities;
mod ledger;
mod policies;
mod pools;
mod refusals;
mod support;
