//! Disks to and from a mounted claim.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use polyvirt_contract::model::{ImportDisk, Staging};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_disks::format::{FormatError, from_qcow2, to_qcow2};

use crate::state::sha256;

/// The largest disk that the mock takes in: it keeps them in memory.
const LARGEST: u64 = 16 << 20;

/// The file that a `pvc://claim/path` means; other places are honestly refused.
pub(crate) fn file(mounts: &Path, staging: &Staging) -> Result<PathBuf> {
    let claim_and_path = staging.url.strip_prefix("pvc://");
    let Some(rest) = claim_and_path.filter(|_| matches!(staging.backend.as_str(), "" | "pvc"))
    else {
        return Err(ProviderError::unsupported(
            "staging other than on a mounted claim (pvc://claim/path)",
        ));
    };
    let relative = Path::new(rest);
    let plain = relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !plain || relative.components().count() < 2 {
        let message = "The staging place must be pvc://claim/path, without .. in it";
        return Err(ProviderError::new(ErrorKind::Invalid, message));
    }
    Ok(mounts.join(relative))
}

/// How a staged disk is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StagedAs {
    Raw,
    Qcow2,
}

impl StagedAs {
    fn parse(format: &str) -> Result<Self> {
        match format {
            "" | "raw" => Ok(Self::Raw),
            "qcow2" => Ok(Self::Qcow2),
            other => {
                let message = format!("The mock stages disks as raw or qcow2, not as {other}");
                Err(ProviderError::invalid("spec.storage.format", message))
            }
        }
    }
}

/// The file that an export writes for a disk of these bytes.
pub(crate) fn encode(raw: Bytes, format: &str, compress: bool) -> Result<Bytes> {
    let staged_as = StagedAs::parse(format)?;
    if compress {
        return Err(ProviderError::unsupported("compressed exports"));
    }
    match staged_as {
        StagedAs::Raw => Ok(raw),
        StagedAs::Qcow2 => Ok(to_qcow2(&raw).map_err(|error| unreadable(&error))?.into()),
    }
}

fn unreadable(error: &FormatError) -> ProviderError {
    ProviderError::invalid("spec.storage.format", error.to_string())
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder
        .and_then(|()| fs::write(path, bytes))
        .map_err(|error| failed(path, &error))
}

/// A disk that was read from a staging place.
pub(crate) struct Staged {
    /// The bytes of the disk.
    pub(crate) raw: Bytes,
    /// The SHA-256 of the file.
    pub(crate) checksum: String,
}

/// Reads a staged disk and checks what can be checked.
pub(crate) fn read(path: &Path, request: &ImportDisk) -> Result<Staged> {
    let staged_as = StagedAs::parse(&request.format)?;
    check_name(&request.target_name)?;
    let length = fs::metadata(path)
        .map_err(|error| failed(path, &error))?
        .len();
    if length > LARGEST {
        let message = format!(
            "The disk has {length} bytes; the mock keeps disks in memory and takes {LARGEST} at most"
        );
        return Err(ProviderError::new(ErrorKind::Exhausted, message));
    }
    let bytes = fs::read(path)
        .map(Bytes::from)
        .map_err(|error| failed(path, &error))?;
    let checksum = sha256(&bytes);
    let expected = request.expected_checksum.as_ref();
    if expected.is_some_and(|expected| !expected.eq_ignore_ascii_case(&checksum)) {
        let message = "The staged disk does not have the expected checksum. Export it again";
        return Err(ProviderError::new(ErrorKind::Invalid, message));
    }
    let raw = match staged_as {
        StagedAs::Raw => bytes,
        StagedAs::Qcow2 => from_qcow2(&bytes)
            .map_err(|error| unreadable(&error))?
            .into(),
    };
    Ok(Staged { raw, checksum })
}

fn check_name(name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(fits) {
        let message =
            format!("{name:?} is no name for a disk; use letters, digits, dots and dashes");
        return Err(ProviderError::invalid("spec.target.name", message));
    }
    Ok(())
}

fn failed(path: &Path, error: &io::Error) -> ProviderError {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Internal,
    };
    let message = format!("Cannot use the staging place {}: {error}", path.display());
    ProviderError::new(kind, message)
}
