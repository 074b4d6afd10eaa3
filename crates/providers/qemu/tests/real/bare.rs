//! QEMU alone, without us, in the same two name spaces and over the same wire: what a move costs at least.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use polyvirt_provider_lab::wire::Wire;
use serde_json::{Value, json};

use crate::hosts::BARE_PORT;
use crate::lab::guest_image;

const PATIENCE: Duration = Duration::from_secs(300);

/// A process, and its monitor.
struct Process {
    child: Child,
    reads: BufReader<UnixStream>,
    writes: UnixStream,
    events: Vec<Value>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connected(path: &Path) -> UnixStream {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Ok(socket) = UnixStream::connect(path) {
            return socket;
        }
        assert!(Instant::now() < deadline, "QEMU does not come up");
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Process {
    /// One that boots the disk, or one that waits for a guest.
    fn start(folder: &Path, space: &str, number: usize) -> Self {
        let monitor = folder.join(format!("{number}.qmp"));
        let path = |name: &str| {
            folder
                .join(format!("{number}.{name}"))
                .display()
                .to_string()
        };
        let disk = folder.join("disk.qcow2").display().to_string();
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", space, "qemu-system-x86_64"])
            .args(
                "-machine q35 -accel tcg -cpu max -m 192 -display none -nodefaults -vga std"
                    .split(' '),
            )
            .args(
                "-netdev user,id=n -device virtio-net-pci,netdev=n,romfile= -device virtio-rng-pci"
                    .split(' '),
            )
            .args(["-drive", &format!("if=virtio,file={disk},file.locking=off")])
            .args([
                "-chardev",
                &format!(
                    "socket,id=s,server=on,wait=off,path={},logfile={}",
                    path("serial"),
                    path("log")
                ),
            ])
            .args(["-serial", "chardev:s", "-device", "virtio-serial-pci"])
            .args([
                "-chardev",
                &format!("socket,id=a,server=on,wait=off,path={}", path("agent")),
            ])
            .args([
                "-device",
                "virtserialport,chardev=a,name=org.qemu.guest_agent.0",
            ])
            .args([
                "-qmp",
                &format!("unix:{},server=on,wait=off", monitor.display()),
            ]);
        if number > 0 {
            command.args(["-incoming", "defer"]);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("QEMU is installed; run hack/packages.sh");
        let socket = connected(&monitor);
        let reads = BufReader::new(socket.try_clone().expect("cloned"));
        let mut process = Self {
            child,
            reads,
            writes: socket,
            events: Vec::new(),
        };
        process.line();
        process.ask("qmp_capabilities", &json!({}));
        process
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.reads.read_line(&mut line).expect("read");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    fn ask(&mut self, command: &str, arguments: &Value) -> Value {
        let line = json!({"execute": command, "arguments": arguments});
        writeln!(self.writes, "{line}").expect("written");
        loop {
            let mut answer = self.line();
            if answer.get("event").is_some() {
                self.events.push(answer);
            } else {
                assert!(answer.get("error").is_none(), "{command}: {answer}");
                return answer["return"].take();
            }
        }
    }

    /// When an event happened last, in microseconds.
    fn at(&mut self, event: &str) -> Option<i64> {
        self.ask("query-status", &json!({}));
        let found = self.events.iter().rev().find(|e| e["event"] == event)?;
        let time = &found["timestamp"];
        Some(time["seconds"].as_i64()? * 1_000_000 + time["microseconds"].as_i64()?)
    }
}

/// A guest on QEMU alone.
pub struct Bare {
    folder: tempfile::TempDir,
    runs: Process,
    count: usize,
}

impl Bare {
    pub fn start(wire: &Wire) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::copy(guest_image(), folder.path().join("disk.qcow2")).expect("copied");
        let runs = Process::start(folder.path(), wire.name(0), 0);
        Self {
            folder,
            runs,
            count: 0,
        }
    }

    /// Waits until the guest is up, and has it do something.
    pub fn is_up_and_does(&self, script: &str) {
        let log: PathBuf = self.folder.path().join("0.log");
        let deadline = Instant::now() + PATIENCE;
        while !std::fs::read_to_string(&log).is_ok_and(|text| text.contains("agent started")) {
            assert!(Instant::now() < deadline, "the guest does not come up");
            std::thread::sleep(Duration::from_millis(200));
        }
        let mut agent = connected(&self.folder.path().join("0.agent"));
        let asked = json!({"execute": "guest-exec", "arguments": {"path": "/bin/sh", "arg": ["-c", script]}});
        writeln!(agent, "{asked}").expect("written");
        let mut answer = String::new();
        BufReader::new(agent).read_line(&mut answer).expect("read");
        assert!(answer.contains("pid"), "{answer}");
    }

    /// Moves the guest to the other host. How long it stood still.
    pub fn migrate(&mut self, wire: &Wire) -> Duration {
        let (from, to) = (self.count % 2, (self.count + 1) % 2);
        self.count += 1;
        let mut target = Process::start(self.folder.path(), wire.name(to), self.count);
        let uri = |address: &str| json!({"uri": format!("tcp:{address}:{BARE_PORT}")});
        target.ask("migrate-incoming", &uri(&wire.inside(to)));
        self.runs.ask("migrate", &uri(&wire.outside(from)));
        let deadline = Instant::now() + PATIENCE;
        let resumed = loop {
            if let Some(at) = target.at("RESUME") {
                break at;
            }
            assert!(Instant::now() < deadline, "it does not arrive");
            std::thread::sleep(Duration::from_millis(20));
        };
        let stopped = self.runs.at("STOP").expect("it stood still");
        self.runs = target;
        Duration::from_micros(u64::try_from(resumed - stopped).expect("later"))
    }
}
