//! Who QEMU runs as.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::Path;

use polyvirt_contract::{ProviderError, Result};
use rustix::fs::{Access, Mode, OFlags};

use crate::errors;

/// The user that QEMU gets if there is one.
const OWN_USER: &str = "polyvirt-qemu";
/// The user that QEMU gets otherwise.
const FALLBACK: &str = "nobody";

/// A user without privileges, or ourselves if we have none either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunAs {
    /// The provider is no root: QEMU runs as the same user.
    Ourselves,
    /// The provider is root and gives its rights up for QEMU.
    User { name: String, uid: u32, gid: u32 },
}

impl RunAs {
    /// Chooses the user; a configured one must exist, and must not be root.
    pub(crate) fn choose(wanted: Option<&str>) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::Ourselves);
        }
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        match wanted {
            Some(name) => user(&users, name).ok_or_else(|| no_user(name)),
            None => user(&users, OWN_USER)
                .or_else(|| user(&users, FALLBACK))
                .ok_or_else(|| no_user(OWN_USER)),
        }
    }

    /// A command that will run as this user.
    pub(crate) fn command(&self, program: &Path) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("LC_ALL", "C");
        if let Self::User { uid, gid, .. } = self {
            command.uid(*uid).gid(*gid);
        }
        command
    }

    /// The same, in the group that may use the processor's virtualization.
    pub(crate) fn accelerated(&self, program: &Path) -> tokio::process::Command {
        let mut command = self.command(program);
        if matches!(self, Self::User { .. })
            && let Ok(device) = fs::metadata("/dev/kvm")
            && device.mode() & 0o060 == 0o060
            && device.gid() != 0
        {
            command.gid(device.gid());
        }
        command
    }

    /// Gives the file or folder to the user, with these rights.
    pub(crate) fn give(&self, path: &Path, mode: u32) -> Result<()> {
        let given = open(path).and_then(|file| self.give_open(&file, mode));
        given.map_err(|error| errors::file("Giving a file to QEMU's user", path, &error))
    }

    /// The same for a file that is open.
    pub(crate) fn give_open(&self, file: &File, mode: u32) -> std::io::Result<()> {
        if let Self::User { uid, gid, .. } = self {
            fchown(file, Some(*uid), Some(*gid))?;
        }
        file.set_permissions(Permissions::from_mode(mode))
    }

    /// Takes the file back, so that the user can read it at most.
    pub(crate) fn take_back(&self, path: &Path, mode: u32) -> Result<()> {
        let taken = open(path).and_then(|file| {
            if self.is_root() {
                fchown(&file, Some(0), Some(0))?;
            }
            file.set_permissions(Permissions::from_mode(mode))
        });
        taken.map_err(|error| errors::file("Taking a file back", path, &error))
    }

    /// The user's name, for people.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Ourselves => "the provider's own user",
            Self::User { name, .. } => name,
        }
    }

    /// Whether the provider may make network devices.
    pub(crate) fn is_root(&self) -> bool {
        matches!(self, Self::User { .. })
    }

    /// Whether /dev/kvm is there at all.
    pub(crate) fn sees_kvm() -> bool {
        rustix::fs::access("/dev/kvm", Access::EXISTS).is_ok()
    }
}

/// Opens the file itself and never what a link points to: in folders of QEMU's user anything may lie.
fn open(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

fn user(users: &str, wanted: &str) -> Option<RunAs> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| *name == wanted)?;
        let uid: u32 = fields.nth(1)?.parse().ok()?;
        let gid: u32 = fields.next()?.parse().ok()?;
        (uid != 0).then(|| RunAs::User {
            name: name.to_owned(),
            uid,
            gid,
        })
    })
}

fn no_user(name: &str) -> ProviderError {
    let message = format!(
        "There is no user {name} without privileges for QEMU to run as; create it (useradd --system {name}), or name another by user= in the endpoint"
    );
    ProviderError::invalid("spec.endpoint", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_never_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, b"").expect("written");
        fs::set_permissions(&target, Permissions::from_mode(0o640)).expect("set");
        std::os::unix::fs::symlink(&target, &link).expect("linked");
        assert!(RunAs::Ourselves.take_back(&link, 0o444).is_err());
        assert!(RunAs::Ourselves.give(&link, 0o600).is_err());
        let mode = fs::metadata(&target).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        RunAs::Ourselves.give(&target, 0o600).expect("a file");
    }

    #[test]
    fn users_are_found_and_root_is_none() {
        let users = "root:x:0:0:root:/root:/bin/sh\nvm:x:107:108::/:/bin/false\n";
        let found = user(users, "vm").expect("there");
        let (uid, gid) = match &found {
            RunAs::User { uid, gid, .. } => (*uid, *gid),
            RunAs::Ourselves => (0, 0),
        };
        assert_eq!((uid, gid), (107, 108));
        assert_eq!(found.name(), "vm");
        assert_eq!(user(users, "root"), None);
        assert_eq!(user(users, "v"), None);
    }
}
