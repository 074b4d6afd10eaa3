//! The pure core, by tables: what is refused, what is warned of, and what always passes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "specs are written where they are used"
)]

mod deletion;
mod novacron;
mod other_kinds;
mod owned;
mod providers;
mod ratchet;
mod virtual_machines;
mod world;
