//! The whole manager on a real kube-apiserver, with mocks for hypervisors.
//!
//! One program, so that one control plane serves all tests; each test has its own namespace and its own manager. Tests that
//! restart the API server or read its audit log share a second control plane and take turns on it.
#![allow(
    clippy::pedantic,
    clippy::wrong_self_convention,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests"
)]

mod at_rest;
mod bad_input;
mod basic;
mod bulkhead;
mod crash;
mod defects;
mod deletion;
mod drift;
mod fields;
mod guest_data;
mod hooks;
mod hostile;
mod identity;
mod images;
mod leader;
mod lifecycle;
mod moves;
mod moves_faults;
mod ownership;
mod placement;
mod power;
mod providers;
mod pulls;
mod reconfigure;
mod reverts;
mod schedules;
mod shared_objects;
mod slow_hooks;
mod snapshot_deletion;
mod snapshots;
mod support;
mod waiting;
