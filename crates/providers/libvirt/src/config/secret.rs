//! What is needed to be let in.

use std::collections::BTreeMap;
use std::path::Path;

/// No file of credentials is larger.
const MOST_SECRET_BYTES: u64 = 1 << 20;

/// Bytes that nobody may see. The debug form tells their number only.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Takes the bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// As text without the line end that editors leave; `None` if it is none.
    pub(crate) fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0)
            .ok()
            .map(|text| text.trim_end_matches(['\r', '\n']))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// The files of a mounted Secret. A folder that is not there has none.
pub(super) fn read_folder(folder: &Path) -> std::io::Result<BTreeMap<String, Secret>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        other => other?,
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        // A mounted Secret has links to its files beside folders of its own.
        let meta = std::fs::metadata(&path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if meta.is_file() && meta.len() <= MOST_SECRET_BYTES && !name.starts_with('.') {
            found.insert(name.into_owned(), Secret::new(std::fs::read(&path)?));
        }
    }
    Ok(found)
}
