//! From the contract to KubeVirt's objects and back: pure functions, and the tables that hold them to it.

pub(crate) mod cards;
pub(crate) mod cloud_init;
pub(crate) mod from_kubevirt;
mod hardware;
pub(crate) mod layout;
pub(crate) mod objects;
mod place;
pub(crate) mod seat;
pub(crate) mod to_kubevirt;
pub(crate) mod unplug;

#[cfg(test)]
mod tests;
