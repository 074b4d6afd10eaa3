//! QEMU alone, without libvirt and without us: what a move costs at least. Between the same name spaces, over the same wire, with
//! the devices that our guests have.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use polyvirt_provider_lab::wire::Wire;

use crate::lab::guest_image;

const PATIENCE: Duration = Duration::from_secs(300);
/// Ports of the wire that libvirt, which begins with the first, does not come to.
const MEMORY_PORT: u16 = 49159;
const DISK_PORT: u16 = 49158;
/// As many as our guests have.
const ROOT_PORTS: usize = 16;
const DISK: &str = "disk";
const COPY: &str = "copy";

/// Where the disk is for the two processes of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    Shared,
    /// The target gets a copy.
    Apart,
}

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

/// What a process begins with.
struct Beginning<'a> {
    folder: &'a Path,
    name_space: &'a str,
    number: usize,
    disk: PathBuf,
    storage: Storage,
    /// Waits for a guest, instead of booting the disk.
    incoming: bool,
}

impl Beginning<'_> {
    fn file(&self, end: &str) -> String {
        let number = self.number;
        self.folder
            .join(format!("{number}.{end}"))
            .display()
            .to_string()
    }

    fn command(&self) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", self.name_space, "qemu-system-x86_64"])
            .args("-machine pc-q35-10.0,usb=off,memory-backend=pc.ram -accel tcg -cpu max -m 192 -nodefaults -no-user-config".split(' '))
            .args(["-object", "memory-backend-ram,id=pc.ram,size=192M"]);
        for port in 0..ROOT_PORTS {
            let (slot, function) = (2 + port / 8, port % 8);
            command.args(["-device", &format!("pcie-root-port,id=pci.{number},chassis={number},port={port},bus=pcie.0,multifunction=on,addr={slot:#x}.{function}", number = port + 1)]);
        }
        self.hardware(&mut command);
        command.args([
            "-qmp",
            &format!("unix:{},server=on,wait=off", self.file("qmp")),
        ]);
        if self.incoming {
            command.args(["-incoming", "defer"]);
        }
        if self.incoming && self.storage == Storage::Apart {
            // The disk is free for the guest when the copy has let go of it.
            command.arg("-S");
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit());
        command
    }

    /// What our guests have, each where libvirt puts it, so that both load the same.
    fn hardware(&self, command: &mut Command) {
        let (disk, seed) = (self.disk.display(), self.folder.join("seed.img"));
        std::fs::write(&seed, vec![0; 1 << 20]).expect("written");
        let socket = |end: &str| format!("server=on,wait=off,path={}", self.file(end));
        let all = [
            "-device virtio-serial-pci,id=serials,bus=pci.2".to_owned(),
            format!("-chardev socket,id=agent,{}", socket("agent")),
            "-device virtserialport,bus=serials.0,chardev=agent,name=org.qemu.guest_agent.0".to_owned(),
            format!("-blockdev driver=qcow2,node-name={DISK},file.driver=file,file.locking=off,file.filename={disk}"),
            format!("-device virtio-blk-pci,drive={DISK},bus=pci.3"),
            format!("-blockdev driver=raw,node-name=seed,read-only=on,file.driver=file,file.filename={}", seed.display()),
            "-device virtio-blk-pci,drive=seed,bus=pci.4".to_owned(),
            "-netdev user,id=n -device virtio-net-pci,netdev=n,bus=pci.1".to_owned(),
            format!("-chardev socket,id=s,logfile={},{} -serial chardev:s", self.file("log"), socket("serial")),
            format!("-vnc unix:{} -device VGA,vgamem_mb=16,bus=pcie.0,addr=0x1", self.file("vnc")),
            "-device virtio-balloon-pci,bus=pci.5".to_owned(),
            "-object rng-random,id=rng,filename=/dev/urandom -device virtio-rng-pci,rng=rng,bus=pci.6".to_owned(),
        ];
        command.args(all.iter().flat_map(|line| line.split(' ')));
    }

    fn start(&self) -> Process {
        let child = self
            .command()
            .spawn()
            .expect("ip and QEMU are installed; run hack/packages.sh");
        let deadline = Instant::now() + PATIENCE;
        let socket = loop {
            if let Ok(socket) = UnixStream::connect(self.file("qmp")) {
                break socket;
            }
            assert!(Instant::now() < deadline, "QEMU does not come up");
            std::thread::sleep(Duration::from_millis(50));
        };
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        let reads = BufReader::new(socket.try_clone().expect("cloned"));
        let mut process = Process {
            child,
            reads,
            writes: socket,
            events: Vec::new(),
        };
        process.line();
        process.ask("qmp_capabilities", &json!({}));
        process
    }
}

impl Process {
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

    /// Waits for an event, which may have come already. When it happened, in microseconds.
    fn until(&mut self, event: &str, meant: impl Fn(&Value) -> bool) -> i64 {
        loop {
            let found = self
                .events
                .iter()
                .find(|e| e["event"] == event && meant(&e["data"]));
            if let Some(time) = found.map(|e| &e["timestamp"]) {
                let number = |key: &str| time[key].as_i64().expect("a number");
                return number("seconds") * 1_000_000 + number("microseconds");
            }
            let event = self.line();
            self.events.push(event);
        }
    }

    fn can(&mut self, capability: &str) {
        let on = json!({"capability": capability, "state": true});
        self.ask("migrate-set-capabilities", &json!({"capabilities": [on]}));
    }
}

