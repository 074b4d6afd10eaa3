//! What can go wrong on the way, in words for the person who waits for the image.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::checksum::{Algorithm, Checksum};

/// Why an image did not come. No text holds a header, a password or the query of an address.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The address cannot be used.
    #[error("Cannot fetch from this address: {why}")]
    Address {
        /// What is wrong with it.
        why: String,
    },
    /// The server is this machine, or its cloud.
    #[error(
        "{address} leads to the machine that fetches images, or to its cloud, and is not asked. Name another server, or have the operator allow it (endpoint option imageHosts=any)"
    )]
    Inside {
        /// The server and path.
        address: String,
    },
    /// A request header cannot be sent.
    #[error(
        "The header {name:?} cannot be sent: its name or value has characters that HTTP does not allow"
    )]
    Header {
        /// Its name.
        name: String,
    },
    /// The client could not be made.
    #[error("Cannot prepare for HTTPS: {why}")]
    Tls {
        /// What is wrong.
        why: String,
    },
    /// The server cannot be reached, or not trusted.
    #[error("Cannot connect to {address}: {why}")]
    Connect {
        /// The server and path.
        address: String,
        /// What the connection said.
        why: String,
    },
    /// Nothing came for too long.
    #[error("{address} sent nothing for {} seconds", after.as_secs())]
    Stalled {
        /// The server and path.
        address: String,
        /// How long.
        after: Duration,
    },
    /// The connection broke.
    #[error("The connection to {address} broke after {bytes} bytes: {why}")]
    Interrupted {
        /// The server and path.
        address: String,
        /// What had come by then, in all attempts.
        bytes: u64,
        /// What the connection said.
        why: String,
    },
    /// The server said no.
    #[error("{address} answered {status}. {}", remedy(*status))]
    Refused {
        /// The server and path.
        address: String,
        /// The HTTP status.
        status: u16,
    },
    /// The server's answer makes no sense.
    #[error("The answer of {address} cannot be used: {why}")]
    BadAnswer {
        /// The server and path.
        address: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The file is larger than allowed.
    #[error("The image has more than {limit} bytes, which is the most allowed here")]
    TooLarge {
        /// The bound.
        limit: u64,
    },
    /// The bytes are not the ones that were promised.
    #[error(
        "The checksum is wrong: expected {expected}, found {found}. The file was changed, or the checksum is of another file"
    )]
    Checksum {
        /// What was promised.
        expected: Checksum,
        /// What came.
        found: Checksum,
    },
    /// The list of checksums does not name the image.
    #[error(
        "The list of checksums {address} has no {algorithm} of {file}. Name the list that belongs to the image, or its checksum"
    )]
    Unlisted {
        /// The server and path of the list.
        address: String,
        /// What was looked for.
        algorithm: Algorithm,
        /// The name of the image.
        file: String,
    },
    /// The registry has no such image.
    #[error("There is no container image {image}. Check its name and its tag")]
    Absent {
        /// The image.
        image: String,
    },
    /// The registry does not show the image.
    #[error(
        "The container image {image} is not shown to us: there is none of that name, or it needs a pull secret (spec.source.registry.pullSecretRef of a VMImage) that may read it"
    )]
    Denied {
        /// The image.
        image: String,
    },
    /// The image is for other machines.
    #[error("The container image {image} is not for {machine}. It is for {offered}")]
    OtherMachine {
        /// The image.
        image: String,
        /// What it should be for.
        machine: String,
        /// What it is for.
        offered: String,
    },
    /// The image has no disk in it.
    #[error(
        "The container image {image} cannot be used: {why}. Give one as KubeVirt's container disks are, with one file in /disk, or an artifact that is a disk"
    )]
    NoDisk {
        /// The image.
        image: String,
        /// What it has instead.
        why: String,
    },
    /// There is no room.
    #[error("No space is left for {}. Make room; the download goes on where it stopped", path.display())]
    DiskFull {
        /// The file that does not fit.
        path: PathBuf,
    },
    /// Somebody else fetches to the same file.
    #[error("{} is being fetched already", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The source is a folder, a device or the like.
    #[error("{} is no regular file", path.display())]
    NotAFile {
        /// The source.
        path: PathBuf,
    },
    /// A local file cannot be read or written.
    #[error("Cannot use {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl FetchError {
    /// Whether the same request may succeed later without a change by anybody who wrote it.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::DiskFull { .. } | Self::Busy { .. }) || self.is_interruption()
    }

    /// Whether another connection is worth a try at once.
    pub(super) const fn is_interruption(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Stalled { .. } | Self::Interrupted { .. } => true,
            Self::Refused { status, .. } => matches!(status, 408 | 425 | 429 | 500..=599),
            _ => false,
        }
    }

    /// A failure of the local file, where a full disk is a case of its own.
    pub(super) fn file(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path },
            _ => Self::File { path, source },
        }
    }
}

const fn remedy(status: u16) -> &'static str {
    match status {
        401 | 403 => "Check the credentials of the image",
        404 | 410 => "There is no such file: check the address",
        408 | 425 | 429 | 500..=599 => "The server has a problem; it is tried again",
        _ => "Check the address",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_plainly_and_may_pass() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            let error = FetchError::file(Path::new("/images/a"), kind.into());
            assert!(
                error
                    .to_string()
                    .starts_with("No space is left for /images/a"),
                "{error}"
            );
            assert!(error.is_retryable() && !error.is_interruption());
        }
        let denied = FetchError::file(
            Path::new("/images/a"),
            io::ErrorKind::PermissionDenied.into(),
        );
        assert!(!denied.is_retryable(), "{denied}");
    }
}
