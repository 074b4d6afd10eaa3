//! Safe in a crash, shown by simulation.
//!
//! The real passes, planner, caches, dispatcher and queue run in a world of our own making: an API server, a hypervisor
//! (the mock), people who edit and meddle, and a fate that befalls each effect. A seed decides everything, so a schedule
//! that fails can be had again, told step by step.
//!
//! ```text
//!   user ──► API server ──► watches ──► dispatcher ──► queue ──► passes ──► API server
//!   meddler ──► mock ──► stream, sweep ────┘                        └─────► mock
//!                                     every effect: happens, refused, answer lost, too late, or the manager's last
//! ```
//!
//! What is promised, and checked in each of the schedules, stands in `checks.rs` and at the effects in `cluster.rs` and
//! `hypervisor.rs`.
#![allow(
    clippy::pedantic,
    clippy::wrong_self_convention,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests are tests too"
)]

mod api_server;
mod backoff;
mod checks;
mod cluster;
mod corrections;
mod effect;
mod feed;
mod hypervisor;
mod late;
mod ledger;
mod manager;
mod meddler;
mod objects;
mod oracle;
mod regressions;
mod rest;
mod rng;
mod scenario;
mod schedule;
mod seeds;
mod session;
mod setting;
mod summary;
mod user;
mod world;

use std::panic::AssertUnwindSafe;

use schedule::Failure;
use seeds::Asked;
use summary::Summary;

/// Lines of a failed schedule that are shown; all of them when it is replayed.
const TAIL: usize = 120;

#[test]
fn schedules() {
    match Asked::from_environment() {
        Asked::One(seed) => replay(seed),
        Asked::Many { base, runs } => {
            println!("base seed {base}, {runs} schedules");
            run_all(&seeds::derive(base, runs));
        }
    }
}

#[test]
fn schedules_that_once_failed() {
    run_all(&seeds::ONCE_FAILED);
}

/// One schedule, told step by step.
fn replay(seed: u64) {
    let _runtime = enter();
    match attempt(seed, true) {
        Ok(summary) => println!("{summary}"),
        Err(failure) => {
            println!("{}", failure.trace.join("\n"));
            panic!("seed {seed}: {}", failure.what);
        }
    }
}

/// Two halves side by side.
fn run_all(seeds: &[u64]) -> Summary {
    let halves: Vec<_> = seeds.chunks(seeds.len().div_ceil(2).max(1)).collect();
    std::thread::scope(|scope| {
        let workers: Vec<_> = halves
            .into_iter()
            .map(|half| scope.spawn(|| run_half(half)))
            .collect();
        let mut summary = Summary::default();
        let mut failures = Vec::new();
        for worker in workers {
            let (half, failed) = worker.join().expect("failures are caught");
            summary.add(half);
            failures.extend(failed);
        }
        println!("{summary}");
        assert!(
            failures.is_empty(),
            "{} schedules failed:\n{}",
            failures.len(),
            tell(&failures)
        );
        summary
    })
}

fn run_half(seeds: &[u64]) -> (Summary, Vec<(u64, String)>) {
    let _runtime = enter();
    let mut summary = Summary::default();
    let mut failed = Vec::new();
    for seed in seeds {
        match attempt(*seed, false) {
            Ok(one) => summary.add(one),
            Err(failure) => failed.push((*seed, failure.what)),
        }
    }
    (summary, failed)
}

/// The first failure with the end of its story, the others by name.
fn tell(failures: &[(u64, String)]) -> String {
    let list: Vec<_> = failures
        .iter()
        .take(200)
        .map(|(seed, what)| format!("seed {seed}: {what}"))
        .collect();
    let (first, _) = failures[0];
    let _runtime = enter();
    let trace = attempt(first, true)
        .err()
        .map(|failure| failure.trace)
        .unwrap_or_default();
    let tail = trace.len().saturating_sub(TAIL);
    format!(
        "{}\n\nthe end of {first}:\n{}\n\n{}",
        list.join("\n"),
        trace[tail..].join("\n"),
        seeds::replay(first)
    )
}

fn attempt(seed: u64, traced: bool) -> Result<Summary, Failure> {
    let run = AssertUnwindSafe(|| schedule::run(seed, traced));
    std::panic::catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Err(Failure {
            what: format!("panic: {}", text.unwrap_or_default()),
            trace: Vec::new(),
        })
    })
}

/// The queue reads tokio's clock; this one stands still until the schedule turns it.
struct Paused {
    _runtime: &'static tokio::runtime::Runtime,
    _guard: tokio::runtime::EnterGuard<'static>,
}

fn enter() -> Paused {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a clock");
    let runtime: &'static tokio::runtime::Runtime = Box::leak(Box::new(runtime));
    Paused {
        _runtime: runtime,
        _guard: runtime.enter(),
    }
}
