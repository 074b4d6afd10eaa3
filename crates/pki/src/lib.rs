//! The manager's own certificate authority.
//!
//! ```text
//!   authority.rs   signs certificates; no clock, no cluster
//!   rotation.rs    when a CA is replaced and a certificate renewed; pure
//!   keyring.rs     one CA or two in the course of a rotation, as a Secret has them
//!   keeper.rs      the Secret, and who turns the keyring
//!   leaf.rs        a certificate in a Secret of its own, renewed before it expires
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

pub use authority::{Authority, Issued, PkiError, Purpose, Subject};
pub use keeper::{Keeper, KeeperError};
pub use keyring::Keyring;
pub use rotation::Lifetimes;
