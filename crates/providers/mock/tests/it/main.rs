//! The mock seen from outside: every promise of the contract, and every fault.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests too"
)]

mod clones;
mod common;
mod create;
mod determinism;
mod disks;
mod faults;
mod folder;
mod guest;
mod images;
mod offers;
mod power;
mod property;
mod reconfigure;
mod scale;
mod snapshots;
mod strange;
mod tokio_clock;
mod watch;
