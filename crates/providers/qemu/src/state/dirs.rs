//! Folders, who may enter them, and how sockets with long paths are reached.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use polyvirt_contract::{ErrorKind, ProviderError, Result};
use rustix::fs::{FlockOperation, Mode, OFlags};

use super::off_worker;
use crate::errors;
use crate::uuid::Uuid;

/// The folder of everything.
#[derive(Clone, Debug)]
pub(crate) struct StateDir(PathBuf);

impl StateDir {
    /// Makes the folders that are missing.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let dir = Self(path.to_owned());
        for folder in [path.to_owned(), dir.images(), dir.vms()] {
            passable(&folder)
                .map_err(|error| errors::file("Making the state folder", &folder, &error))?;
        }
        Ok(dir)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.0
    }

    pub(crate) fn images(&self) -> PathBuf {
        self.0.join("images")
    }

    pub(crate) fn vms(&self) -> PathBuf {
        self.0.join("vms")
    }

    pub(crate) fn accel(&self) -> PathBuf {
        self.0.join("accel.json")
    }

    pub(crate) fn vm(&self, uuid: Uuid) -> VmDir {
        VmDir(self.vms().join(uuid.to_string()))
    }

    /// Holds the folder for this process. Another one that holds it is an error that passes when that one ends.
    pub(crate) fn lock(&self) -> Result<File> {
        let path = self.0.join("lock");
        let file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| errors::file("Opening the lock", &path, &error))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(in_use(&self.0)),
            Err(error) => Err(errors::file(
                "Locking the state folder",
                &path,
                &error.into(),
            )),
        }
    }

    /// The VMs that have a folder, whole or half made.
    pub(crate) fn list_vms(&self) -> Result<Vec<Uuid>> {
        let folder = self.vms();
        let entries =
            fs::read_dir(&folder).map_err(|error| errors::file("Listing VMs", &folder, &error))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter_map(|name| Uuid::parse(&name)).collect())
    }
}

fn in_use(path: &Path) -> ProviderError {
    let message = format!(
        "The state folder {} is in use by another provider; stop that one, or use another folder",
        path.display()
    );
    ProviderError::new(ErrorKind::Unavailable, message)
}

/// A folder that everybody may pass through and only its owner may list.
fn passable(path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        DirBuilder::new().recursive(true).mode(0o711).create(path)?;
    }
    let mode = fs::metadata(path)?.permissions().mode() & 0o777;
    // A umask may have taken the right to pass through, without which QEMU's user finds no image.
    if mode & 0o111 != 0o111 {
        fs::set_permissions(path, fs::Permissions::from_mode(mode | 0o111))?;
    }
    Ok(())
}

/// The folder of one VM.
#[derive(Clone, Debug)]
pub(crate) struct VmDir(PathBuf);

impl VmDir {
    pub(crate) fn record(&self) -> PathBuf {
        self.0.join("vm.json")
    }

    /// What somebody wrote for the guest's first boot.
    pub(crate) fn documents(&self) -> PathBuf {
        self.0.join("seed.json")
    }

    pub(crate) fn console_log(&self) -> PathBuf {
        self.0.join("console.log")
    }

    pub(crate) fn qemu_log(&self) -> PathBuf {
        self.0.join("qemu.log")
    }

    /// QEMU's working folder.
    pub(crate) fn run(&self) -> PathBuf {
        self.0.join("run")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.run().join(name)
    }

    /// Makes the VM's own folder.
    pub(crate) fn create(&self) -> Result<()> {
        off_worker(|| passable(&self.0))
            .map_err(|error| errors::file("Making the VM's folder", &self.0, &error))
    }

    /// Removes the folder and all that is in it; the record goes last, so that a half removed VM is still known.
    pub(crate) fn remove(&self) -> Result<()> {
        let failed = |error: io::Error| errors::file("Removing the VM's folder", &self.0, &error);
        let run = self.run();
        match off_worker(|| fs::remove_dir_all(&run)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        match off_worker(|| fs::remove_dir_all(&self.0)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(()),
        }
    }

    /// An open handle of the working folder.
    pub(crate) fn open_run(&self) -> Result<OpenDir> {
        OpenDir::open(&self.run())
    }
}

/// A folder held open: paths below it are short, however deep it lies, and need no right to pass its parents.
#[derive(Debug)]
pub(crate) struct OpenDir(File);

impl OpenDir {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| errors::file("Opening a folder", path, &error.into()))?;
        Ok(Self(File::from(fd)))
    }

    /// The folder, for this process and a child that has not yet begun its program.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_provider_holds_a_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateDir::open(&folder.path().join("a/b")).expect("made");
        let held = state.lock().expect("free");
        let error = state.lock().expect_err("held");
        assert_eq!(error.kind, ErrorKind::Unavailable);
        drop(held);
        state.lock().expect("free again");
    }

    #[test]
    fn only_folders_of_vms_are_vms() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateDir::open(folder.path()).expect("made");
        let uuid = Uuid::parse("0a1b2c3d-0000-4000-8000-00000000000f").expect("one");
        state.vm(uuid).create().expect("made");
        fs::create_dir(state.vms().join("lost+found")).expect("made");
        assert_eq!(state.list_vms().expect("listed"), [uuid]);
        state.vm(uuid).remove().expect("removed");
        state.vm(uuid).remove().expect("removed already");
        assert_eq!(state.list_vms().expect("listed"), []);
    }
}
