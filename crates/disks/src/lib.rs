//! Disk images and what is made of them.
//!
//! * [`fetch`]: brings an image here, from a file or a web server.
//! * [`checksum`]: what its bytes must be.
//! * [`format`]: what an image is, and whether it is safe to open.
//! * [`seed`]: the small disk that a guest reads at its first boot.

pub mod checksum;
pub mod fetch;
pub mod format;
pub mod seed;
