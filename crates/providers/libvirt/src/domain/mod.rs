//! Domains as XML and as facts. Pure: nothing here speaks with libvirt.
//!
//! * [`marks`]: what we keep in a domain's metadata.
//! * [`machine`]: what a domain is, read from its XML.
//! * [`nic`], [`disk`]: its parts.
//! * [`build`]: the XML of a new one.
//! * [`edit`]: changes of one that is there.
//! * [`tuning`]: what of a class becomes which element.

pub(crate) mod build;
pub(crate) mod disk;
pub(crate) mod edit;
mod hostdev;
pub(crate) mod machine;
pub(crate) mod marks;
pub(crate) mod nic;
pub(crate) mod tuning;

pub(crate) use machine::Machine;
pub(crate) use marks::{Copied, DiskMark, Marks, Moving, NicMark};
