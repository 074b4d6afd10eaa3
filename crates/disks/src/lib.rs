//! Disk images and what is made of them.
//!
//! * [`seed`]: the small disk that a guest reads at its first boot.
//! * [`format`]: what an image is, and whether it is safe to open.

pub mod format;
pub mod seed;
