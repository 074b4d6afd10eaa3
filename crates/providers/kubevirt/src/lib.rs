//! VMs in any cluster that runs KubeVirt: its own objects, its own watch.
//!
//! ```text
//!   Provider calls ─► map: pure, from the contract to KubeVirt's objects ─► cluster: apply, patch, delete
//!                                                                             │
//!   watch streams ◄─ books: what is known, newest wins ◄─ facts: pure ◄───────┘ lists and watches of VirtualMachines,
//!                                                                               instances, claims and snapshots
//! ```
//!
//! The VirtualMachine is the anchor of all that belongs to a VM: it is made first and marked as being made, claims, volumes
//! and Secrets are owned by it, and it goes first. So a VM is there or not, whenever the provider dies.

mod access;
mod books;
mod check;
mod clone;
mod cluster;
mod config;
mod console;
mod errors;
mod facts;
mod image;
mod inventory;
mod kinds;
mod kubeconfig;
mod map;
mod migrate;
mod moves;
mod names;
mod offer;
mod proof;
mod provider;
mod quantity;
mod snapshot;
mod storage;
mod subresource;
mod usage;
mod version;
mod vm;
mod watch;

pub use config::{ConfigError, KUBECONFIG_KEY, KubevirtConfig, Place};
pub use kubeconfig::KubeconfigProblem;
pub use offer::honoured_fields;
pub use provider::Kubevirt;
