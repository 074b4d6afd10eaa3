//! What a hypervisor is shown to prove who asks: the keys of one Secret.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use bytes::Bytes;

/// Where a pod finds the keys of its credentials, one file each.
pub const CREDENTIALS_DIR: &str = "/etc/virtrigaud/credentials";

/// The keys of a Secret and their values. The debug form names the keys only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials(BTreeMap<String, Bytes>);

impl Credentials {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Bytes> {
        self.0.get(key)
    }

    /// The value of a key as text, without the line end that files and `kubectl create secret --from-file` bring along.
    pub fn text(&self, key: &str) -> Option<&str> {
        let text = std::str::from_utf8(self.get(key)?).ok()?;
        Some(text.trim_end_matches(['\r', '\n']))
    }

    /// Whether nothing was given.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All keys with their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Bytes)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Reads a folder as Kubernetes mounts a Secret: one file a key, and what begins with a dot is not one. No folder is no
    /// credentials.
    pub fn from_directory(folder: &Path) -> io::Result<Self> {
        let entries = match std::fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            entries => entries?,
        };
        let mut found = BTreeMap::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') && entry.path().is_file() {
                found.insert(name, std::fs::read(entry.path())?.into());
            }
        }
        Ok(Self(found))
    }
}

impl<K: Into<String>, V: Into<Bytes>> FromIterator<(K, V)> for Credentials {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter();
        Self(pairs.map(|(k, v)| (k.into(), v.into())).collect())
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounted_secret_is_read_without_its_hidden_files() {
        let folder = std::env::temp_dir().join(format!("credentials-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("..2026")).unwrap();
        std::fs::write(folder.join("password"), "s3cret\n").unwrap();
        std::fs::write(folder.join("..data"), "x").unwrap();
        let read = Credentials::from_directory(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read.text("password"), Some("s3cret"));
        assert_eq!(read.iter().count(), 1);
    }

    #[test]
    fn no_folder_is_no_credentials() {
        let read = Credentials::from_directory(Path::new("/nowhere/at/all")).unwrap();
        assert!(read.is_empty());
    }

    #[test]
    fn values_are_not_shown() {
        let credentials: Credentials = [("password", "s3cret")].into_iter().collect();
        assert_eq!(format!("{credentials:?}"), r#"{"password"}"#);
    }
}
