//! The files of the repository fit together: chart, scripts, documentation and the paths that other projects' guides name.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod chart;
mod lanes;
mod links;
mod scripts;
mod words;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// Held by each test that writes scripts or starts processes. A process that another thread starts at the wrong moment would
/// inherit the file of a script that is being written, and the kernel runs no file that is open for writing.
fn processes() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
