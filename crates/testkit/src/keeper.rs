use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::error::{Doing, Error};
use crate::spawner;

// The loop gives the components, which die at the same moment, the time to stop writing.
const SCRIPT: &str =
    r#"read -r _; for wait in 0 1 2 4 8; do sleep "$wait"; rm -rf -- "$1" && exit; done"#;

/// Removes a temporary folder when this process ends in any way, a kill and a static included.
///
/// A shell waits on a pipe whose other end only we hold, and removes the folder when that closes.
#[derive(Debug)]
pub(crate) struct Keeper(Child);

impl Keeper {
    pub(crate) fn of(folder: &Path) -> Result<Self, Error> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "polyvirt-keeper"]).arg(folder);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.process_group(0);
        spawner::spawn(command).map(Self).doing("guard", folder)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        if let Err(error) = self.0.wait() {
            tracing::warn!(%error, "the temporary folder may be left behind");
        }
    }
}
