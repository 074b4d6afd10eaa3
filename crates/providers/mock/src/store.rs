//! Where VMs are kept between lives: nowhere, or one JSON file each in a folder.
//!
//! ```text
//!   folder/numbers.json          what must not be given twice
//!   folder/vms/vm-17.json        one VM
//!   folder/disks/NAME.SHA256.raw an imported disk
//! ```
//!
//! A file is written beside its place and renamed into it, so a crash leaves the old one or the new one. Only the owner
//! may read the files: user data often holds secrets.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config::Storage;
use crate::state::{Numbers, Vm, VmKey};

/// A failure of the folder, with the path that it happened at.
#[derive(Debug, thiserror::Error)]
#[error("The mock cannot use {path}: {source}; check that the folder exists and may be written")]
pub(crate) struct StoreError {
    path: String,
    source: io::Error,
}

#[derive(Debug)]
pub(crate) enum Store {
    /// The state itself is the only copy of VMs; imported disks are kept here.
    Memory(BTreeMap<String, Bytes>),
    Directory(PathBuf),
}

/// What a folder holds.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) numbers: Numbers,
    pub(crate) vms: Vec<Vm>,
    /// Name, SHA-256 and length of imported disks.
    pub(crate) disks: Vec<(String, String, usize)>,
}

impl Store {
    pub(crate) fn new(storage: &Storage) -> Self {
        match storage {
            Storage::Memory => Self::Memory(BTreeMap::new()),
            Storage::Directory(path) => Self::Directory(path.clone()),
        }
    }

    /// Reads everything; `None` if nothing outlives the process. Counts a new life.
    pub(crate) fn open(&self) -> Result<Option<Contents>, StoreError> {
        let Self::Directory(folder) = self else {
            return Ok(None);
        };
        make_private_folder(&folder.join("vms"))?;
        make_private_folder(&folder.join("disks"))?;
        let numbers: Option<Numbers> = read_json(&folder.join("numbers.json"))?;
        let mut numbers = numbers.unwrap_or_default();
        numbers.life += 1;
        self.save_numbers(numbers)?;
        Ok(Some(Contents {
            numbers,
            vms: read_vms(&folder.join("vms"))?,
            disks: list_disks(&folder.join("disks"))?,
        }))
    }

    pub(crate) fn save(&self, vm: &Vm) -> Result<(), StoreError> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Directory(folder) => write_json(&vm_file(folder, vm.key), vm),
        }
    }

    pub(crate) fn remove(&self, key: VmKey) -> Result<(), StoreError> {
        let Self::Directory(folder) = self else {
            return Ok(());
        };
        let path = vm_file(folder, key);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&path)(error)),
            _ => Ok(()),
        }
    }

    pub(crate) fn save_numbers(&self, numbers: Numbers) -> Result<(), StoreError> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Directory(folder) => write_json(&folder.join("numbers.json"), &numbers),
        }
    }

    pub(crate) fn save_disk(
        &mut self,
        name: &str,
        sha256: &str,
        bytes: &Bytes,
    ) -> Result<(), StoreError> {
        match self {
            Self::Memory(disks) => {
                disks.insert(sha256.to_owned(), bytes.clone());
                Ok(())
            }
            Self::Directory(folder) => write(
                &folder.join("disks").join(format!("{name}.{sha256}.raw")),
                bytes,
            ),
        }
    }

    /// The bytes of an imported disk; `None` if somebody took them away.
    pub(crate) fn disk(&self, sha256: &str) -> Result<Option<Bytes>, StoreError> {
        let folder = match self {
            Self::Memory(disks) => return Ok(disks.get(sha256).cloned()),
            Self::Directory(folder) => folder.join("disks"),
        };
        let found = list_disks(&folder)?
            .into_iter()
            .find(|(_, sha, _)| sha == sha256);
        let Some((name, ..)) = found else {
            return Ok(None);
        };
        let path = folder.join(format!("{name}.{sha256}.raw"));
        fs::read(&path)
            .map(|bytes| Some(Bytes::from(bytes)))
            .map_err(at(&path))
    }
}

fn vm_file(folder: &Path, key: VmKey) -> PathBuf {
    folder.join("vms").join(format!("{}.json", key.id()))
}

fn make_private_folder(path: &Path) -> Result<(), StoreError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(at(path))
}

fn read_vms(folder: &Path) -> Result<Vec<Vm>, StoreError> {
    let mut vms = Vec::new();
    for path in files(folder)? {
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            vms.extend(read_json::<Vm>(&path)?);
        }
    }
    vms.sort_by_key(|vm| vm.key);
    Ok(vms)
}

fn list_disks(folder: &Path) -> Result<Vec<(String, String, usize)>, StoreError> {
    let mut disks = Vec::new();
    for path in files(folder)? {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let parts = name
            .strip_suffix(".raw")
            .and_then(|stem| stem.rsplit_once('.'));
        if let Some((name, sha256)) = parts {
            let length = fs::metadata(&path).map_err(at(&path))?.len();
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            disks.push((name.to_owned(), sha256.to_owned(), length));
        }
    }
    disks.sort();
    Ok(disks)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = fs::read_dir(folder).map_err(at(folder))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    paths.collect::<io::Result<_>>().map_err(at(folder))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StoreError> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(at(path))?,
    };
    let value = serde_json::from_slice(&bytes).map_err(|error| at(path)(error.into()))?;
    Ok(Some(value))
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    let bytes = serde_json::to_vec_pretty(value).map_err(|error| at(path)(error.into()))?;
    write(path, &bytes)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    write_beside(path, bytes).map_err(at(path))
}

fn write_beside(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&beside)?.write_all(bytes)?;
    fs::rename(&beside, path)
}

fn at(path: &Path) -> impl Fn(io::Error) -> StoreError + use<> {
    let path = path.display().to_string();
    move |source| StoreError {
        path: path.clone(),
        source,
    }
}
