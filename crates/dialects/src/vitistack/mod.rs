//! Viti Stack: a Machine becomes a VirtualMachine, a KubevirtConfig becomes a Provider of type kubevirt.
//!
//! | module | what it decides | pure |
//! |---|---|---|
//! | [`assign`] | which KubevirtConfig a Machine belongs to | yes |
//! | [`lower`] | the VirtualMachine of a Machine | yes |
//! | [`network_configuration`] | the NetworkConfiguration of a Machine | yes |
//! | [`raise`] | the status of a Machine | yes |
//! | [`config`] | the Provider of a KubevirtConfig, and its status | yes |
//! | [`controller`] | when to look, and what to write | no |

pub mod assign;
pub mod config;
pub mod controller;
pub mod lower;
pub mod metrics;
pub mod network_configuration;
pub mod raise;
pub mod settings;

pub use controller::Controller;
pub use metrics::Metrics;
pub use settings::Settings;
