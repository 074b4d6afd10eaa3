//! QEMU driven directly over QMP: no daemon, VMs outlive the provider.
//!
//! ```text
//!   Provider calls ─► tasks: go on without their caller ─► Vm: one change at a time ─► QMP, qemu-img, ip
//!                                                           ▲                          │
//!   watch streams ◄─ hub ◄─ a new revision ◄────────────────┴── monitor: QMP events, ◄─┘
//!                                                               the end of the process
//! ```
//!
//! QEMU runs in a process group of its own and goes on when the provider ends. A service manager must leave it alone: with
//! systemd set `KillMode=process`.
//!
//! A VM is a folder and, while it runs, a process: see [`state`]. Its identity is its UUID.

mod accel;
mod agent;
mod clone;
mod cmdline;
mod config;
mod console;
mod core;
mod disk_info;
mod errors;
mod firmware;
mod fleet;
mod image;
mod img;
mod inventory;
mod moving;
mod network;
mod offer;
mod process;
mod provider;
mod qmp;
mod revert;
mod run_as;
mod seed;
mod snapshot;
mod state;
mod vm;

use polyvirt_provider_kit::{hub, tasks, uuid};

pub use config::{AccelChoice, ConfigError, MoveConfig, QemuConfig};
pub use fleet::{Fleet, FleetConfig, FleetConfigError};
pub use offer::honoured_fields;
pub use provider::Qemu;
