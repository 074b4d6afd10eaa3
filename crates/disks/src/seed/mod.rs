//! The NoCloud seed: a small disk with the documents that cloud-init reads at first boot.
//!
//! Two kinds of disk hold the same files. A FAT disk is what hypervisors with plain disks attach; an ISO 9660 image is for
//! those that only have CD drives. Equal documents make equal bytes, so a seed can be compared and its change noticed.

mod fat;
mod iso;
mod network_config;

use std::fmt;

use bytes::Bytes;

pub use network_config::network_config;

/// The largest seed. Far beyond what guests read; it keeps a mistake from filling a disk.
pub const MAX_BYTES: usize = 64 << 20;

/// The documents of one guest. Empty user data is written as an empty file, for cloud-init wants the file.
///
/// They may hold secrets, so the debug text has sizes only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Seed {
    /// `user-data`.
    pub user_data: Bytes,
    /// `meta-data`, with an instance id.
    pub meta_data: Bytes,
    /// `network-config`; `None` to let the guest find out.
    pub network_config: Option<Bytes>,
}

/// Why there is no seed.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// The documents are too large.
    #[error(
        "The documents for the guest have {bytes} bytes together; {MAX_BYTES} is the most. Make the user data smaller"
    )]
    TooLarge {
        /// Their size.
        bytes: usize,
    },
    /// The file system could not be written into memory.
    #[error("Cannot make the file system of the seed")]
    FileSystem(#[source] std::io::Error),
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seed")
            .field("user_data_bytes", &self.user_data.len())
            .field("meta_data_bytes", &self.meta_data.len())
            .field(
                "network_config_bytes",
                &self.network_config.as_ref().map(Bytes::len),
            )
            .finish()
    }
}

impl Seed {
    /// A FAT file system without partitions, labelled `CIDATA`.
    pub fn to_fat(&self) -> Result<Vec<u8>, SeedError> {
        fat::image(&self.checked_files()?).map_err(SeedError::FileSystem)
    }

    /// An ISO 9660 file system with Joliet names, labelled `cidata`.
    pub fn to_iso(&self) -> Result<Vec<u8>, SeedError> {
        Ok(iso::image(&self.checked_files()?))
    }

    fn checked_files(&self) -> Result<Vec<File<'_>>, SeedError> {
        let files = self.files();
        let bytes = files.iter().map(|file| file.content.len()).sum();
        if bytes > MAX_BYTES {
            return Err(SeedError::TooLarge { bytes });
        }
        Ok(files)
    }

    /// Sorted by name, as ISO 9660 wants it.
    fn files(&self) -> Vec<File<'_>> {
        let network = self.network_config.as_deref();
        [
            Some(File {
                name: "meta-data",
                content: &self.meta_data,
            }),
            network.map(|content| File {
                name: "network-config",
                content,
            }),
            Some(File {
                name: "user-data",
                content: &self.user_data,
            }),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

struct File<'a> {
    name: &'static str,
    content: &'a [u8],
}

#[cfg(test)]
mod tests;
