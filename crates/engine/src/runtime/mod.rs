//! What all controllers stand on.

pub mod key;
pub mod store;
pub mod trim;
pub mod vm_index;
