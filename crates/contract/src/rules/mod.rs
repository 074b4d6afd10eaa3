//! Rules that every provider keeps in the same way and with the same words.

mod clone;
mod growth;

pub use clone::{CardCustomization, CloneSize, CloneWish, Customization, read_clone};
pub use growth::{DiskSizes, only_grows};
