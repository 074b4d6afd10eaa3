//! The program as a process, against a control plane of its own. One test program, because each links everything.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod evacuation;
mod traces;
mod variables;
