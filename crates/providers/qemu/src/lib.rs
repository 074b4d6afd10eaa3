//! QEMU driven directly over QMP: no daemon, VMs outlive the provider.

mod config;
mod provider;
mod uuid;

pub use config::{AccelChoice, ConfigError, QemuConfig};
pub use provider::Qemu;
