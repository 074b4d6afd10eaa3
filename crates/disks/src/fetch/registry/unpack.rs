//! The disk inside a layer. A layer is an archive with the files that it adds to those below it, or, in artifacts, the disk
//! itself; either may be compressed.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::checksum::{Algorithm, Checksum, Hasher};
use crate::fetch::error::FetchError;
use crate::fetch::sparse::SparseFile;
use crate::fetch::{CHUNK_BYTES, within};

/// The folder in which container disks have their one file.
const FOLDER: &str = "disk";
/// Before the name of a file that a layer takes away.
const GONE: &str = ".wh.";
/// The name that takes all of a folder away.
const ALL_GONE: &str = ".wh..wh..opq";

/// What is taken from a layer.
pub(super) struct Job {
    pub layer: PathBuf,
    pub target: PathBuf,
    pub algorithm: Algorithm,
    pub max_bytes: u64,
    /// Files that layers above have taken away.
    pub hidden: BTreeSet<String>,
}

/// What a layer had.
pub(super) enum Found {
    /// The disk, which is at the target now.
    Disk { bytes: u64, digest: Checksum },
    /// No disk; these files of layers below are gone too.
    Nothing { hidden: BTreeSet<String> },
    /// No disk, and none below it counts.
    End,
}

/// Why a layer cannot be used.
pub(super) enum Failed {
    /// It is not what it should be.
    Layer(String),
    /// Something else.
    Other(FetchError),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Layer(format!("a layer cannot be unpacked ({error})"))
    }
}

impl From<FetchError> for Failed {
    fn from(error: FetchError) -> Self {
        Self::Other(error)
    }
}

impl Job {
    /// Reads the layer once from its beginning to its end, without holding it. Blocks.
    pub(super) fn run(self) -> Result<Found, Failed> {
        let file = File::open(&self.layer).map_err(|e| FetchError::file(&self.layer, e))?;
        let mut reader = decompressed(file)?;
        let mut head = Vec::with_capacity(512);
        reader.by_ref().take(512).read_to_end(&mut head)?;
        let whole = io::Cursor::new(head.clone()).chain(reader);
        if head.get(257..262) == Some(b"ustar") {
            return self.search(whole);
        }
        if head.len() < 512 {
            let hidden = self.hidden;
            return Ok(Found::Nothing { hidden });
        }
        let mut disk = self.begin()?;
        disk.copy(whole)?;
        Ok(disk.finish(&self)?)
    }

    fn search(mut self, archive: impl Read) -> Result<Found, Failed> {
        let mut disk: Option<(String, Disk)> = None;
        let mut below = Below::Counts;
        let mut hidden = self.hidden.clone();
        for entry in tar::Archive::new(archive).entries()? {
            let entry = entry?;
            match Entry::of(&entry) {
                Entry::AllGone => below = Below::Gone,
                Entry::Gone(name) => drop(hidden.insert(name)),
                Entry::Disk(name) if !self.hidden.contains(&name) => {
                    if let Some((first, _)) = disk {
                        let both = format!("there are both {first} and {name} in its folder /disk");
                        return Err(Failed::Layer(both));
                    }
                    let mut made = self.begin()?;
                    made.copy(entry)?;
                    disk = Some((name, made));
                }
                Entry::Disk(_) | Entry::Other => {}
            }
        }
        self.hidden = hidden;
        match (disk, below) {
            (Some((_, disk)), _) => Ok(disk.finish(&self)?),
            (None, Below::Gone) => Ok(Found::End),
            (None, Below::Counts) => Ok(Found::Nothing {
                hidden: self.hidden,
            }),
        }
    }

    fn begin(&self) -> Result<Disk, FetchError> {
        let mut path = self.target.as_os_str().to_owned();
        path.push(".unpacked");
        let path = PathBuf::from(path);
        let made = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path);
        let file = made.and_then(|file| SparseFile::new(file, 0));
        Ok(Disk {
            file: file.map_err(|e| FetchError::file(&path, e))?,
            hasher: Hasher::new(self.algorithm),
            max_bytes: self.max_bytes,
            path,
        })
    }
}

/// Whether what lower layers have in the folder is still there.
#[derive(Clone, Copy)]
enum Below {
    Counts,
    Gone,
}

/// What an entry of a layer means.
enum Entry {
    Disk(String),
    Gone(String),
    AllGone,
    Other,
}

impl Entry {
    fn of(entry: &tar::Entry<'_, impl Read>) -> Self {
        let Ok(path) = entry.path() else {
            return Self::Other;
        };
        let path = path.to_string_lossy();
        let path = path.trim_start_matches("./").trim_start_matches('/');
        let Some((folder, name)) = path.split_once('/') else {
            let gone = path.strip_prefix(GONE) == Some(FOLDER);
            return if gone { Self::AllGone } else { Self::Other };
        };
        if folder != FOLDER || name.is_empty() || name.contains('/') {
            return Self::Other;
        }
        match name.strip_prefix(GONE) {
            Some(_) if name == ALL_GONE => Self::AllGone,
            Some(gone) => Self::Gone(gone.to_owned()),
            None if entry.header().entry_type().is_file() => Self::Disk(name.to_owned()),
            None => Self::Other,
        }
    }
}

/// The disk on its way out of a layer.
struct Disk {
    path: PathBuf,
    file: SparseFile,
    hasher: Hasher,
    max_bytes: u64,
}

impl Disk {
    /// What is small in a layer may be large outside, so the bound counts here.
    fn copy(&mut self, mut from: impl Read) -> Result<(), Failed> {
        let mut piece = vec![0; CHUNK_BYTES];
        loop {
            let count = from.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            within(self.max_bytes, self.file.len() + count as u64)?;
            self.hasher.update(&piece[..count]);
            let written = self.file.append(&piece[..count]);
            written.map_err(|e| FetchError::file(&self.path, e))?;
        }
    }

    fn finish(self, job: &Job) -> Result<Found, FetchError> {
        let failed = |e| FetchError::file(&self.path, e);
        self.file.sync().map_err(failed)?;
        std::fs::rename(&self.path, &job.target).map_err(failed)?;
        Ok(Found::Disk {
            bytes: self.file.len(),
            digest: self.hasher.finish(),
        })
    }
}

fn decompressed(mut file: File) -> Result<Box<dyn Read>, Failed> {
    let mut magic = Vec::with_capacity(4);
    file.by_ref().take(4).read_to_end(&mut magic)?;
    let file = BufReader::with_capacity(CHUNK_BYTES, io::Cursor::new(magic.clone()).chain(file));
    Ok(match magic.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(file)),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(file);
            Box::new(
                decoder.map_err(|e| Failed::Layer(format!("a layer cannot be unpacked ({e})")))?,
            )
        }
        _ => Box::new(file),
    })
}

/// Removes what an unfinished unpacking has left.
pub(super) fn tidy(target: &Path) {
    let mut path = target.as_os_str().to_owned();
    path.push(".unpacked");
    // It is rarely there.
    let _ = std::fs::remove_file(PathBuf::from(path));
}
