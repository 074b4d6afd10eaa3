//! The file system of a disk that has grown, grown by the guest itself.
//!
//! The guest's agent runs a script (`grow.sh`), which finds the disk by its serial number and grows what is mounted from it. It
//! touches nothing that it is not sure of, and says why. A file system that stays as it was is no failure of the disk's growth:
//! the reason is told with the VM, and the script can be run again at any time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use polyvirt_contract::model::{ExecOutput, ExecRequest};

use crate::core::{Core, Vm};
use crate::domain::disk;
use crate::guest;

const SCRIPT: &str = include_str!("grow.sh");
/// How long a guest may take. It goes on if it takes longer; only its answer is not waited for.
const PATIENCE: Duration = Duration::from_mins(5);
const SECTOR: u64 = 512;

/// What became of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// It fills its disk: which one, and where it is mounted.
    Grown(String),
    /// It is as it was, for this reason.
    Left(String),
}

impl std::fmt::Display for Growth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Grown(what) => write!(f, "grown: {what}"),
            Self::Left(why) => write!(f, "not grown: {why}"),
        }
    }
}

/// Has the guest grow what is on the disk, which has so many bytes by now.
pub(crate) async fn file_system(core: &Arc<Core>, vm: &Vm, target: &str, bytes: u64) -> Growth {
    let (serial, sectors) = (disk::serial(target), bytes / SECTOR);
    let command = ["/bin/sh", "-s", "--", &serial, &sectors.to_string()];
    let request = ExecRequest {
        command: command.map(str::to_owned).to_vec(),
        stdin: Bytes::from_static(SCRIPT.as_bytes()),
        timeout: PATIENCE,
    };
    match guest::exec(core, vm, &request).await {
        Ok(output) => told(&output),
        Err(error) => Growth::Left(error.message),
    }
}

/// What the script says at its end.
fn told(output: &ExecOutput) -> Growth {
    let last = |bytes: &Bytes| {
        let text = String::from_utf8_lossy(bytes);
        text.lines().last().unwrap_or_default().trim().to_owned()
    };
    let line = last(&output.stdout);
    match line.split_once(' ') {
        Some(("grown", what)) => Growth::Grown(what.to_owned()),
        Some(("left", why)) => Growth::Left(why.to_owned()),
        _ => {
            let (code, said) = (output.exit_code, last(&output.stderr));
            Growth::Left(format!("the guest cannot run a shell ({code}: {said})"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(stdout: &str, stderr: &str, exit_code: i32) -> ExecOutput {
        ExecOutput {
            exit_code,
            stdout: Bytes::from(stdout.to_owned()),
            stderr: Bytes::from(stderr.to_owned()),
        }
    }

    #[test]
    fn what_the_script_says_is_read() {
        for (output, said) in [
            (
                output("x\ngrown ext4 on vda1 at /\n", "", 0),
                "grown: ext4 on vda1 at /",
            ),
            (
                output("left the guest has no growpart\n", "", 0),
                "not grown: the guest has no growpart",
            ),
            (
                output("", "no such file\n", 127),
                "not grown: the guest cannot run a shell (127: no such file)",
            ),
        ] {
            assert_eq!(told(&output).to_string(), said);
        }
    }

    #[test]
    fn the_script_is_one_for_any_shell() {
        let checked = std::process::Command::new("sh")
            .args(["-n", "-c", SCRIPT])
            .status();
        assert!(checked.expect("there is a shell").success());
    }
}
