//! Small disks between raw bytes and qcow2, in memory: version 3, clusters of 64 KiB, nothing compressed, no backing file.
//!
//! ```text
//!   cluster 0 header │ 1 refcount table │ 2 refcount block │ 3 L1 │ 4… L2 tables │ data, without clusters of zeros
//! ```

use super::{Format, FormatError, array, probe};

const CLUSTER_BITS: u32 = 16;
const CLUSTER: usize = 1 << CLUSTER_BITS;
/// Entries of 8 bytes in a cluster.
const ENTRIES: usize = CLUSTER / 8;
/// Counts of 2 bytes in the one refcount block: more clusters than that are not counted here.
const COUNTED: usize = CLUSTER / 2;
const HEADER_LENGTH: u32 = 104;
const REFCOUNT_TABLE: usize = 1;
const REFCOUNT_BLOCK: usize = 2;
const L1: usize = 3;
const FIRST_L2: usize = 4;
/// Bit 63 of an entry: the cluster is used once, and may be written in place.
const COPIED: u64 = 1 << 63;
/// The bits of an entry that are a place in the file.
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
/// Bit 62 of an L2 entry: the cluster is compressed.
const COMPRESSED: u64 = 1 << 62;
/// Bit 0 of an L2 entry: the cluster reads as zeros.
const ZERO: u64 = 1;
/// The largest disk that is converted in memory.
const LARGEST: u64 = 1 << 30;

/// A qcow2 file with these bytes as its disk, rounded up to whole sectors.
///
/// Fails above 1 GiB.
pub fn to_qcow2(raw: &[u8]) -> Result<Vec<u8>, FormatError> {
    let sectors = raw.len().next_multiple_of(512);
    if sectors as u64 > LARGEST {
        return Err(too_large(sectors as u64));
    }
    let tables = sectors.div_ceil(CLUSTER * ENTRIES).max(1);
    let mut file = vec![0; (FIRST_L2 + tables) * CLUSTER];
    for table in 0..tables {
        put(
            &mut file,
            L1 * CLUSTER + table * 8,
            COPIED | place(FIRST_L2 + table),
        );
    }
    for (number, cluster) in raw.chunks(CLUSTER).enumerate() {
        if cluster.iter().any(|byte| *byte != 0) {
            let at = file.len();
            file.extend_from_slice(cluster);
            file.resize(at + CLUSTER, 0);
            put(
                &mut file,
                FIRST_L2 * CLUSTER + number * 8,
                COPIED | at as u64,
            );
        }
    }
    count(&mut file);
    header(&mut file, sectors as u64, tables);
    Ok(file)
}

/// A file of at most 1 GiB of data has fewer clusters than one block counts.
fn count(file: &mut [u8]) {
    put(file, REFCOUNT_TABLE * CLUSTER, place(REFCOUNT_BLOCK));
    let used = (file.len() / CLUSTER).min(COUNTED);
    for counter in file[REFCOUNT_BLOCK * CLUSTER..].chunks_mut(2).take(used) {
        counter.copy_from_slice(&1_u16.to_be_bytes());
    }
}

fn header(file: &mut [u8], virtual_bytes: u64, tables: usize) {
    file[..4].copy_from_slice(b"QFI\xfb");
    put32(file, 4, 3);
    put32(file, 20, CLUSTER_BITS);
    put(file, 24, virtual_bytes);
    put32(file, 36, u32::try_from(tables).unwrap_or(u32::MAX));
    put(file, 40, place(L1));
    put(file, 48, place(REFCOUNT_TABLE));
    put32(file, 56, 1);
    // Counts of 1 << 4 bits.
    put32(file, 96, 4);
    put32(file, 100, HEADER_LENGTH);
}

const fn place(cluster: usize) -> u64 {
    (cluster * CLUSTER) as u64
}

