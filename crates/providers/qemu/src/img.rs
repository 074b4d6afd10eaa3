//! `qemu-img`, run as QEMU's user in the folder of the files that it works on, and never for too many VMs at once.

use std::fs::File;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_provider_kit::held::DiskFile;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::ChildStdout;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::accel;
use crate::config::QemuConfig;
use crate::errors;
use crate::run_as::RunAs;
use crate::state::OpenDir;

/// How long anything but a copy may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a copy may take.
const COPY_PATIENCE: Duration = Duration::from_secs(4 * 3600);

/// The tool, and who runs it.
#[derive(Clone, Debug)]
pub(crate) struct Img {
    config: QemuConfig,
    user: RunAs,
    /// Places for what takes a moment.
    quick: Arc<Semaphore>,
    /// Places for copies, which must not keep the others waiting.
    copies: Arc<Semaphore>,
}

/// How long a run may take, and so whose places it takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Quick,
    Copy,
}

/// Facts about a disk file.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Info {
    pub(crate) virtual_size: u64,
    #[serde(default)]
    pub(crate) actual_size: u64,
    pub(crate) format: String,
    #[serde(default)]
    pub(crate) snapshots: Vec<Tag>,
    #[serde(default)]
    pub(crate) backing_filename: String,
}

/// A snapshot inside a disk file.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Tag {
    pub(crate) name: String,
}

impl Length {
    const fn limit(self) -> Duration {
        match self {
            Self::Quick => PATIENCE,
            Self::Copy => COPY_PATIENCE,
        }
    }
}

impl Img {
    pub(crate) fn new(config: &QemuConfig, user: &RunAs) -> Self {
        Self {
            config: config.clone(),
            user: user.clone(),
            quick: Arc::new(Semaphore::new(config.max_starts)),
            copies: Arc::new(Semaphore::new(config.max_starts)),
        }
    }

    /// An overlay over a file that it is named relative to; as large as that one, or larger.
    pub(crate) async fn overlay(
        &self,
        folder: &OpenDir,
        file: &str,
        below: &str,
        bytes: Option<u64>,
    ) -> Result<()> {
        let size = bytes.map(|bytes| bytes.to_string());
        let mut arguments = vec![
            "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", below, file,
        ];
        arguments.extend(size.as_deref());
        self.run("Making a disk", folder, &arguments, Length::Quick)
            .await
            .map(drop)
    }

    /// An empty disk.
    pub(crate) async fn create(
        &self,
        folder: &OpenDir,
        file: &str,
        bytes: u64,
        thick: bool,
    ) -> Result<()> {
        let size = bytes.to_string();
        let options = if thick {
            "preallocation=falloc"
        } else {
            "preallocation=off"
        };
        let arguments = ["create", "-q", "-f", "qcow2", "-o", options, file, &size];
        self.run("Making a disk", folder, &arguments, Length::Quick)
            .await
            .map(drop)
    }

    /// Makes a disk larger.
    pub(crate) async fn grow(&self, folder: &OpenDir, file: &str, bytes: u64) -> Result<()> {
        let size = bytes.to_string();
        let arguments = ["resize", "-q", "-f", "qcow2", file, &size];
        self.run("Growing a disk", folder, &arguments, Length::Quick)
            .await
            .map(drop)
    }

    /// Facts about a disk, which a running QEMU may have open.
    pub(crate) async fn info(&self, folder: &OpenDir, file: &str) -> Result<Info> {
        self.described(folder, file).await
    }

    /// What snapshots inside a disk are counted by.
    pub(crate) async fn file(&self, folder: &OpenDir, file: &str) -> Result<DiskFile> {
        self.described(folder, file).await
    }

    async fn described<T: DeserializeOwned>(&self, folder: &OpenDir, file: &str) -> Result<T> {
        let arguments = ["info", "-U", "--output=json", "-f", "qcow2", file];
        let text = self
            .run("Looking at a disk", folder, &arguments, Length::Quick)
            .await?;
        serde_json::from_str(&text).map_err(|error| {
            errors::internal(format!(
                "What qemu-img says of a disk cannot be read: {error}"
            ))
        })
    }

    /// `-c` takes, `-a` goes back to, `-d` deletes the snapshot of this tag.
    pub(crate) async fn snapshot(
        &self,
        folder: &OpenDir,
        how: &str,
        tag: &str,
        file: &str,
    ) -> Result<()> {
        let arguments = ["snapshot", "-q", how, tag, file];
        self.run("A snapshot", folder, &arguments, Length::Quick)
            .await
            .map(drop)
    }

