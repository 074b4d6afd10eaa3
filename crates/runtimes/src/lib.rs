//! Where a provider's code runs.
//!
//! ```text
//!   remote/     a Deployment of its own, with all that belongs to it, in the Provider's namespace
//!   process/    a child of the manager, on loopback
//!   address.rs  somewhere else: at the address that the object names
//! ```
//!
//! All three are reached the same way: gRPC, with certificates on both sides.

pub mod address;
pub mod credentials;
mod environment;
pub mod process;
mod refusal;
pub mod remote;

pub use address::External;
pub use remote::{Remote, Settings};
