//! Disk images and what is made of them.
