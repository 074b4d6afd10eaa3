//! What a libvirtd of our own needs in its folder: settings, two storage pools, and a script that starts it. Pure.

use std::path::{Path, PathBuf};

/// Who runs the daemon. libvirt asks the same question, and has other places for each answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Root: the daemon of the system, with folders of its own in a mount name space of its own.
    Root,
    /// Somebody else: a daemon of the session.
    User,
}

impl Who {
    /// Who we are.
    pub fn we_are() -> Self {
        if rustix::process::geteuid().is_root() {
            Self::Root
        } else {
            Self::User
        }
    }

    const fn driver(self) -> &'static str {
        match self {
            Self::Root => "system",
            Self::User => "session",
        }
    }
}

/// What guests can run with on this machine, as it was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kvm {
    /// The daemon may find it.
    Works,
    /// It is there and does not work for guests, or is not there.
    Useless,
}

/// The folders of the daemon, and where root's daemon looks for them.
const PLACES: [(&str, &str); 5] = [
    ("etc", "/etc/libvirt"),
    ("lib", "/var/lib/libvirt"),
    ("run", "/run/libvirt"),
    ("log", "/var/log/libvirt"),
    ("cache", "/var/cache/libvirt"),
];
const LIBVIRTD_CONF: &str = "auth_unix_rw = \"none\"\nunix_sock_rw_perms = \"0700\"\n";
/// Guests of root run as the user that the package made for them. Nothing here needs cgroups, systemd or another daemon.
const QEMU_CONF: &str = "security_driver = \"none\"\nnamespaces = []\ncgroup_controllers = []\nremember_owner = 0\nstdio_handler = \"file\"\nmax_core = 0\n";

/// A libvirtd of our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    folder: PathBuf,
    images: PathBuf,
    who: Who,
}

impl Home {
    /// The one in this folder of `polyvirt up`.
    pub fn of(folder: &Path, who: Who) -> Self {
        Self {
            folder: folder.join("libvirt"),
            images: folder.join("images"),
            who,
        }
    }

    /// Whether it was ever made.
    pub fn exists(&self) -> bool {
        self.folder.is_dir()
    }

    fn run(&self) -> PathBuf {
        match self.who {
            Who::Root => self.folder.join("run"),
            Who::User => self.folder.join("run/libvirt"),
        }
    }

    fn etc(&self) -> PathBuf {
        match self.who {
            Who::Root => self.folder.join("etc"),
            Who::User => self.folder.join("etc/libvirt"),
        }
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.run().join("libvirt-sock")
    }

    /// The endpoint of a Provider.
    pub fn endpoint(&self, accel: &str) -> String {
        let (driver, socket) = (self.who.driver(), self.socket());
        let socket = socket.display();
        format!("qemu+unix:///{driver}?socket={socket}&accel={accel}")
    }

