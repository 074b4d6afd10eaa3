//! A libvirtd that nobody else knows: own folders, own sockets, no systemd.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::also::Also;

/// How long the daemon may take on a busy machine. The first one asks QEMU what it can do, which is kept for the others.
const PATIENCE: Duration = Duration::from_secs(90);

/// A daemon and its folders.
pub struct Host {
    folder: tempfile::TempDir,
    /// What is `run` there. Like `/run` of a real host it is memory: libvirt waits for the disk each time it writes down there
    /// how far a domain is, which a guest that is handed over would pay for.
    run: tempfile::TempDir,
    settings: String,
    /// More lines for QEMU's driver.
    driver: String,
    network: Network,
    also: Also,
}

/// Whose network cards the daemon sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// Those of this machine.
    Shared,
    /// None but those that it makes.
    Own,
    /// Those of a name space that is there. The host is called like it.
    Named(String),
}

impl Host {
    /// Starts one with a storage pool `default`.
    pub fn start() -> Self {
        Self::with(QUIET)
    }

    /// The same with other lines in its configuration than those by which it is quiet.
    pub fn with(settings: &str) -> Self {
        Self::made(settings, Network::Shared)
    }

    /// One in a name space that is there, which calls itself like that, with other certificates than this machine has.
    pub fn within(name_space: &str, uuid: &str, certificates: &[(&str, String)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let pki = folder.path().join("pki");
        std::fs::create_dir_all(&pki).expect("made");
        for (name, pem) in certificates {
            std::fs::write(pki.join(name), pem).expect("written");
        }
        let pki = pki.display();
        Self {
            settings: format!("{QUIET}\nhost_uuid = \"{uuid}\""),
            driver: format!(
                "migration_port_min = 49152\nmigration_port_max = 49159\nmigrate_tls_x509_cert_dir = \"{pki}\"\nmigrate_tls_x509_verify = 1\n"
            ),
            network: Network::Named(name_space.to_owned()),
            folder,
            run: memory(),
            also: Also::Nothing,
        }
        .begun()
    }

    /// One with a network name space of its own, in which it may have bridges and addresses.
    pub fn apart() -> Self {
        Self::made(QUIET, Network::Own)
    }

    fn made(settings: &str, network: Network) -> Self {
        Self::having(settings, network, Also::Nothing)
    }

    /// One that has more than others.
    pub fn having(settings: &str, network: Network, also: Also) -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            run: memory(),
            settings: settings.to_owned(),
            driver: String::new(),
            network,
            also,
        }
        .begun()
    }

    /// Runs a command where the daemon runs.
    pub fn inside(&self, command: &[&str]) {
        let pid = std::fs::read_to_string(self.path("libvirtd.pid")).expect("it runs");
        let ran = Command::new("nsenter")
            .args(["--mount", "--target", pid.trim()])
            .args(command)
            .status();
        assert!(
            ran.expect("util-linux is installed").success(),
            "{command:?}"
        );
    }

    fn begun(self) -> Self {
        self.prepare();
        self.run();
        self.pool("default", &self.path("pool"));
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn prepare(&self) {
        for name in ["etc", "lib", "log", "pool", "sasl", "small"] {
            std::fs::create_dir_all(self.path(name)).expect("made");
        }
        std::os::unix::fs::symlink(self.run.path(), self.path("run")).expect("linked");
        std::fs::create_dir_all(cache()).expect("made");
        let write = |name: &str, text: String| {
            std::fs::write(self.path(name), text).expect("written");
        };
        write("etc/qemu.conf", format!("{QEMU_CONF}{}", self.driver));
        let settings = &self.settings;
        write("etc/libvirtd.conf", format!("{LIBVIRTD_CONF}{settings}\n"));
        let binds = [
            ("etc", "/etc/libvirt"),
            ("lib", "/var/lib/libvirt"),
            ("run", "/run/libvirt"),
            ("log", "/var/log/libvirt"),
            ("sasl", "/etc/sasl2"),
        ];
        let bind = |(from, to): &(&str, &str)| {
            let from = self.path(from);
            format!("mkdir -p {to}; mount --bind {} {to}", from.display())
        };
        let mounts = binds.iter().map(bind).collect::<Vec<_>>().join("\n");
        let (cache, pid) = (cache(), self.path("libvirtd.pid"));
        let small = self.path("small");
        let name = match &self.network {
            Network::Named(name) => format!("hostname {name}\n"),
            Network::Shared | Network::Own => String::new(),
        };
        let also = self.also.lines(self.folder.path());
        write(
            "start.sh",
            format!(
                "set -e\nip link set lo up\n{name}mount --make-rprivate /\n{mounts}\n{also}mkdir -p /var/cache/libvirt; mount --bind {} /var/cache/libvirt\nmount -t tmpfs -o size=24m tmpfs {}\nexec libvirtd --listen --pid-file {}\n",
                cache.display(),
                small.display(),
                pid.display()
            ),
        );
    }

    /// Starts the daemon, for the first time or again.
    pub fn run(&self) {
        assert!(
            Path::new("/usr/sbin/libvirtd").exists() && Path::new("/usr/bin/virsh").exists(),
            "no libvirtd or virsh; run hack/packages.sh"
        );
        let log = std::fs::File::create(self.path("out.log")).expect("a log");
        let _ = std::fs::remove_file(self.path("run/libvirt-sock"));
        let network: &[&str] = match &self.network {
            Network::Shared => &["unshare"],
            Network::Own => &["unshare", "--net"],
            Network::Named(name) => &["ip", "netns", "exec", name, "unshare", "--uts"],
        };
        let mut daemon = Command::new(network[0])
            .args(&network[1..])
            .args([
                "--mount",
                "--kill-child=SIGKILL",
                "--fork",
                "setsid",
                "bash",
            ])
            .arg(self.path("start.sh"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("unshare is installed and we are root");
        // It ends when somebody kills it, which is when it is waited for.
        std::thread::spawn(move || daemon.wait());
        let deadline = Instant::now() + PATIENCE;
        while !self.answers() {
            let said = std::fs::read_to_string(self.path("out.log")).unwrap_or_default();
            assert!(
                Instant::now() < deadline,
                "libvirtd does not come up:\n{said}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn answers(&self) -> bool {
        self.socket().exists() && self.try_virsh(&["list"]).is_ok()
    }

    pub fn socket(&self) -> PathBuf {
        self.path("run/libvirt-sock")
    }

    /// The endpoint of the socket.
    pub fn url(&self) -> String {
        format!(
            "qemu+unix:///system?socket={}&accel=tcg&imageHosts=any&scratch={}",
            self.socket().display(),
            self.folder.path().display()
        )
    }

    /// Ends the daemon as a crash does. Guests go on.
    pub fn kill(&self) {
        kill(&self.path("libvirtd.pid"));
        let deadline = Instant::now() + PATIENCE;
        while self.try_virsh(&["list"]).is_ok() {
            assert!(Instant::now() < deadline, "libvirtd does not die");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Does what an administrator has to after libvirt 11.3 was killed between writing down that a domain starts and starting
    /// its QEMU: it then waits for that process for ever, in each of its lives, and nobody can ask it for anything of the domain.
    pub fn forget_unborn(&self) {
        let files = std::fs::read_dir(self.path("run/qemu"))
            .into_iter()
            .flatten();
        for file in files.flatten().map(|entry| entry.path()) {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if text.contains("<domstatus") && text.contains("pid='0'") {
                println!("libvirt would wait for ever: {}", file.display());
                std::fs::remove_file(&file).expect("removed");
            }
        }
    }

    /// Does what an administrator has to after libvirt 11.3 has locked itself out: where a connection ends while bytes of a
    /// stream are still waiting to be written, the thread that serves all others takes a lock that it has already
    /// (`daemonStreamEvent`, `virNetServerClientClose`).
    pub fn restart_if_stuck(&self) {
        let answers = Command::new("timeout")
            .args(["10", "virsh", "-q", "-c", &self.plain_url(), "list"])
            .stdout(Stdio::null())
            .status();
        if !answers.expect("timeout is installed").success() {
            println!("libvirt has locked itself out");
            self.kill();
            self.run();
        }
    }

    /// The endpoint in words of libvirt's own tools.
    pub fn plain_url(&self) -> String {
        format!("qemu+unix:///system?socket={}", self.socket().display())
    }

    pub fn try_virsh(&self, arguments: &[&str]) -> Result<String, String> {
        let socket = self.plain_url();
        let output = Command::new("virsh")
            .args(["-q", "-c", &socket])
            .args(arguments)
            .output()
            .expect("virsh is installed; run hack/packages.sh");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr))
        }
    }

    /// What libvirt's own tool says: the oracle of these tests.
    pub fn virsh(&self, arguments: &[&str]) -> String {
        self.try_virsh(arguments)
            .unwrap_or_else(|error| panic!("virsh {arguments:?}: {error}"))
    }

    /// Lets `virsh` carry out a file of commands in one process.
    pub fn shell(&self, commands: &Path) {
        let file = std::fs::File::open(commands).expect("readable");
        let socket = self.plain_url();
        let mut virsh = Command::new("virsh");
        virsh
            .args(["-q", "-c", &socket])
            .stdin(file)
            .stdout(Stdio::null());
        assert!(virsh.status().expect("virsh is installed").success());
    }

    /// A storage pool at a folder.
    pub fn pool(&self, name: &str, folder: &Path) {
        let folder = folder.display().to_string();
        self.virsh(&["pool-define-as", name, "dir", "--target", &folder]);
        self.virsh(&["pool-start", name]);
        self.virsh(&["pool-autostart", name]);
    }

    /// Volumes of a pool.
    pub fn volumes(&self, pool: &str) -> Vec<String> {
        let listed = self.virsh(&["vol-list", pool]);
        let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
        listed.lines().filter_map(first).collect()
    }
}

/// A test that failed leaves no process behind.
fn memory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    tempfile::tempdir_in(memory).expect("/dev/shm is memory that can be written to")
}

impl Drop for Host {
    fn drop(&mut self) {
        kill(&self.path("libvirtd.pid"));
        let folders = ["run/qemu", "run/network"].map(|name| std::fs::read_dir(self.path(name)));
        let files = folders.into_iter().flatten().flatten();
        for file in files.flatten().map(|entry| entry.path()) {
            if file.extension().is_some_and(|name| name == "pid") {
                kill(&file);
            }
        }
        self.also.end(self.folder.path());
    }
}

pub fn kill(pid_file: &Path) {
    let text = std::fs::read_to_string(pid_file).unwrap_or_default();
    let pid = text.trim().parse().ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// What QEMU can do takes seconds to find out, and is the same for all daemons of this machine.
fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("libvirt-cache")
}

const QEMU_CONF: &str = r#"user = "root"
group = "root"
security_driver = "none"
namespaces = []
cgroup_controllers = []
dynamic_ownership = 0
remember_owner = 0
stdio_handler = "file"
max_core = 0
"#;

/// Without more settings nothing listens but the socket.
pub const QUIET: &str = "listen_tls = 0\nlisten_tcp = 0";

const LIBVIRTD_CONF: &str = r#"auth_unix_rw = "none"
unix_sock_rw_perms = "0700"
host_uuid_source = "machine-id"
log_level = 3
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
"#;
