//! The planner of moves: the table of its states, and a small world in which everything dies.
#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests"
)]

mod case;
mod states;
mod world;
