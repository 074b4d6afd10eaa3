//! The wire between two hosts, each in a network name space of its own: everything that one sends to the other goes through
//! here, is counted, is looked at, and can be held up.

use std::ops::RangeInclusive;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What went by on the way to one host.
pub struct Tap {
    marker: Vec<u8>,
    seen: AtomicBool,
    bytes: AtomicU64,
    /// When how much had gone by.
    marks: Mutex<Vec<(Instant, u64)>>,
}

impl Tap {
    fn take_in(&self, tail: &mut Vec<u8>, piece: &[u8]) {
        let bytes = u64::try_from(piece.len()).expect("small");
        let sum = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.marks
            .lock()
            .expect("whole")
            .push((Instant::now(), sum));
        if self.marker.is_empty() {
            return;
        }
        tail.extend_from_slice(piece);
        let found = tail
            .windows(self.marker.len())
            .any(|window| window == self.marker);
        self.seen.fetch_or(found, Ordering::Relaxed);
        let keep = tail.len().saturating_sub(self.marker.len());
        tail.drain(..keep);
    }

    /// How much went by, and whether the marker was in it, since the last time that it was asked.
    pub fn asked(&self) -> (u64, bool) {
        self.marks.lock().expect("whole").clear();
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        (bytes, self.seen.swap(false, Ordering::Relaxed))
    }

    /// The most bytes that went by within any two seconds, by the second.
    pub fn fastest(&self) -> u64 {
        let marks = self.marks.lock().expect("whole").clone();
        let window = Duration::from_secs(2);
        let mut fastest = 0;
        let mut end = 0;
        for (begin, before) in &marks {
            while end + 1 < marks.len() && marks[end + 1].0 - *begin <= window {
                end += 1;
            }
            fastest = fastest.max(marks[end].1.saturating_sub(*before));
        }
        fastest / window.as_secs()
    }
}

/// Name spaces and addresses. They go when this does.
pub struct Wire {
    names: [String; 2],
    ports: RangeInclusive<u16>,
    number: u32,
}

fn ip(arguments: &str) {
    let words = arguments.split_whitespace();
    let output = Command::new("ip").args(words).output();
    let output = output.expect("ip is installed; run hack/packages.sh");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {said}");
}

impl Wire {
    /// Lays one that lets these ports through to either host.
    pub fn lay(ports: RangeInclusive<u16>) -> Self {
        static WIRES: AtomicU32 = AtomicU32::new(0);
        let number = (std::process::id() * 8 + WIRES.fetch_add(1, Ordering::Relaxed)) % 250 + 1;
        let names = ["a", "b"].map(|end| format!("pv{number}{end}"));
        let wire = Self {
            names,
            ports,
            number,
        };
        for place in [0, 1] {
            let (name, outside) = (&wire.names[place], wire.outside(place));
            ip(&format!("netns add {name}"));
            ip(&format!(
                "link add v{name} type veth peer name up0 netns {name}"
            ));
            ip(&format!("addr add {outside}/24 dev v{name}"));
            ip(&format!("link set v{name} up"));
            ip(&format!(
                "-n {name} addr add {}/24 dev up0",
                wire.inside(place)
            ));
            ip(&format!("-n {name} link set up0 up"));
            ip(&format!("-n {name} link set lo up"));
        }
        wire
    }

    /// The name space of a host.
    pub fn name(&self, place: usize) -> &str {
        &self.names[place]
    }

    /// The address of a host.
    pub fn inside(&self, place: usize) -> String {
        format!("198.{}.{}.2", 18 + place, self.number)
    }

    /// The address of this machine at the wire of a host.
    pub fn outside(&self, place: usize) -> String {
        format!("198.{}.{}.1", 18 + place, self.number)
    }

    /// Where a host is for the other one: here, from where all is passed on to it.
    pub fn seen(&self, place: usize) -> String {
        self.outside(1 - place)
    }

    /// Cuts the wire of the first host, or mends it.
    pub fn link(&self, state: &str) {
        ip(&format!("link set v{} {state}", self.name(0)));
    }

    /// Listens to one host and passes on what it says to the other.
    pub fn tap(&self, from: usize, to: usize, marker: &str) -> Arc<Tap> {
        let tap = Arc::new(Tap {
            marker: marker.as_bytes().to_vec(),
            seen: AtomicBool::default(),
            bytes: AtomicU64::default(),
            marks: Mutex::default(),
        });
        for port in self.ports.clone() {
            let (at, target) = ((self.outside(from), port), (self.inside(to), port));
            let tap = tap.clone();
            tokio::spawn(async move {
                let listener = TcpListener::bind(at).await.expect("a port");
                while let Ok((socket, _)) = listener.accept().await {
                    tokio::spawn(pass(tap.clone(), socket, target.clone()));
                }
            });
        }
        tap
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
            let device = format!("v{name}");
            let _ = Command::new("ip").args(["link", "del", &device]).output();
        }
    }
}

async fn pass(tap: Arc<Tap>, socket: TcpStream, target: (String, u16)) {
    let Ok(other) = TcpStream::connect(target).await else {
        return;
    };
    let _ = (socket.set_nodelay(true), other.set_nodelay(true));
    let ((mut from, mut back), (mut answers, mut to)) = (socket.into_split(), other.into_split());
    let answering = tokio::spawn(async move { tokio::io::copy(&mut answers, &mut back).await });
    let (mut buffer, mut tail) = (vec![0; 1 << 16], Vec::new());
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        tap.take_in(&mut tail, &buffer[..length]);
        if to.write_all(&buffer[..length]).await.is_err() {
            break;
        }
    }
    drop((from, to));
    let _ = answering.await;
}
