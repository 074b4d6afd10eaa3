//! The controllers: one folder a kind, on one runtime of stores, queue and provider links.

pub mod cluster;
pub mod context;
pub mod link;
pub mod next;
pub mod runtime;
pub mod virtual_machine;
