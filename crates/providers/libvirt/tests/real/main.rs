//! The provider on a real libvirtd and real guests. What is missing makes a test fail and say what to install; nothing is
//! skipped.
//!
//! Every test has a libvirtd of its own, with folders of its own, in a mount name space of its own; guests run under emulation.
//! A boot costs seven seconds of a processor, so tests share one guest for many looks.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests are tests too"
)]

mod also;
mod bare;
mod changes;
mod conformance;
mod cut;
mod deaths;
mod devices;
mod downtime;
mod frozen;
mod growth;
mod host;
mod hosts;
mod kills;
mod lab;
mod later;
mod life;
mod manners;
mod many;
mod modern;
mod moments;
mod moving;
mod openssh;
mod pair;
mod pools;
mod pull;
mod rest;
mod sasl;
mod ssh;
mod storage;
mod switch;
mod ways;
mod wire;
mod words;
