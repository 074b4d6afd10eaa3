//! What all tests stand on.

pub mod events;
pub mod fleet;
pub mod liar;
pub mod life;
pub mod look;
pub mod objects;
pub mod plane;
pub mod recorder;
pub mod rest;
pub mod shim;
pub mod wire;
pub mod world;

pub use look::{message, phase, reason};
pub use objects::*;
pub use world::World;
