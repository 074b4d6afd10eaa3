//! What providers have in common, whatever they drive.
//!
//! * [`cards`]: the network cards of a copy.
//! * [`guest`]: what a guest's agent says, and how often it is asked.
//! * [`hub`]: the stream of changes.
//! * [`tasks`]: work that may outlive its call.
//! * [`uuid`]: the name of a VM, made from the identity of its owner.

pub mod cards;
pub mod guest;
pub mod hub;
pub mod tasks;
pub mod uuid;
