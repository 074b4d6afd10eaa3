//! What a guest has said on its serial port, on disk.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The log is two files of about this length at most: the newer one, and the one before it.
const LOG: u64 = 512 << 10;

/// A bounded log on disk. A log that cannot be written is no reason to stop anything.
pub(super) struct Log {
    path: PathBuf,
    file: Option<File>,
    length: u64,
}

impl Log {
    pub(super) fn open(path: PathBuf) -> Self {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .ok();
        let length = file
            .as_ref()
            .and_then(|file| file.metadata().ok())
            .map_or(0, |meta| meta.len());
        Self { path, file, length }
    }

    fn older(&self) -> PathBuf {
        self.path.with_extension("log.1")
    }

    /// At most so many of the last bytes; none if the log cannot be read.
    pub(super) fn tail(&self, most: usize) -> Vec<u8> {
        let newer = end_of(&self.path, most);
        let mut tail = end_of(&self.older(), most - newer.len());
        tail.extend(newer);
        tail
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        if self.length >= LOG {
            let _ = std::fs::rename(&self.path, self.older());
            *self = Self::open(self.path.clone());
        }
        let written = self.file.as_mut().map(|file| file.write_all(bytes));
        if matches!(written, Some(Ok(()))) {
            self.length += bytes.len() as u64;
        }
    }
}

fn end_of(path: &Path, most: usize) -> Vec<u8> {
    let read = || {
        let mut file = File::open(path)?;
        let from = file.metadata()?.len().saturating_sub(most as u64);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(most as u64).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_is_read_across_both_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("console.log");
        assert!(Log::open(path.clone()).tail(10).is_empty());
        std::fs::write(path.with_extension("log.1"), b"older").expect("written");
        std::fs::write(&path, b"newer").expect("written");
        let log = Log::open(path);
        assert_eq!(log.tail(3), b"wer");
        assert_eq!(log.tail(7), b"ernewer");
        assert_eq!(log.tail(100), b"oldernewer");
    }

    #[test]
    fn the_log_has_an_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("console.log");
        let mut log = Log::open(path.clone());
        let piece = vec![b'x'; 64 << 10];
        for _ in 0..40 {
            log.write(&piece);
        }
        let length = |path: PathBuf| std::fs::metadata(path).expect("there").len();
        assert!(length(path.clone()) <= LOG + piece.len() as u64);
        assert!(length(path.with_extension("log.1")) <= LOG + piece.len() as u64);
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 2);
    }
}