    /// Folders that must be there. Guests of root pass through them and cannot list them.
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut all = vec![self.folder.clone()];
        all.extend(PLACES.iter().map(|(name, _)| self.folder.join(name)));
        all.extend([
            self.pool(),
            self.run(),
            self.etc().join("storage/autostart"),
        ]);
        all.push(self.images.clone());
        all
    }

    fn pool(&self) -> PathBuf {
        self.folder.join("pool")
    }

    /// Files that must be there, with what is in them.
    pub fn files(&self, kvm: Kvm) -> Vec<(PathBuf, String)> {
        let mut all = vec![
            (self.etc().join("libvirtd.conf"), LIBVIRTD_CONF.to_owned()),
            (self.etc().join("qemu.conf"), QEMU_CONF.to_owned()),
            (self.script(), self.start(kvm)),
        ];
        for (name, folder) in [("default", self.pool()), ("images", self.images.clone())] {
            let path = self.etc().join(format!("storage/{name}.xml"));
            all.push((path, pool(name, &folder)));
        }
        all
    }

    /// Links by which the daemon starts its pools: where they are, and where they lead.
    pub fn links(&self) -> Vec<(PathBuf, PathBuf)> {
        let seen = match self.who {
            Who::Root => PathBuf::from("/etc/libvirt"),
            Who::User => self.etc(),
        };
        let link = |name: &str| {
            let link = self.etc().join(format!("storage/autostart/{name}.xml"));
            (link, seen.join(format!("storage/{name}.xml")))
        };
        ["default", "images"].map(link).to_vec()
    }

    /// The script that becomes the daemon.
    pub fn script(&self) -> PathBuf {
        self.folder.join("start.sh")
    }

    fn start(&self, kvm: Kvm) -> String {
        let place = |name: &str| quoted(&self.folder.join(name));
        match self.who {
            Who::Root => {
                let binds = PLACES.map(|(name, to)| {
                    format!("mkdir -p {to}\nmount --bind {} {to}\n", place(name))
                });
                let binds = binds.concat() + &self.hides(kvm);
                let pid = place("libvirtd.pid");
                // The usual place for it is that of the system's own daemon.
                format!("set -e\nmount --make-rprivate /\n{binds}exec libvirtd --pid-file {pid}\n")
            }
            Who::User => format!(
                "export XDG_RUNTIME_DIR={} XDG_CONFIG_HOME={} XDG_CACHE_HOME={} XDG_DATA_HOME={}\nexec libvirtd\n",
                place("run"),
                place("etc"),
                place("cache"),
                place("lib"),
            ),
        }
    }

    /// A device that QEMU can open and the user of guests cannot makes libvirt ask QEMU anew, for seconds, at every step what it
    /// can do: it believes neither answer. What does not work is not shown to it.
    fn hides(&self, kvm: Kvm) -> String {
        if kvm == Kvm::Works {
            return String::new();
        }
        let nothing = quoted(&self.folder.join("no-kvm"));
        format!(
            "if [ -e /dev/kvm ]; then\n  : > {nothing}; chmod 0 {nothing}\n  mount --bind {nothing} /dev/kvm\nfi\n"
        )
    }

    /// The words after which the script runs.
    pub const fn runner(&self) -> &'static [&'static str] {
        match self.who {
            Who::Root => &["unshare", "--mount", "sh"],
            Who::User => &["sh"],
        }
    }
}

/// As one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn pool(name: &str, folder: &Path) -> String {
    let folder = folder.display().to_string();
    let folder = folder.replace('&', "&amp;").replace('<', "&lt;");
    format!("<pool type='dir'><name>{name}</name><target><path>{folder}</path></target></pool>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_has_the_systems_daemon_in_its_own_folders() {
        let home = Home::of(Path::new("/var/lib/it's"), Who::Root);
        assert_eq!(
            home.endpoint("tcg"),
            "qemu+unix:///system?socket=/var/lib/it's/libvirt/run/libvirt-sock&accel=tcg"
        );
        let start = home.start(Kvm::Works);
        let bind = r"mount --bind '/var/lib/it'\''s/libvirt/run' /run/libvirt";
        assert!(start.contains(bind), "{start}");
        assert_eq!(
            home.links()[0].1,
            Path::new("/etc/libvirt/storage/default.xml")
        );
    }

    #[test]
    fn a_device_that_does_not_work_is_not_shown() {
        let home = Home::of(Path::new("/var/lib/a"), Who::Root);
        assert!(!home.start(Kvm::Works).contains("kvm"));
        let start = home.start(Kvm::Useless);
        let hides = "mount --bind '/var/lib/a/libvirt/no-kvm' /dev/kvm\nfi\nexec libvirtd";
        assert!(start.contains(hides), "{start}");
    }

    #[test]
    fn others_have_a_session_and_touch_nothing_of_the_system() {
        let home = Home::of(Path::new("/home/a"), Who::User);
        assert_eq!(
            home.endpoint("ask"),
            "qemu+unix:///session?socket=/home/a/libvirt/run/libvirt/libvirt-sock&accel=ask"
        );
        assert!(!home.start(Kvm::Useless).contains("mount"));
        let inside = |path: &PathBuf| path.starts_with("/home/a");
        assert!(home.files(Kvm::Works).iter().all(|(path, _)| inside(path)));
        assert!(home.links().iter().all(|(at, to)| inside(at) && inside(to)));
    }
}
