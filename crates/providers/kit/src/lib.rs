//! What providers have in common, whatever they drive.
//!
//! * [`hub`]: the stream of changes.
//! * [`tasks`]: work that may outlive its call.
//! * [`uuid`]: the name of a VM, made from the identity of its owner.

pub mod hub;
pub mod tasks;
pub mod uuid;
