//! Machines and KubevirtConfigs on a real kube-apiserver, with mocks in place of clusters with KubeVirt.
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
mod placement;
mod rest;
mod trouble;
mod world;
