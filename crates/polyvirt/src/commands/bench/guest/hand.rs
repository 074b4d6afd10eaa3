//! The same guest on a QEMU that nobody manages.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use super::lab::{GuestLab, is_ready, qemu_img};
use super::{LIMIT, POLL};

const SEED: &str = "seed.img";
const ROOT: &str = "root.qcow2";
const SERIAL: &str = "serial.sock";

/// All that is needed to start the guest.
pub struct ByHand {
    folder: tempfile::TempDir,
    image: PathBuf,
    arguments: Vec<String>,
}

impl ByHand {
    /// Copies the arguments and the seed of the VM that runs.
    pub fn like(lab: &GuestLab) -> anyhow::Result<Self> {
        let vm = lab.vm_folder().context("There is no VM")?;
        let folder = tempfile::tempdir().context("Cannot make a temporary folder")?;
        let pid = std::fs::read_to_string(vm.join("run/qemu.pid"))?;
        let line = std::fs::read_to_string(format!("/proc/{}/cmdline", pid.trim()))?;
        std::fs::copy(vm.join("run").join(SEED), folder.path().join(SEED))?;
        Ok(Self {
            folder,
            image: only_image(&lab.state())?,
            arguments: arguments(&line),
        })
    }

    /// The time from the start of QEMU until its guest says that it is ready. The disk is made before.
    pub async fn boot(&self) -> anyhow::Result<Duration> {
        self.make_disk()?;
        let begin = Instant::now();
        let mut qemu = self.start()?;
        let ready = tokio::time::timeout(LIMIT, self.until_ready(&mut qemu)).await;
        let took = begin.elapsed();
        qemu.kill().await.context("Cannot stop QEMU")?;
        ready.context("The guest did not come up")??;
        Ok(took)
    }

    fn make_disk(&self) -> anyhow::Result<()> {
        let root = self.folder.path().join(ROOT);
        // The guest has written to the disk of the run before.
        let _ = std::fs::remove_file(&root);
        let image = self.image.to_string_lossy();
        let words = ["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", &image];
        qemu_img(&words, &root, None)
    }

    fn start(&self) -> anyhow::Result<Child> {
        let _ = std::fs::remove_file(self.folder.path().join(SERIAL));
        Command::new("qemu-system-x86_64")
            .args(&self.arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .context("Cannot start QEMU")
    }

    async fn until_ready(&self, qemu: &mut Child) -> anyhow::Result<()> {
        let mut port = self.serial_port(qemu).await?;
        let mut said = Vec::new();
        while !is_ready(&said) {
            if port.read_buf(&mut said).await? == 0 {
                bail!("QEMU ended before its guest was ready");
            }
        }
        Ok(())
    }

    async fn serial_port(&self, qemu: &mut Child) -> anyhow::Result<UnixStream> {
        let path = self.folder.path().join(SERIAL);
        loop {
            if let Ok(port) = UnixStream::connect(&path).await {
                return Ok(port);
            }
            if let Some(status) = qemu.try_wait()? {
                bail!("QEMU ended with {status}");
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// The arguments of a process that runs, without the one by which QEMU waits for somebody to let it go.
fn arguments(line: &str) -> Vec<String> {
    let words = line.split_terminator('\0').skip(1);
    words
        .filter(|word| *word != "-S")
        .map(str::to_owned)
        .collect()
}

fn only_image(state: &Path) -> anyhow::Result<PathBuf> {
    let images = std::fs::read_dir(state.join("images"))?.flatten();
    let disks = images.map(|image| image.path().join("disk/image.qcow2"));
    match disks.collect::<Vec<_>>().as_slice() {
        [image] => Ok(image.clone()),
        images => bail!(
            "There are {} prepared images in the place of one",
            images.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_started_by_hand_does_not_wait() {
        let line = "/usr/bin/qemu\0-nodefaults\0-S\0-m\0size=256M\0";
        assert_eq!(arguments(line), ["-nodefaults", "-m", "size=256M"]);
    }
}
