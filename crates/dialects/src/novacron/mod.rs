//! NovaCron: a VirtualMachine of `novacron.io` becomes one of ours, with the networks and the snapshot schedule that it names.
//!
//! | module | what it decides | pure |
//! |---|---|---|
//! | [`place`] | which Provider runs a VM | yes |
//! | [`catalogue`] | what `marketplace://` names | yes |
//! | [`lower`] | what is made for a VM | yes |
//! | [`raise`] | the status of a VM | yes |
//! | [`controller`] | when to look, and what to write | no |

pub mod catalogue;
pub mod controller;
pub mod figures;
pub mod lower;
pub mod metrics;
pub mod place;
pub mod raise;
pub mod settings;

pub use controller::Controller;
pub use figures::Figures;
pub use metrics::Metrics;
pub use settings::{CATALOGUE, Settings};
