//! Machines, KubevirtConfigs and VMs of NovaCron on a real kube-apiserver, with mocks in place of hypervisors.
//!
//! One program, so that one control plane serves all tests; each test has its own namespace, manager and controller.
#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests"
)]

mod configs;
mod crash;
mod deletion;
mod forms;
mod loss;
mod novacron;
mod placement;
mod rest;
mod trouble;
mod world;
