//! The program beside real API servers with a simulated KubeVirt, as the documents of the Viti Stack describe its operator.
//!
//! * [`rows`]: every row of those documents, as data, each looked at on one cluster.
//! * [`many`]: many Machines in three clusters, of which one is sick.
#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests"
)]

mod manager;
mod many;
mod proxy;
mod rows;
mod site;
