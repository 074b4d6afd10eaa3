//! A provider without a hypervisor: VMs in memory or in a folder, and every lie a real one tells.
//!
//! ```text
//!   Provider calls ─► Mock: counts, faults, latency ─► State: synchronous, deterministic ─► changes ─► folder, watch streams
//!                      ▲                                 ▲
//!                      └── clock: tokio's or by hand     └── out_of_band(): what people do behind our back
//! ```
//!
//! It is the back end of tests, of the deterministic simulation and of the benchmarks, and a provider type to play with:
//! `mock://memory?asyncTasks=true&createTime=3s`.

mod clock;
mod config;
mod console;
mod faults;
mod guest;
mod handles;
mod hub;
mod inner;
mod mock;
mod offer;
mod provider;
mod rng;
mod rpc;
mod staging;
mod state;
mod store;
mod units;

pub use clock::Clock;
pub use config::{ConfigError, HostPool, MockConfig, Offer, Resize, Storage, TaskMode, Times};
pub use faults::{Effect, FaultError, Latency, Often, Rule, Stutter};
pub use handles::{FaultsHandle, OutOfBand};
pub use mock::Mock;
pub use offer::honoured_fields;
pub use rpc::{Count, Counts, Rpc};
pub use state::{Happened, LogEntry, digest};
