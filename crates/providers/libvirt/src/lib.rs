//! libvirt driven over its own RPC protocol: no C library, no process per call.
//!
//! ```text
//!   Provider calls ─► tasks: go on without their caller ─► change: one at a time for each VM ─► rpc ─► transport ─► libvirtd
//!                                                                                               │
//!   watch streams ◄─ hub ◄─ a new revision ◄─ look: what differs? ◄─ dirty set ◄─ events ◄──────┘
//! ```
//!
//! libvirt remembers everything: a VM is a domain whose UUID is its owner's identity, with marks of ours in its metadata, and
//! volumes that begin with that UUID. Nothing is kept here that another life of the provider would miss.

mod addresses;
mod check;
mod clone;
mod config;
mod console;
mod core;
mod create;
mod desired;
mod disk_info;
mod domain;
mod errors;
mod fleet;
mod frozen;
mod grow;
mod guest;
mod held;
mod image;
mod inventory;
mod layers;
mod lend;
mod live;
mod look;
mod offer;
mod power;
mod provider;
mod reconfigure;
mod remove;
mod revert;
mod rpc;
mod sasl;
mod seed;
mod sizes;
mod snapshot;
mod storage;
mod transport;
mod usage;
mod view;
mod xml;

pub use config::{Accel, Address, ConfigError, LibvirtConfig, Secret, Transport};
pub use fleet::{Fleet, open_all};
pub use offer::honoured_fields;
pub use provider::Libvirt;
