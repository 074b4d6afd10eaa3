//! The manager's own certificate authority.
//!
//! ```text
//!   authority.rs   signs certificates; no clock, no cluster
//!   rotation.rs    when a CA is replaced and a certificate renewed; pure
//!   keyring.rs     one CA or two in the course of a rotation, as a Secret has them
//!   keeper.rs      the Secret, and who turns the keyring
//!   leaf.rs        a certificate of the authority, renewed before it expires
//!   serving.rs     the certificate that a server of the manager's shows: ours, or one that somebody else keeps
//!   shown.rs       what the next handshake shows
//!   secret.rs      Secrets that others may have made for us to fill
//! ```
//!
//! A CA is replaced in three moves, each a write of one Secret: the next one is trusted, then it signs, then the last one is
//! forgotten. Between two moves there is time for everybody to hear of it, so that no connection is ever refused.

pub mod authority;
pub mod keeper;
pub mod keyring;
pub mod leaf;
pub mod rotation;
pub mod secret;
pub mod serving;
mod shown;

pub use authority::{Authority, Issued, PkiError, Purpose, Subject};
pub use keeper::{AUTHORITY_SECRET, Keeper, KeeperError};
pub use keyring::Keyring;
pub use rotation::Lifetimes;
pub use serving::{Serving, ServingError, Source};
pub use shown::Shown;

/// Who the manager is: to providers, the name in its certificate and the only one that they let in; to the API server, its user
/// agent; among managers, the Lease.
pub const MANAGER_NAME: &str = "polyvirt-manager";
