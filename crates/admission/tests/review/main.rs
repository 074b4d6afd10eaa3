//! The pure core, by tables: what is refused, what is warned of, and what always passes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod deletion;
mod other_kinds;
mod providers;
mod ratchet;
mod virtual_machines;
mod world;
