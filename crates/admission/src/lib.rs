//! The admission webhooks: what is refused, what is warned of, and the server that says so.
//!
//! ```text
//!   kubectl ──► kube-apiserver ──► /mutate    defaults.rs   who asked for a clone or a migration
//!                     │       └──► /validate  review.rs     problems refuse, warnings are told, deletions are guarded
//!                     └── schema and CEL rules of the definitions come between the two
//! ```
//!
//! The rules are pure; what they know of other objects comes from the caches of the manager. Whatever another object may
//! still put right only warns: manifests are applied in any order.

mod caches;
mod defaults;
mod error;
mod facts;
mod guard;
mod metrics;
mod owned;
mod owners;
mod register;
mod review;
mod rules;
mod server;
mod verdict;
mod webhooks;
mod wire;

pub use caches::{Caches, Linked};
pub use defaults::defaults;
pub use error::AdmissionError;
pub use facts::{Facts, Found, Users, features};
pub use metrics::{Metrics, ReviewLabels};
pub use owned::{Owner, OwnerState};
pub use owners::Owners;
pub use register::{ClientConfig, Configuration, FailurePolicy};
pub use review::review;
pub use verdict::{Decision, Verdict};
pub use webhooks::{Place, Registration, Webhooks};
pub use wire::{GroupKind, Operation, Options, Request, Review, UserInfo};
