//! What providers have in common, whatever they drive.
//!
//! * [`cards`]: the network cards of a copy.
//! * [`check`]: what no QEMU can run.
//! * [`devices`]: devices of the host that VMs get.
//! * [`fleet`]: several hosts as one provider.
//! * [`guest`]: what a guest's agent says, and how often it is asked.
//! * [`held`]: how much a snapshot holds.
//! * [`hub`]: the stream of changes.
//! * [`labels`]: what an operator says of a host.
//! * [`lineage`]: which snapshot is based on which.
//! * [`origin`]: images from elsewhere.
//! * [`tasks`]: work that may outlive its call.
//! * [`turns`]: work on the same thing, one after the other.
//! * [`uuid`]: the name of a VM, made from the identity of its owner.

pub mod cards;
pub mod check;
pub mod devices;
pub mod fleet;
pub mod guest;
pub mod held;
pub mod hub;
pub mod labels;
pub mod lineage;
pub mod origin;
pub mod tasks;
pub mod turns;
pub mod uuid;
