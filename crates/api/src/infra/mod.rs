//! The kinds of the group `infra.virtrigaud.io`, version `v1beta1`.
//!
//! Everything is re-exported here, so `polyvirt_api::infra::VirtualMachine` is the way to write it.

mod common;
mod host;
mod host_pool;
mod provider;
mod refs;
mod virtual_machine;
mod vm_class;
mod vm_clone;
mod vm_image;
mod vm_migration;
mod vm_network_attachment;
mod vm_placement_policy;
mod vm_set;
mod vm_snapshot;

pub use common::*;
pub use host::*;
pub use host_pool::*;
pub use provider::*;
pub use refs::*;
pub use virtual_machine::*;
pub use vm_class::*;
pub use vm_clone::*;
pub use vm_image::*;
pub use vm_migration::*;
pub use vm_network_attachment::*;
pub use vm_placement_policy::*;
pub use vm_set::*;
pub use vm_snapshot::*;