    /// Copies a disk: all of it into a file of its own, or, over the same base, what it has beyond that.
    pub(crate) async fn copy(
        &self,
        folder: &OpenDir,
        source: &str,
        target: &str,
        base: Option<&str>,
    ) -> Result<()> {
        let mut arguments = vec!["convert", "-q", "-f", "qcow2", "-O", "qcow2"];
        if let Some(base) = base {
            arguments.extend(["-B", base, "-F", "qcow2"]);
        }
        arguments.extend([source, target]);
        self.run("Copying a disk", folder, &arguments, Length::Copy)
            .await
            .map(drop)
    }

    /// A raw file of this machine, which everybody can read, as a disk of the folder.
    pub(crate) async fn adopt(&self, folder: &OpenDir, source: &Path, target: &str) -> Result<()> {
        let source = source.to_string_lossy();
        let arguments = ["convert", "-q", "-f", "raw", "-O", "qcow2", &source, target];
        self.run("Copying a disk", folder, &arguments, Length::Quick)
            .await
            .map(drop)
    }

    /// Copies a file of this format, which is read from the handle and from nowhere else, into a qcow2 file. `told` hears
    /// how far it is, in percent.
    pub(crate) async fn import(
        &self,
        folder: &OpenDir,
        source: File,
        format: &str,
        target: &str,
        told: impl FnMut(u8),
    ) -> Result<()> {
        let mut node = json!({
            "driver": format, "read-only": true,
            "file": {"driver": "file", "filename": "/dev/stdin", "read-only": true},
        });
        if format == "qcow2" {
            node["backing"] = Value::Null;
        }
        let _place = self.place(Length::Copy).await;
        let source_node = format!("json:{node}");
        let arguments = ["convert", "-p", "-O", "qcow2", &source_node, target];
        let mut command = self.command(folder, &arguments);
        command
            .stdin(Stdio::from(source))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| accel::missing(&self.config.img, &error))?;
        if let Some(output) = child.stdout.take() {
            follow_progress(output, told).await;
        }
        let output = child.wait_with_output().await;
        finished("Importing the image", &self.config.img, output).map(drop)
    }

    /// A place among those who run the tool. Waiting for it does not count against the time that the run may take.
    async fn place(&self, length: Length) -> Option<OwnedSemaphorePermit> {
        let places = match length {
            Length::Quick => &self.quick,
            Length::Copy => &self.copies,
        };
        // Places are never closed.
        places.clone().acquire_owned().await.ok()
    }

    fn command(&self, folder: &OpenDir, arguments: &[&str]) -> tokio::process::Command {
        let mut command = self.user.command(&self.config.img);
        command
            .args(arguments)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    async fn run(
        &self,
        doing: &str,
        folder: &OpenDir,
        arguments: &[&str],
        length: Length,
    ) -> Result<String> {
        let _place = self.place(length).await;
        let mut command = self.command(folder, arguments);
        let output = tokio::time::timeout(length.limit(), command.output()).await;
        let Ok(output) = output else {
            let message = format!("{doing} has not ended in time; look at the load of the host");
            return Err(ProviderError::new(ErrorKind::Timeout, message));
        };
        finished(doing, &self.config.img, output)
    }
}

fn finished(doing: &str, program: &Path, output: std::io::Result<Output>) -> Result<String> {
    let output = output.map_err(|error| accel::missing(program, &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(errors::program(
        doing,
        &String::from_utf8_lossy(&output.stderr),
    ))
}

/// Reads the percentage that the tool writes over and over.
async fn follow_progress(output: ChildStdout, mut told: impl FnMut(u8)) {
    let mut pieces = BufReader::new(output).split(b'\r');
    while let Ok(Some(piece)) = pieces.next_segment().await {
        if let Some(percent) = percent(&String::from_utf8_lossy(&piece)) {
            told(percent);
        }
    }
}

/// From `    (42.13/100%)` the whole number, which is never the end: that is known only when the tool has ended.
fn percent(piece: &str) -> Option<u8> {
    let (whole, _) = piece.trim().strip_prefix('(')?.split_once('.')?;
    whole.parse::<u8>().ok().map(|percent| percent.min(99))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read() {
        assert_eq!(percent("    (42.13/100%)"), Some(42));
        assert_eq!(percent("(100.00/100%)"), Some(99));
        assert_eq!(percent("hello"), None);
    }
}
