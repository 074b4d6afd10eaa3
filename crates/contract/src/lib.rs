//! What a hypervisor provider is: the trait, its model, and the two gRPC services.
//!
//! ```text
//!   engine ──► trait Provider ◄── in process: the provider itself
//!                   ▲
//!                   └────────── over the wire: grpc::Client ══ mTLS ══ grpc::Server ──► trait Provider
//! ```
//!
//! Everything outside this crate speaks the Rust types of [`model`]. The wire form (protobuf, JSON inside strings in two
//! casings, status codes, metadata) exists only behind the `grpc` feature, so the planner builds without it.

pub mod capabilities;
pub mod credentials;
pub mod error;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod ids;
pub mod model;
pub mod provider;
pub mod rules;
pub mod watch;
#[cfg(feature = "grpc")]
pub mod wire;

pub use capabilities::{Capabilities, Extension, Features};
pub use credentials::Credentials;
pub use error::{ErrorKind, ProviderError, Retry};
pub use ids::{Identity, ImageId, MoveId, RequestId, SnapshotId, TaskId, VmId};
pub use provider::{Provider, Result};
