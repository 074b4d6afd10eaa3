//! Other Kubernetes APIs in front of the engine.
//!
//! ```text
//!   their object ── lower() ──► our object, owned by theirs ──► engine ──► hypervisor
//!   their status ◄─ raise() ─── our status
//! ```
//!
//! `lower` and `raise` are pure; what is around them is thin. An object of ours that somebody else owns is never taken over.

pub mod fields;
pub mod novacron;
mod shared;
pub mod vitistack;
