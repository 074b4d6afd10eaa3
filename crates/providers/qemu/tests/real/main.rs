//! The provider on real guests. What is missing makes a test fail and say what to install; nothing is skipped.
//!
//! A boot costs seven seconds of a processor under emulation, so tests share one guest for many looks, and at most two
//! guests boot at a time.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests too"
)]

mod bare;
mod bridge;
mod changes;
mod conformance;
mod crash;
mod datastore;
mod firmware;
mod frozen;
mod hosts;
mod images;
mod kills;
mod lab;
mod later;
mod life;
mod limits;
mod many;
mod moving;
mod pauses;
mod pull;
mod registry;
