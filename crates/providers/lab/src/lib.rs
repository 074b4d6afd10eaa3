//! What the tests of several providers share that run real guests on two hosts. No program has it in it.
//!
//! * [`wire`]: two network name spaces, and what goes from one to the other.
//! * [`patience`]: asking a provider, and waiting until it is as expected.
//! * [`origin`]: a web server whose image changes.
//! * [`counting`]: guests that count in their memory, so that whoever moves them sees whether they go on.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests too"
)]

pub mod counting;
pub mod origin;
pub mod patience;
pub mod wire;

pub use patience::Patience;
