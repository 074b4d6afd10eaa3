//! The header of qcow2, versions 2 and 3: numbers are big-endian.

use super::{Format, FormatError, array};

const MAGIC: &[u8] = b"QFI\xfb";
const V2_BYTES: u64 = 72;
const V3_BYTES: u64 = 104;

// Places in the header.
const VERSION: usize = 4;
const BACKING_OFFSET: usize = 8;
const BACKING_LENGTH: usize = 16;
const CLUSTER_BITS: usize = 20;
const VIRTUAL_BYTES: usize = 24;
const CRYPT_METHOD: usize = 32;
const L1_ENTRIES: usize = 36;
const L1_OFFSET: usize = 40;
const REFCOUNT_OFFSET: usize = 48;
const REFCOUNT_CLUSTERS: usize = 56;
const INCOMPATIBLE: usize = 72;
const HEADER_LENGTH: usize = 100;

// Bits of the incompatible features. Bit 0, not cleanly closed, does no harm to a reader.
const NOT_CLOSED: u64 = 1;
const CORRUPT: u64 = 1 << 1;
const EXTERNAL_DATA: u64 = 1 << 2;
const COMPRESSION_TYPE: u64 = 1 << 3;
const EXTENDED_L2: u64 = 1 << 4;

pub(super) fn is(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

pub(super) fn virtual_bytes(head: &[u8], file_bytes: u64) -> Result<u64, FormatError> {
    let header = Header(head);
    stands_alone(&header)?;
    features(&header)?;
    tables(&header, file_bytes)?;
    header.u64(VIRTUAL_BYTES)
}

fn damaged(what: &'static str) -> FormatError {
    FormatError::Damaged {
        format: Format::Qcow2,
        what,
    }
}

struct Header<'a>(&'a [u8]);

impl Header<'_> {
    fn u32(&self, at: usize) -> Result<u32, FormatError> {
        array(self.0, at)
            .map(u32::from_be_bytes)
            .ok_or_else(|| damaged("its header is incomplete"))
    }

    fn u64(&self, at: usize) -> Result<u64, FormatError> {
        array(self.0, at)
            .map(u64::from_be_bytes)
            .ok_or_else(|| damaged("its header is incomplete"))
    }
}

fn stands_alone(header: &Header<'_>) -> Result<(), FormatError> {
    if header.u64(BACKING_OFFSET)? != 0 || header.u32(BACKING_LENGTH)? != 0 {
        return Err(FormatError::NotAlone {
            format: Format::Qcow2,
            what: "a backing file",
        });
    }
    if header.u32(CRYPT_METHOD)? != 0 {
        return Err(FormatError::Encrypted(Format::Qcow2));
    }
    Ok(())
}

fn features(header: &Header<'_>) -> Result<(), FormatError> {
    let unsupported = |what| {
        Err(FormatError::Unsupported {
            format: Format::Qcow2,
            what,
        })
    };
    let bits = match header.u32(VERSION)? {
        2 => 0,
        3 => header.u64(INCOMPATIBLE)?,
        version => return unsupported(format!("version {version} of the format")),
    };
    if bits & EXTERNAL_DATA != 0 {
        return Err(FormatError::NotAlone {
            format: Format::Qcow2,
            what: "a data file",
        });
    }
    if bits & CORRUPT != 0 {
        return Err(damaged("it is marked as corrupt"));
    }
    match bits & !(NOT_CLOSED | COMPRESSION_TYPE | EXTENDED_L2) {
        0 => Ok(()),
        unknown => unsupported(format!("unknown features ({unknown:#x})")),
    }
}

/// The tables must lie behind the header and within the file, and be large enough for the disk.
fn tables(header: &Header<'_>, file_bytes: u64) -> Result<(), FormatError> {
    let header_bytes = match header.u32(VERSION)? {
        2 => V2_BYTES,
        _ => u64::from(header.u32(HEADER_LENGTH)?).max(V3_BYTES),
    };
    let cluster_bits = header.u32(CLUSTER_BITS)?;
    if !(9..=21).contains(&cluster_bits) {
        return Err(damaged("its clusters have an impossible size"));
    }
    let cluster = 1_u64 << cluster_bits;
    if header_bytes > cluster || header_bytes > file_bytes {
        return Err(damaged("its header has an impossible size"));
    }
    let entries = u64::from(header.u32(L1_ENTRIES)?);
    let within = |offset: u64, bytes: u64| {
        offset.is_multiple_of(cluster)
            && offset >= cluster
            && offset
                .checked_add(bytes)
                .is_some_and(|end| end <= file_bytes)
    };
    if entries > 0 && !within(header.u64(L1_OFFSET)?, entries * 8) {
        return Err(damaged("its table of clusters lies outside the file"));
    }
    if !within(
        header.u64(REFCOUNT_OFFSET)?,
        u64::from(header.u32(REFCOUNT_CLUSTERS)?) * cluster,
    ) {
        return Err(damaged("its table of references lies outside the file"));
    }
    covers(header, cluster_bits, entries)
}

/// An entry of the first table stands for a cluster full of entries of the second, of 8 bytes or, if extended, 16.
fn covers(header: &Header<'_>, cluster_bits: u32, entries: u64) -> Result<(), FormatError> {
    let extended = header.u32(VERSION)? == 3 && header.u64(INCOMPATIBLE)? & EXTENDED_L2 != 0;
    let entry_bits = if extended { 4 } else { 3 };
    let covered = u128::from(entries) << (2 * cluster_bits - entry_bits);
    if covered < u128::from(header.u64(VIRTUAL_BYTES)?) {
        return Err(damaged("its table of clusters is too short for the disk"));
    }
    Ok(())
}
