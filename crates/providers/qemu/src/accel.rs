//! What guests run with: chosen by letting a small one run, because a device that opens may still not work.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use polyvirt_contract::{ErrorKind, ProviderError, Result};
use serde::{Deserialize, Serialize};

use crate::config::{AccelChoice, QemuConfig};
use crate::errors;
use crate::run_as::RunAs;
use crate::state::{self, OpenDir, StateDir};

/// How long a boot sector may take; under emulation it takes half a second.
const KVM_LIMIT: Duration = Duration::from_secs(3);
const TCG_LIMIT: Duration = Duration::from_secs(60);
/// The guest writes this to the debug port, and QEMU ends with twice as much and one.
const SIGN: u8 = 0x31;
const EXIT_CODE: i32 = 2 * SIGN as i32 + 1;
/// The medium is longer than its one sector, for some firmware wants a track.
const MEDIUM: usize = 1 << 20;
const MEDIUM_NAME: &str = "probe.img";

/// What guests run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Accel {
    Kvm,
    Tcg,
}

impl Accel {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }

    /// The processor that guests see: all that the host has, or all that QEMU can imitate.
    pub(crate) const fn cpu(self) -> &'static str {
        match self {
            Self::Kvm => "host",
            Self::Tcg => "max",
        }
    }
}

/// What was found out about QEMU and the machine under it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Emulator {
    /// What the answer was found with: QEMU's version, the kernel's, and who tried.
    key: String,
    pub(crate) version: String,
    pub(crate) accel: Accel,
    /// The newest machine type, with its version.
    pub(crate) machine: String,
}

/// Finds out once for each QEMU and kernel, and remembers.
pub(crate) async fn find_out(
    config: &QemuConfig,
    state: &StateDir,
    user: &RunAs,
) -> Result<Emulator> {
    let version = version(config, user).await?;
    let key = format!(
        "{version}; {}; {:?}; {}",
        kernel(),
        config.accel,
        user.name()
    );
    let known = state::read_json::<Emulator>(&state.accel()).ok().flatten();
    if let Some(known) = known.filter(|known| known.key == key) {
        return Ok(known);
    }
    let found = Emulator {
        accel: choose(config, state, user).await?,
        machine: machine(config, user).await?,
        version,
        key,
    };
    state::write_json(&state.accel(), &found)?;
    Ok(found)
}

async fn choose(config: &QemuConfig, state: &StateDir, user: &RunAs) -> Result<Accel> {
    let medium = boot_medium(state, user)?;
    let probe = |accel, limit| runs(config, state, user, accel, limit);
    let found = match config.accel {
        AccelChoice::Try if RunAs::sees_kvm() && probe(Accel::Kvm, KVM_LIMIT).await? => {
            Some(Accel::Kvm)
        }
        AccelChoice::Try | AccelChoice::Tcg => {
            probe(Accel::Tcg, TCG_LIMIT).await?.then_some(Accel::Tcg)
        }
        AccelChoice::Kvm => probe(Accel::Kvm, TCG_LIMIT).await?.then_some(Accel::Kvm),
    };
    // The medium is made anew when it is needed again.
    let _ = std::fs::remove_file(&medium);
    found.ok_or_else(|| {
        let message = "No guest runs with QEMU on this machine: a boot sector that ends at once did not; run qemu-system-x86_64 by hand to see why";
        ProviderError::new(ErrorKind::Unavailable, message)
    })
}

/// A disk whose boot sector writes the sign to the debug port and halts.
fn boot_medium(state: &StateDir, user: &RunAs) -> Result<PathBuf> {
    let code = [0xb0, SIGN, 0xe6, 0xf4, 0xf4, 0xeb, 0xfd];
    let mut medium = vec![0; MEDIUM];
    medium[..code.len()].copy_from_slice(&code);
    medium[510..512].copy_from_slice(&[0x55, 0xaa]);
    let path = state.root().join(MEDIUM_NAME);
    let written = std::fs::File::create(&path).and_then(|mut file| file.write_all(&medium));
    written.map_err(|error| errors::file("Writing the boot sector to try", &path, &error))?;
    user.give(&path, 0o600)?;
    Ok(path)
}

async fn runs(
    config: &QemuConfig,
    state: &StateDir,
    user: &RunAs,
    accel: Accel,
    limit: Duration,
) -> Result<bool> {
    let drive = format!("if=none,id=medium,format=raw,read-only=on,file={MEDIUM_NAME}");
    let folder = OpenDir::open(state.root())?;
    let mut command = user.accelerated(&config.emulator);
    command
        .args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-m",
            "64",
        ])
        .args([
            "-machine",
            "q35",
            "-accel",
            accel.word(),
            "-cpu",
            accel.cpu(),
        ])
        .args(["-drive", &drive])
        .args(["-device", "virtio-blk-pci,drive=medium,bootindex=0"])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut child = command
        .spawn()
        .map_err(|error| missing(&config.emulator, &error))?;
    let Ok(status) = tokio::time::timeout(limit, child.wait()).await else {
        // A guest that hangs says all there is to say; what is left of it goes with the handle.
        let _ = child.kill().await;
        return Ok(false);
    };
    Ok(status.is_ok_and(|status| status.code() == Some(EXIT_CODE)))
}

async fn version(config: &QemuConfig, user: &RunAs) -> Result<String> {
    let text = output(config, user, &["--version"]).await?;
    let line = text.lines().next().unwrap_or_default();
    Ok(line.trim_start_matches("QEMU emulator version ").to_owned())
}

async fn machine(config: &QemuConfig, user: &RunAs) -> Result<String> {
    let text = output(config, user, &["-machine", "help"]).await?;
    let alias = text.lines().find_map(newest_q35);
    alias.ok_or_else(|| errors::internal("QEMU knows no machine q35; install qemu-system-x86"))
}

/// From `q35  Standard PC (alias of pc-q35-10.0)` the name with its version.
fn newest_q35(line: &str) -> Option<String> {
    let rest = line.strip_prefix("q35 ")?;
    let (_, alias) = rest.split_once("(alias of ")?;
    Some(alias.trim_end().trim_end_matches(')').to_owned())
}

async fn output(config: &QemuConfig, user: &RunAs, arguments: &[&str]) -> Result<String> {
    let mut command = user.command(&config.emulator);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = command.output().await;
    let output = output.map_err(|error| missing(&config.emulator, &error))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A program that is needed is not there.
pub(crate) fn missing(program: &Path, error: &std::io::Error) -> ProviderError {
    let message = format!(
        "Cannot run {}: {error}; install QEMU (on Debian: qemu-system-x86 and qemu-utils)",
        program.display()
    );
    ProviderError::new(ErrorKind::Unavailable, message)
}

fn kernel() -> String {
    let read = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
        text.unwrap_or_default().trim().to_owned()
    };
    format!("{} {}", read("osrelease"), read("version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_machine_is_the_alias() {
        let line = "q35                  Standard PC (Q35 + ICH9, 2009) (alias of pc-q35-10.0)";
        assert_eq!(newest_q35(line).as_deref(), Some("pc-q35-10.0"));
        assert_eq!(
            newest_q35("pc-q35-9.2           Standard PC (Q35 + ICH9, 2009)"),
            None
        );
    }
}
