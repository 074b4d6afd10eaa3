//! What kind of disk image a file is, found out from its bytes alone.
//!
//! An image comes from strangers. Some formats can name other files, and a hypervisor that opens such an image as root reads
//! those files into the guest: `/etc/shadow` as a "backing file" is the classic. So everything that refers to anything
//! outside the file is refused here, before a tool that would follow it sees the image. Nothing in a header is believed
//! before it was checked against the size of the file.
//!
//! **The format found here must be given to every tool by name.** A raw disk is whatever the guest makes of it: if a tool
//! looks for itself, a guest can write a qcow2 header to its own disk.

mod foreign;
mod qcow2;
mod qcow2_bytes;
mod vmdk;

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

pub use qcow2_bytes::{from_qcow2, to_qcow2};

/// The largest virtual disk: more than any hypervisor here offers, less than what overflows a tool.
pub const MAX_VIRTUAL_BYTES: u64 = 64 << 40;

/// What is read of a file: the headers, and the text inside a VMDK, lie within.
const HEADER_BYTES: u64 = 1 << 20;

/// The formats that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// The bytes of the disk, nothing else.
    Raw,
    /// QEMU's own, version 2 or 3.
    Qcow2,
    /// VMware's, in one file: streamOptimized or monolithicSparse.
    Vmdk,
}

/// A file that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// How the bytes are to be read.
    pub format: Format,
    /// The size of the disk that a guest sees.
    pub virtual_bytes: u64,
}

/// Why a file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// It cannot be read.
    #[error("Cannot read the image")]
    Read(#[from] io::Error),
    /// There is nothing in it.
    #[error("The image is empty")]
    Empty,
    /// It is something else.
    #[error("The file is {what}, no disk image. {remedy}")]
    Foreign {
        /// What it looks like.
        what: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// It needs other files.
    #[error(
        "The {format} image refers to {what} outside itself, which is not allowed. Export it as one file that stands alone"
    )]
    NotAlone {
        /// Its format.
        format: Format,
        /// What it refers to.
        what: &'static str,
    },
    /// It needs a key.
    #[error("The {0} image is encrypted. Give one that is not")]
    Encrypted(Format),
    /// It uses something that is not known to be safe.
    #[error("The {format} image uses {what}. Convert it with qemu-img convert -O qcow2")]
    Unsupported {
        /// Its format.
        format: Format,
        /// What is not understood.
        what: String,
    },
    /// It contradicts itself.
    #[error("The {format} image is damaged or cut off: {what}. Fetch it again")]
    Damaged {
        /// Its format.
        format: Format,
        /// What is wrong.
        what: &'static str,
    },
    /// The disk inside would be too large.
    #[error("The {format} image holds a disk of {bytes} bytes; {MAX_VIRTUAL_BYTES} is the most")]
    TooLarge {
        /// Its format.
        format: Format,
        /// The size that it claims.
        bytes: u64,
    },
    /// It is another format than was said.
    #[error(
        "The image was said to be {declared} and is {found}. Correct the format, or the address"
    )]
    NotAsDeclared {
        /// What was said.
        declared: String,
        /// What it is.
        found: Format,
    },
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Format {
    /// The name that QEMU's tools take.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
            Self::Vmdk => "vmdk",
        }
    }
}

impl Image {
    /// Holds the format against what the user said; an empty text says nothing.
    pub fn expect(self, declared: &str) -> Result<Self, FormatError> {
        let same = match declared.to_ascii_lowercase().as_str() {
            "" => true,
            "img" => self.format == Format::Raw,
            name => name == self.format.name(),
        };
        same.then_some(self)
            .ok_or_else(|| FormatError::NotAsDeclared {
                declared: declared.to_owned(),
                found: self.format,
            })
    }
}

/// Looks at a file. Reads its beginning only; blocks.
pub fn probe_file(path: &Path) -> Result<Image, FormatError> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut head = Vec::new();
    file.take(HEADER_BYTES).read_to_end(&mut head)?;
    probe(&head, bytes)
}

/// Looks at the beginning of a file of `file_bytes`; the first MiB is enough.
pub fn probe(head: &[u8], file_bytes: u64) -> Result<Image, FormatError> {
    if head.is_empty() || file_bytes == 0 {
        return Err(FormatError::Empty);
    }
    if let Some(error) = foreign::recognise(head) {
        return Err(error);
    }
    let (format, virtual_bytes) = if qcow2::is(head) {
        (Format::Qcow2, qcow2::virtual_bytes(head, file_bytes)?)
    } else if vmdk::is(head) {
        (Format::Vmdk, vmdk::virtual_bytes(head, file_bytes)?)
    } else {
        (Format::Raw, file_bytes)
    };
    match virtual_bytes {
        0 => Err(FormatError::Damaged {
            format,
            what: "the disk inside has no size",
        }),
        1..=MAX_VIRTUAL_BYTES => Ok(Image {
            format,
            virtual_bytes,
        }),
        bytes => Err(FormatError::TooLarge { format, bytes }),
    }
}

/// The bytes of a number in a header; `None` beyond its end.
fn array<const N: usize>(head: &[u8], at: usize) -> Option<[u8; N]> {
    head.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests;
