//! The manager dies at any moment, again and again, on a hypervisor that lies and an API server that is restarted; in the
//! end every VM is there once and as declared.
//!
//! Every run has a seed. `POLYVIRT_CRASH_SEED=n` runs that one alone.

mod plan;
mod run;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::{FutureExt, StreamExt, stream};
use polyvirt_testkit::ControlPlane;

use crate::support::plane;
use run::Run;

const RUNS: u64 = 64;
const AT_ONCE: usize = 8;
/// The API server is restarted when so many runs have ended.
const RESTARTS_AFTER: [usize; 2] = [10, 36];

/// The seeds of this time, or the one that somebody wants to see again.
fn seeds() -> Vec<u64> {
    if let Ok(seed) = std::env::var("POLYVIRT_CRASH_SEED") {
        return vec![seed.parse().expect("a number")];
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let first = now.map_or(0, |time| time.as_secs()) * RUNS;
    (first..first + RUNS).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whenever_the_manager_dies_every_vm_is_there_once_and_as_declared() {
    let seeds = seeds();
    println!("seeds {} to {}", seeds[0], seeds[seeds.len() - 1]);
    // The managers' threads outlive every borrow.
    let plane: &'static ControlPlane = Box::leak(Box::new(
        plane::own(ControlPlane::builder().ephemeral()).await,
    ));
    let mut runs = Vec::new();
    for seed in &seeds {
        runs.push(Run::new(plane, *seed).await);
    }
    let ended = Arc::new(AtomicUsize::new(0));
    let restarts = tokio::spawn(restart(plane, ended.clone()));
    let faults: Vec<String> = stream::iter(runs)
        .map(|run| guarded(run, ended.clone()))
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    restarts.abort();
    plane.kill_apiserver().expect("stopped");
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

/// The fault of a run, if it has one; the others go on.
async fn guarded(run: Run, ended: Arc<AtomicUsize>) -> Option<String> {
    let seed = run.seed;
    let outcome = AssertUnwindSafe(run.to_its_end()).catch_unwind().await;
    ended.fetch_add(1, Ordering::Relaxed);
    let fault = match outcome {
        Ok(Ok(())) => return None,
        Ok(Err(fault)) => fault,
        Err(_) => "it panicked, see above".to_owned(),
    };
    Some(format!("POLYVIRT_CRASH_SEED={seed}: {fault}"))
}

async fn restart(plane: &'static ControlPlane, ended: Arc<AtomicUsize>) {
    for threshold in RESTARTS_AFTER {
        while ended.load(Ordering::Relaxed) < threshold {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        plane.restart_apiserver().await.expect("it comes back");
    }
}
