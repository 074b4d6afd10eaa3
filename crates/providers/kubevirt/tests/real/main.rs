//! The provider on a real API server with a simulated KubeVirt behind it. What is missing makes a test fail and say what to
//! install; nothing is skipped.
//!
//! One control plane serves all tests but those that stop it or read its audit log. With `POLYVIRT_REAL_CRDS` set to folders
//! of resource definitions, separated by colons, they take the place of the simulator's own: then KubeVirt's schemas judge.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests too"
)]

mod adoption;
mod changes;
mod conformance;
mod definitions;
mod granted;
mod images;
mod kills;
mod lab;
mod life;
mod many;
mod moves;
mod outage;
mod placed;
mod refusals;
mod rights;
mod sharing;