fn at(host: &str, port: u16) -> Value {
    json!({"type": "inet", "host": host, "port": port.to_string()})
}

/// A guest on QEMU alone.
pub struct Bare<'a> {
    folder: tempfile::TempDir,
    wire: &'a Wire,
    storage: Storage,
    runs: Process,
    moves: usize,
}

impl<'a> Bare<'a> {
    /// Boots it at the first end of the wire.
    pub fn start(wire: &'a Wire, storage: Storage) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = folder.path().join("0.qcow2");
        std::fs::copy(guest_image(), &disk).expect("copied");
        let beginning = Beginning {
            folder: folder.path(),
            name_space: wire.name(0),
            number: 0,
            disk,
            storage,
            incoming: false,
        };
        let runs = beginning.start();
        Self {
            folder,
            wire,
            storage,
            runs,
            moves: 0,
        }
    }

    /// What all command lines of its processes have, and no others.
    pub fn mark(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// Waits until the guest is up, and has it do that on its console.
    pub fn does(&self, script: &str) {
        let log = self.folder.path().join("0.log");
        let deadline = Instant::now() + PATIENCE;
        while !std::fs::read_to_string(&log).is_ok_and(|text| text.contains("GUEST ready")) {
            assert!(Instant::now() < deadline, "the guest does not come up");
            std::thread::sleep(Duration::from_millis(200));
        }
        let mut console =
            UnixStream::connect(self.folder.path().join("0.serial")).expect("a console");
        // A console that nobody reads takes no more after a while.
        let mut reads = console.try_clone().expect("cloned");
        std::thread::spawn(move || std::io::copy(&mut reads, &mut std::io::sink()));
        // The echo of what is typed has the quotes, what is answered has not.
        writeln!(console, "\n{script}; echo 'now 'works").expect("typed");
        while !std::fs::read_to_string(&log).is_ok_and(|text| text.contains("now works")) {
            assert!(
                Instant::now() < deadline,
                "the guest does not do as it is told"
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn disk(&self, number: usize) -> PathBuf {
        let own = match self.storage {
            Storage::Shared => 0,
            Storage::Apart => number,
        };
        self.folder.path().join(format!("{own}.qcow2"))
    }

    /// Moves the guest to a process at the other end. How long it stood still.
    pub fn migrate(&mut self) -> Duration {
        self.moves += 1;
        let (place, disk) = (self.moves % 2, self.disk(self.moves));
        if self.storage == Storage::Apart {
            like(&self.disk(self.moves - 1), &disk);
        }
        let beginning = Beginning {
            folder: self.folder.path(),
            name_space: self.wire.name(place),
            number: self.moves,
            disk,
            storage: self.storage,
            incoming: true,
        };
        let mut target = beginning.start();
        let address = self.wire.seen(place);
        if self.storage == Storage::Apart {
            copy_disk(&mut self.runs, &mut target, &address);
            self.runs.can("pause-before-switchover");
            self.runs.can("events");
            target.can("events");
        }
        target.ask(
            "migrate-incoming",
            &json!({"uri": format!("tcp:0.0.0.0:{MEMORY_PORT}")}),
        );
        self.runs.ask(
            "migrate",
            &json!({"uri": format!("tcp:{address}:{MEMORY_PORT}")}),
        );
        if self.storage == Storage::Apart {
            let runs = &mut self.runs;
            runs.until("MIGRATION", |data| data["status"] == "pre-switchover");
            runs.ask("block-job-cancel", &json!({"device": COPY}));
            runs.until("BLOCK_JOB_COMPLETED", |_| true);
            runs.ask("migrate-continue", &json!({"state": "pre-switchover"}));
            target.until("MIGRATION", |data| data["status"] == "completed");
            target.ask("nbd-server-stop", &json!({}));
            target.ask("cont", &json!({}));
        }
        let resumed = target.until("RESUME", |_| true);
        let stopped = self.runs.until("STOP", |_| true);
        self.runs = target;
        self.runs.events.clear();
        Duration::from_micros(u64::try_from(resumed - stopped).expect("later"))
    }
}

/// Copies all that is on the disk, and goes on copying what the guest writes.
fn copy_disk(source: &mut Process, target: &mut Process, address: &str) {
    let listens = json!({"addr": {"type": "inet", "data": {"host": "0.0.0.0", "port": DISK_PORT.to_string()}}});
    target.ask("nbd-server-start", &listens);
    target.ask(
        "block-export-add",
        &json!({"type": "nbd", "id": COPY, "node-name": DISK, "name": DISK, "writable": true}),
    );
    source.ask("blockdev-add", &json!({"driver": "nbd", "node-name": COPY, "server": at(address, DISK_PORT), "export": DISK}));
    source.ask(
        "blockdev-mirror",
        &json!({"job-id": COPY, "device": DISK, "target": COPY, "sync": "full"}),
    );
    source.until("BLOCK_JOB_READY", |_| true);
}

/// An empty disk of the same size.
fn like(disk: &Path, new: &Path) {
    let told = Command::new("qemu-img")
        .args(["info", "-U", "--output=json"])
        .arg(disk)
        .output();
    let told: Value =
        serde_json::from_slice(&told.expect("qemu-img is installed").stdout).expect("told");
    let bytes = told["virtual-size"].as_u64().expect("a size").to_string();
    let made = Command::new("qemu-img")
        .args(["create", "-q", "-f", "qcow2"])
        .arg(new)
        .arg(bytes)
        .status();
    assert!(made.expect("qemu-img is installed").success());
}
