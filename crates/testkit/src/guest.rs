//! The guest that tests with real hypervisors boot.

use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The image of the test guest, built by `hack/guest.sh` if it is not there. It takes a moment even if it is: ask once.
pub fn image() -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/guest.sh");
    let output = Command::new(script).output()?;
    if output.status.success() {
        let path = String::from_utf8_lossy(&output.stdout);
        return Ok(PathBuf::from(path.trim()));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::other(format!(
        "no test guest; run hack/packages.sh first:\n{said}"
    )))
}
