//! From a file of this machine.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::error::FetchError;
use super::partial::Shared;
use super::{CHUNK_BYTES, Progress, blocking, within};

/// Copies the whole file. It may have changed since an earlier run, so nothing is taken over.
pub(super) async fn run(
    path: &Path,
    partial: &Shared,
    max_bytes: u64,
    progress: &(dyn Fn(Progress) + Send + Sync),
) -> Result<(), FetchError> {
    let path = path.to_path_buf();
    let mut original = blocking(move || Original::open(path)).await?;
    let total = original.total;
    within(max_bytes, total)?;
    partial.run(|partial| partial.restart(None)).await?;
    loop {
        let (next, piece) = blocking(move || original.read()).await?;
        original = next;
        within(max_bytes, partial.len() + piece.len() as u64)?;
        if piece.is_empty() {
            return Ok(());
        }
        partial.run(move |partial| partial.append(&piece)).await?;
        progress(Progress {
            bytes: partial.len(),
            total: Some(total),
        });
    }
}

struct Original {
    path: PathBuf,
    file: File,
    total: u64,
}

impl Original {
    /// Opening a pipe would wait for its other end, hence the flags.
    fn open(path: PathBuf) -> Result<Self, FetchError> {
        let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or_default();
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&path);
        let file = opened.map_err(|e| FetchError::file(&path, e))?;
        let metadata = file.metadata().map_err(|e| FetchError::file(&path, e))?;
        if !metadata.is_file() {
            return Err(FetchError::NotAFile { path });
        }
        Ok(Self {
            path,
            file,
            total: metadata.len(),
        })
    }

    /// The next piece; an empty one is the end.
    fn read(self) -> Result<(Self, Vec<u8>), FetchError> {
        let mut piece = vec![0; CHUNK_BYTES];
        let count = (&self.file)
            .read(&mut piece)
            .map_err(|e| FetchError::file(&self.path, e))?;
        piece.truncate(count);
        Ok((self, piece))
    }
}
