//! Machines on real API servers with a simulated KubeVirt and the provider that drives it, as the documents of the Viti Stack
//! describe its operator.
//!
//! * [`rows`]: every row of those documents, as data, each looked at on one cluster. What they say of the program itself
//!   (variables, defaults, endpoints, the form of log lines) is looked at where that is, in `crates/polyvirt/src`.
//! * [`many`]: many Machines in three clusters, of which one is sick.
//! * [`migration`]: VMs that another operator made.
//! * [`walk`]: Machines of every form from their beginning to their end; also with a real KubeVirt.
//! * [`drift`]: VMs that somebody changes in their cluster.
//! * [`edits`]: Machines that somebody edits, field by field.
//! * [`half`]: creations that fail half way.
#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests"
)]

mod drift;
mod edits;
mod fleet;
mod half;
mod log;
mod manager;
mod many;
mod migration;
mod proxy;
mod rows;
mod site;
mod start;
mod walk;
