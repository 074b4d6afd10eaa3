use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Component, Doing, Error};
use crate::keeper::Keeper;
use crate::ports::Ports;

/// The folder with everything a control plane keeps, locked against a second user.
#[derive(Debug)]
pub(crate) struct StateDir {
    root: PathBuf,
    // Declared before the keeper: the lock file goes with the folder.
    _lock: File,
    keeper: Option<Keeper>,
}

impl StateDir {
    /// Opens `root`, making it if it is not there; its content survives.
    pub(crate) fn persistent(root: &Path) -> Result<Self, Error> {
        private_dir(root)?;
        let root = root.canonicalize().doing("resolve", root)?;
        Ok(Self {
            _lock: lock(&root)?,
            root,
            keeper: None,
        })
    }

    /// A fresh folder that goes when this value is dropped or this process ends.
    pub(crate) fn ephemeral() -> Result<Self, Error> {
        let parent = std::env::temp_dir();
        let folder = tempfile::Builder::new()
            .prefix("polyvirt-control-plane-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&parent)
            .doing("make a folder in", &parent)?;
        let keeper = Keeper::of(folder.path())?;
        let root = folder.keep();
        Ok(Self {
            _lock: lock(&root)?,
            root,
            keeper: Some(keeper),
        })
    }

    pub(crate) fn is_ephemeral(&self) -> bool {
        self.keeper.is_some()
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn pki(&self) -> PathBuf {
        self.root.join("pki")
    }

    pub(crate) fn etcd_data(&self) -> PathBuf {
        self.root.join("etcd")
    }

    pub(crate) fn log(&self, component: Component) -> PathBuf {
        self.root.join(component.name()).with_extension("log")
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    pub(crate) fn audit_policy(&self) -> PathBuf {
        self.root.join("audit-policy.json")
    }

    /// The ports of the last run.
    pub(crate) fn ports(&self) -> Result<Option<Ports>, Error> {
        let path = self.root.join("ports.json");
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read(&path).doing("read", &path)?;
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|source| Error::Damaged { path, source })
    }

    pub(crate) fn remember_ports(&self, ports: Ports) -> Result<(), Error> {
        let path = self.root.join("ports.json");
        let text = serde_json::to_vec(&ports).map_err(|source| Error::Damaged {
            path: path.clone(),
            source,
        })?;
        write_private(&path, &text)
    }

    /// Forgets the logs of earlier runs, so that an error quotes this one.
    pub(crate) fn clear_logs(&self) -> Result<(), Error> {
        for component in [Component::Etcd, Component::ApiServer] {
            write_private(&self.log(component), b"")?;
        }
        Ok(())
    }
}

/// Makes a folder that only its owner can enter, with its parents.
pub(crate) fn private_dir(path: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .doing("make the folder", path)
}

/// Replaces a file as a whole, readable by its owner only.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<(), Error> {
    let fresh = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options
        .open(&fresh)
        .and_then(|mut file| file.write_all(content));
    written
        .and_then(|()| fs::rename(&fresh, path))
        .doing("write", path)
}

fn lock(root: &Path) -> Result<File, Error> {
    let path = root.join("lock");
    let file = File::create(&path).doing("write", &path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::InUse {
            dir: root.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(source).doing("lock", &path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_user_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = StateDir::persistent(dir.path()).unwrap();
        let refused = StateDir::persistent(dir.path()).unwrap_err();
        assert!(matches!(refused, Error::InUse { .. }), "{refused}");
        drop(first);
        StateDir::persistent(dir.path()).unwrap();
    }

    #[test]
    fn an_ephemeral_folder_is_private_and_goes_with_its_value() {
        let state = StateDir::ephemeral().unwrap();
        let root = state.root().to_owned();
        assert_eq!(
            fs::metadata(&root).unwrap().permissions().mode() & 0o777,
            0o700
        );
        drop(state);
        assert!(!root.exists());
    }

    #[test]
    fn ports_are_remembered_and_damage_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::persistent(dir.path()).unwrap();
        assert_eq!(state.ports().unwrap(), None);
        let ports = Ports {
            etcd: 20_001,
            apiserver: 20_002,
        };
        state.remember_ports(ports).unwrap();
        assert_eq!(state.ports().unwrap(), Some(ports));
        fs::write(dir.path().join("ports.json"), "{").unwrap();
        assert!(
            state
                .ports()
                .unwrap_err()
                .to_string()
                .contains("ports.json is damaged")
        );
    }
}
