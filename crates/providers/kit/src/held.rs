//! How much a snapshot holds that lies inside the files of the disks.
//!
//! It shares its blocks with the disks, and what it takes alone changes with each write. What can be said for good is what it
//! holds: all that its disks had in files of their own at that moment, and the memory that was kept. Images and layers below a
//! disk are others'.

use serde::Deserialize;

/// The file of a disk, as QEMU and its tools describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct DiskFile {
    actual_size: u64,
    snapshots: Vec<Inside>,
}

/// A snapshot inside a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Inside {
    name: String,
    vm_state_size: u64,
}

impl DiskFile {
    /// A file of which no more is known than what it takes up.
    pub const fn of(bytes: u64) -> Self {
        Self {
            actual_size: bytes,
            snapshots: Vec::new(),
        }
    }

    /// Without the memory that other snapshots keep in it.
    fn held(&self, tag: &str) -> u64 {
        let others = self.snapshots.iter().filter(|inside| inside.name != tag);
        let memories: u64 = others.map(|inside| inside.vm_state_size).sum();
        self.actual_size.saturating_sub(memories)
    }
}

/// What the snapshot of this tag holds, which was just taken of these files.
pub fn bytes<'a>(files: impl IntoIterator<Item = &'a DiskFile>, tag: &str) -> u64 {
    files.into_iter().map(|file| file.held(tag)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_other_snapshots_is_theirs() {
        let text = r#"{"virtual-size": 1073741824, "filename": "root.qcow2", "format": "qcow2", "actual-size": 1000,
            "snapshots": [{"id": "1", "name": "a", "vm-state-size": 300, "date-sec": 1},
                          {"id": "2", "name": "b", "vm-state-size": 200, "date-sec": 2}]}"#;
        let root: DiskFile = serde_json::from_str(text).expect("readable");
        let data = DiskFile::of(50);
        assert_eq!(bytes([&root, &data], "a"), 850);
        assert_eq!(bytes([&root, &data], "b"), 750);
        assert_eq!(bytes([&root, &data], "c"), 550);
        assert_eq!(bytes([&DiskFile::default()], "a"), 0);
    }
}
