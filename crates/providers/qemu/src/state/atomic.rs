//! Files that are either the old or the new, never half.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use polyvirt_contract::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::off_worker;
use crate::errors;

/// Writes the value so that a crash at any moment leaves the file as it was or as it should be.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let bytes = serde_json::to_vec_pretty(value)
        .map_err(|error| errors::internal(format!("A record cannot be written: {error}")))?;
    off_worker(|| replace(path, &bytes))
        .map_err(|error| errors::file("Writing a record", path, &error))
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("json.new");
    let written = write_whole(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // What cannot be removed either is overwritten by the next attempt.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    path.parent()
        .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The value in the file; `None` if there is no file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let bytes = match off_worker(|| fs::read(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| errors::file("Reading a record", path, &error))?,
    };
    let value = serde_json::from_slice(&bytes).map_err(|error| {
        let path = path.display();
        errors::internal(format!("The record {path} cannot be read: {error}"))
    })?;
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_replaced_as_a_whole_and_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("vm.json");
        assert_eq!(read_json::<Vec<u32>>(&path).expect("readable"), None);
        for value in [vec![1, 2, 3], vec![4]] {
            write_json(&path, &value).expect("written");
            assert_eq!(read_json(&path).expect("readable"), Some(value));
        }
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
    }

    #[test]
    fn a_broken_record_is_an_error_and_not_absence() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("vm.json");
        fs::write(&path, b"{").expect("written");
        assert!(read_json::<u32>(&path).is_err());
    }
}
