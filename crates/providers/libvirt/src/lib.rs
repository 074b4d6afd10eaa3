//! libvirt driven over its own RPC protocol: no C library, no process per call.

mod config;
mod domain;
mod rpc;
mod transport;
mod xml;

pub use config::{Accel, Address, ConfigError, LibvirtConfig, Secret, Transport};
