//! The Kubernetes API types of Polyvirt: serde and schemars, no client.
//!
//! Every kind is a plain struct pair (`XSpec`, `XStatus`) with the root object `X` around it. The
//! doc comments of fields become the text of `kubectl explain`, so they are written for users.

#![allow(
    clippy::struct_excessive_bools,
    reason = "the API is defined as independent switches"
)]
#![allow(
    clippy::duplicated_attributes,
    reason = "printer columns of one type look like duplicates to the lint"
)]

mod cel;
mod crds;
pub mod duration;
pub mod infra;
pub mod kubevirt;
pub mod names;
pub mod novacron;
mod schema;
pub mod vitistack;

pub use crds::{VmShortName, crds, crds_with};
pub use duration::GoDuration;
