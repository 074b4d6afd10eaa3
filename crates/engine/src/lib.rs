//! The controllers: one folder a kind, on one runtime of stores, queue and provider links.

pub mod calls;
pub mod catalogue;
pub mod census;
pub mod cluster;
pub mod context;
pub mod guests;
pub mod image;
pub mod leader;
pub mod link;
pub mod manager;
pub mod metrics;
pub mod migration;
pub mod next;
pub mod placement;
pub mod provider;
pub mod runtime;
pub mod shared;
pub mod snapshot;
pub mod subject;
pub mod trace;
pub mod unimplemented;
pub mod usage;
pub mod virtual_machine;
