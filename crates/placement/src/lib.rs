//! The scheduler: where a VM goes, and why it cannot go elsewhere.
//!
//! ```text
//!   Request ──┐    filter: one reason for each host that cannot be      score: wishes, room, spread, thrift
//!             ├──► ─────────────────────────────────────────────► fit ─────────────────────────────────────► Choice
//!   World ────┘                     └──► none fits: Refusal
//! ```
//!
//! A [`Request`] is what a VM needs ([`Rule`]s that must hold) and would like ([`Wish`]es). A [`World`] is what providers tell
//! of their hosts, and which VMs are where already, counted or not. [`place`] is a function of the two: no client, no clock, no
//! chance. Whoever places VMs (a VM before it is made, a set, a migration) builds both and asks here.

pub mod affinity;
pub mod device;
mod filter;
mod ground;
mod hosts;
pub mod labels;
mod place;
pub mod policy;
mod reason;
mod request;
mod rule;
mod score;
mod storage;
mod world;

pub use affinity::InvalidAffinity;
pub use device::{DeviceKind, DeviceRequest};
pub use hosts::host_terms;
pub use place::{Choice, Outcome, Refusal, Verdict, explain, named, place};
pub use reason::Reason;
pub use request::{Request, Wish};
pub use rule::{Namespaces, NodeTerm, Rule, Selection, Subject, VmTerm, Who};
pub use score::Scores;
pub use storage::Storage;
pub use world::{Claim, HostRule, HostRules, Overcommit, Packing, Placed, Site, Topology, World};
