//! Disk images and what is made of them.
//!
//! * [`seed`]: the small disk that a guest reads at its first boot.

pub mod seed;
