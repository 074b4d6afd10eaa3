//! A file that grows at its end, where blocks of zeros cost no space.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

const BLOCK: u64 = 4096;
const ZEROS: [u8; 4096] = [0; 4096];

/// A growing file. Behind [`len`](Self::len) the file itself never holds data.
pub(super) struct SparseFile {
    file: File,
    len: u64,
}

impl SparseFile {
    /// Takes a file that is true up to `len`, and cuts off what is behind.
    pub(super) fn new(file: File, len: u64) -> io::Result<Self> {
        file.set_len(len)?;
        Ok(Self { file, len })
    }

    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut data = 0..0;
        let mut from = 0;
        while from < bytes.len() {
            let to = self.end_of_block(from).min(bytes.len());
            if bytes[from..to] == ZEROS[..to - from] {
                self.write(bytes, data.start..from)?;
                data.start = to;
            }
            from = to;
        }
        self.write(bytes, data.start..bytes.len())?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Where the block of the file ends in which byte `from` of the new bytes comes to lie.
    fn end_of_block(&self, from: usize) -> usize {
        let into_block = (self.len + from as u64) % BLOCK;
        from + usize::try_from(BLOCK - into_block).unwrap_or(ZEROS.len())
    }

    fn write(&self, bytes: &[u8], range: Range<usize>) -> io::Result<()> {
        self.file
            .write_all_at(&bytes[range.clone()], self.len + range.start as u64)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.len = 0;
        self.file.set_len(0)
    }

    /// Gives the file its full length, also if it ends in zeros, and brings it to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.set_len(self.len)?;
        self.file.sync_data()
    }

    /// Shows the whole content in pieces.
    pub(super) fn read(&self, mut show: impl FnMut(&[u8])) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 20];
        let mut at = 0;
        while at < self.len {
            let wanted = usize::try_from(self.len - at)
                .unwrap_or(usize::MAX)
                .min(buffer.len());
            self.file.read_exact_at(&mut buffer[..wanted], at)?;
            show(&buffer[..wanted]);
            at += wanted as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn zeros_take_no_space() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut sparse = SparseFile::new(file.reopen().unwrap(), 0).unwrap();
        sparse.append(&vec![0; 8 << 20]).unwrap();
        sparse.append(b"end").unwrap();
        sparse.append(&vec![0; 8 << 20]).unwrap();
        sparse.sync().unwrap();
        let metadata = file.as_file().metadata().unwrap();
        assert_eq!(metadata.len(), (16 << 20) + 3);
        assert!(
            metadata.blocks() * 512 <= 64 << 10,
            "{} blocks",
            metadata.blocks()
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_was_appended_is_there(
            pieces in proptest::collection::vec((prop_oneof![Just(0_u8), any::<u8>()], 0_usize..10_000), 0..12),
            resumed_at in 0_usize..20_000,
        ) {
            let all: Vec<u8> = pieces.iter().flat_map(|(byte, count)| vec![*byte; *count]).collect();
            let file = tempfile::NamedTempFile::new().unwrap();
            let resumed_at = resumed_at.min(all.len());
            std::fs::write(file.path(), [&all[..resumed_at], b"stale".as_slice()].concat()).unwrap();
            let opened = std::fs::OpenOptions::new().read(true).write(true).open(file.path()).unwrap();
            let mut sparse = SparseFile::new(opened, resumed_at as u64).unwrap();
            let mut passed = 0;
            for (byte, count) in &pieces {
                let skip = resumed_at.saturating_sub(passed).min(*count);
                sparse.append(&vec![*byte; count - skip]).unwrap();
                passed += count;
            }
            sparse.sync().unwrap();
            prop_assert!(std::fs::read(file.path()).unwrap() == all);
            let mut shown = Vec::new();
            sparse.read(|bytes| shown.extend_from_slice(bytes)).unwrap();
            prop_assert!(shown == all);
        }
    }
}
