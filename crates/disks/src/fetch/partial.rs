//! The file in the making: `TARGET.part`, and beside it `TARGET.part.json` with what is needed to go on after a restart.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::blocking;
use super::error::FetchError;
use super::sparse::SparseFile;
use crate::checksum::{Algorithm, Checksum, Hasher};

/// What is lost at most if the machine stops.
const SYNC_EVERY: u64 = 64 << 20;

/// What the server said to tell this version of the file from any other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Validator {
    Etag(String),
    LastModified(String),
}

impl Validator {
    /// As the server wrote it.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Etag(text) | Self::LastModified(text) => text,
        }
    }
}

/// The sidecar. The source stands there as a digest, for an address may hold a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    source: String,
    validator: Option<Validator>,
    /// How many bytes are safe on the disk.
    bytes: u64,
}

/// A file in the making, locked against everybody else.
pub(super) struct Partial {
    target: PathBuf,
    path: PathBuf,
    file: SparseFile,
    algorithm: Algorithm,
    hasher: Hasher,
    record: Record,
}

fn beside(target: &Path, suffix: &str) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

impl Partial {
    /// Opens or makes the file. What an earlier run left is taken over if it is from the same source.
    pub(super) fn open(
        target: &Path,
        source: &str,
        algorithm: Algorithm,
    ) -> Result<Self, FetchError> {
        let path = beside(target, ".part");
        let failed = |e| FetchError::file(&path, e);
        let file = open_private(&path).map_err(failed)?;
        if !lock(&file, &path).map_err(failed)? {
            let path = target.to_path_buf();
            return Err(FetchError::Busy { path });
        }
        let present = file.metadata().map_err(failed)?.len();
        let record =
            read_record(target).filter(|record| record.source == source && record.bytes <= present);
        let record = record.unwrap_or_else(|| Record {
            source: source.to_owned(),
            ..Record::default()
        });
        let file = SparseFile::new(file, record.bytes).map_err(failed)?;
        let mut hasher = Hasher::new(algorithm);
        file.read(|bytes| hasher.update(bytes)).map_err(failed)?;
        Ok(Self {
            target: target.to_path_buf(),
            path,
            file,
            algorithm,
            hasher,
            record,
        })
    }

    pub(super) const fn len(&self) -> u64 {
        self.file.len()
    }

    /// Of which version the bytes are; without that nothing can be added to them later.
    pub(super) const fn validator(&self) -> Option<&Validator> {
        self.record.validator.as_ref()
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        self.file
            .append(bytes)
            .map_err(|e| FetchError::file(&self.path, e))?;
        self.hasher.update(bytes);
        if self.len() - self.record.bytes >= SYNC_EVERY {
            self.checkpoint()
        } else {
            Ok(())
        }
    }

    /// Begins anew, with another version of the file.
    pub(super) fn restart(&mut self, validator: Option<Validator>) -> Result<(), FetchError> {
        self.record.bytes = 0;
        self.record.validator = validator;
        self.hasher = Hasher::new(self.algorithm);
        // The record goes first: it must never promise what is not there.
        self.write_record()?;
        self.file
            .clear()
            .map_err(|e| FetchError::file(&self.path, e))
    }

    /// Makes what came so far safe.
    pub(super) fn checkpoint(&mut self) -> Result<(), FetchError> {
        self.file
            .sync()
            .map_err(|e| FetchError::file(&self.path, e))?;
        self.record.bytes = self.len();
        self.write_record()
    }

    fn write_record(&self) -> Result<(), FetchError> {
        let path = beside(&self.target, ".part.json");
        write_whole(&path, &self.record).map_err(|e| FetchError::file(&path, e))
    }

    /// Compares the digest and gives the file its name. A wrong file is removed.
    pub(super) fn complete(
        &mut self,
        expected: Option<&Checksum>,
    ) -> Result<(u64, Checksum), FetchError> {
        let found = self.hasher.clone().finish();
        if let Some(expected) = expected.filter(|expected| **expected != found) {
            let expected = expected.clone();
            discard_partial(&self.target)?;
            return Err(FetchError::Checksum { expected, found });
        }
        let failed = |e| FetchError::file(&self.target, e);
        self.file.sync().map_err(failed)?;
        std::fs::rename(&self.path, &self.target).map_err(failed)?;
        remove(&beside(&self.target, ".part.json"))?;
        sync_folder(&self.target).map_err(failed)?;
        Ok((self.file.len(), found))
    }
}

/// The same file for asynchronous code: work that may block runs elsewhere.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Partial>>);

impl Shared {
    pub(super) fn new(partial: Partial) -> Self {
        Self(Arc::new(Mutex::new(partial)))
    }

    /// One piece of work at a time, awaited before the next: the lock is free whenever somebody looks.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Partial) -> Result<T, FetchError> + Send + 'static,
    ) -> Result<T, FetchError> {
        let shared = Arc::clone(&self.0);
        blocking(move || work(&mut shared.lock().unwrap_or_else(PoisonError::into_inner))).await
    }

    pub(super) fn look<T>(&self, see: impl FnOnce(&Partial) -> T) -> T {
        see(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn len(&self) -> u64 {
        self.look(Partial::len)
    }
}

/// Removes what an unfinished fetch to `target` left. Blocks.
pub fn discard_partial(target: &Path) -> Result<(), FetchError> {
    // The record first: a file without record is begun anew.
    remove(&beside(target, ".part.json"))?;
    remove(&beside(target, ".part"))
}

/// Images may be confidential; who may read the finished one is decided by whoever asked for it.
fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// Whether the file is ours alone. Who held it may have given it its final name meanwhile: then it is not ours to write.
fn lock(file: &File, path: &Path) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(false),
        Err(TryLockError::Error(e)) => return Err(e),
    }
    let (held, named) = (file.metadata()?, std::fs::metadata(path));
    Ok(named.is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino())))
}

/// A record that cannot be read is as good as none.
fn read_record(target: &Path) -> Option<Record> {
    let bytes = std::fs::read(beside(target, ".part.json")).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn write_whole(path: &Path, record: &Record) -> io::Result<()> {
    let new = beside(path, ".new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    serde_json::to_writer(&mut file, record)?;
    file.sync_data()?;
    std::fs::rename(new, path)
}

fn remove(path: &Path) -> Result<(), FetchError> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(FetchError::file(path, e)),
        _ => Ok(()),
    }
}

fn sync_folder(target: &Path) -> io::Result<()> {
    match target.parent() {
        Some(folder) if folder != Path::new("") => File::open(folder)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}