fn put(file: &mut [u8], at: usize, value: u64) {
    file[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

fn put32(file: &mut [u8], at: usize, value: u32) {
    file[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn unsupported(what: String) -> FormatError {
    let format = Format::Qcow2;
    FormatError::Unsupported { format, what }
}

fn too_large(bytes: u64) -> FormatError {
    unsupported(format!(
        "{bytes} bytes, more than {LARGEST} that fit in memory"
    ))
}

/// The disk of a qcow2 file.
///
/// Fails for whatever [`probe`] refuses, for compressed clusters and extended tables, and above 1 GiB.
pub fn from_qcow2(file: &[u8]) -> Result<Vec<u8>, FormatError> {
    let image = probe(file, file.len() as u64)?.expect("qcow2")?;
    if image.virtual_bytes > LARGEST {
        return Err(too_large(image.virtual_bytes));
    }
    let reader = Reader::open(file)?;
    let mut raw = vec![0; usize::try_from(image.virtual_bytes).unwrap_or(usize::MAX)];
    for (number, target) in raw.chunks_mut(reader.cluster).enumerate() {
        if let Some(at) = reader.data(number)? {
            let end = at.checked_add(target.len());
            let source = end.and_then(|end| file.get(at..end));
            target.copy_from_slice(source.ok_or_else(cut_short)?);
        }
    }
    Ok(raw)
}

/// A file whose header was checked.
struct Reader<'a> {
    file: &'a [u8],
    cluster: usize,
    l1: usize,
}

impl<'a> Reader<'a> {
    fn open(file: &'a [u8]) -> Result<Self, FormatError> {
        let version = array(file, 4).map(u32::from_be_bytes);
        let extended = version == Some(3) && word(file, 72)? & (1 << 4) != 0;
        if extended {
            return Err(unsupported("extended tables of clusters".to_owned()));
        }
        let bits = array(file, 20).map(u32::from_be_bytes);
        Ok(Self {
            file,
            cluster: 1 << bits.ok_or_else(cut_short)?,
            l1: to_place(word(file, 40)?),
        })
    }

    /// Where the data of a cluster is; `None` if it reads as zeros.
    fn data(&self, number: usize) -> Result<Option<usize>, FormatError> {
        let entries = self.cluster / 8;
        let table = word(self.file, self.l1 + number / entries * 8)? & OFFSET;
        if table == 0 {
            return Ok(None);
        }
        let entry = word(self.file, to_place(table) + number % entries * 8)?;
        if entry & COMPRESSED != 0 {
            return Err(unsupported("compressed clusters".to_owned()));
        }
        let there = entry & OFFSET != 0 && entry & ZERO == 0;
        Ok(there.then(|| to_place(entry & OFFSET)))
    }
}

fn to_place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX / 2)
}

fn word(file: &[u8], at: usize) -> Result<u64, FormatError> {
    array(file, at)
        .map(u64::from_be_bytes)
        .ok_or_else(cut_short)
}

const fn cut_short() -> FormatError {
    FormatError::Damaged {
        format: Format::Qcow2,
        what: "a cluster lies outside the file",
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn disk(length: usize) -> Vec<u8> {
        let mut raw = vec![0; length];
        for at in [0, length / 2, length - 1] {
            raw[at] = 7;
        }
        raw
    }

    #[test]
    fn a_disk_comes_back_as_it_was() {
        for length in [512, 4096, CLUSTER, CLUSTER + 512, 3 << 20, 40 << 20] {
            let raw = disk(length);
            let file = to_qcow2(&raw).expect("written");
            assert!(file.len() <= 12 * CLUSTER, "zeros are left out");
            assert!(from_qcow2(&file).expect("read") == raw, "{length}");
        }
    }

    #[test]
    fn half_a_sector_is_made_whole() {
        let back = from_qcow2(&to_qcow2(b"x").expect("written")).expect("read");
        assert_eq!((back.len(), &back[..2]), (512, &b"x\0"[..]));
    }

    #[test]
    fn a_file_that_is_cut_off_is_refused() {
        let file = to_qcow2(&disk(3 << 20)).expect("written");
        let cut = from_qcow2(&file[..file.len() - CLUSTER]);
        assert!(matches!(cut, Err(FormatError::Damaged { .. })), "{cut:?}");
    }

    #[test]
    fn the_real_tool_finds_nothing_wrong() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk.qcow2");
        std::fs::write(&path, to_qcow2(&disk(3 << 20)).expect("written")).expect("stored");
        let mut tool = Command::new("qemu-img");
        let checked = tool.args(["check", "-f", "qcow2"]).arg(&path).output();
        let checked = checked.expect("qemu-img is installed: make tools");
        assert!(checked.status.success(), "{checked:?}");
    }
}
