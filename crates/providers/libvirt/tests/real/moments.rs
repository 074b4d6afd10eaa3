//! When a QEMU has stopped its guest and when it has let it go on, by the times that QEMU itself gives.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::host::Host;
use crate::pair::Pair;

/// How long it may take until what has happened is told.
const PATIENCE: Duration = Duration::from_secs(30);

/// Listens on both hosts.
pub struct Moments {
    folder: tempfile::TempDir,
    listeners: Vec<Child>,
}

impl Drop for Moments {
    fn drop(&mut self) {
        for listener in &mut self.listeners {
            let _ = listener.kill();
            let _ = listener.wait();
        }
    }
}

impl Moments {
    /// To be begun before a guest is booted: that takes longer than until somebody listens.
    pub fn listen(pair: &Pair) -> Self {
        let mut moments = Self {
            folder: tempfile::tempdir().expect("a folder"),
            listeners: Vec::new(),
        };
        for host in [&pair.a, &pair.b] {
            let listener = moments.listener(host);
            moments.listeners.push(listener);
        }
        moments
    }

    fn file(&self, number: usize) -> PathBuf {
        self.folder.path().join(number.to_string())
    }

    /// Writes a line for each event as soon as it comes.
    fn listener(&self, host: &Host) -> Child {
        let file = std::fs::File::create(self.file(self.listeners.len())).expect("made");
        Command::new("stdbuf")
            .args(["-oL", "virsh", "-c", &host.plain_url()])
            .args(["qemu-monitor-event", "--loop"])
            .stdin(Stdio::null())
            .stdout(file)
            .spawn()
            .expect("stdbuf and virsh are installed; run hack/packages.sh")
    }

    /// The latest event of that name, in microseconds.
    fn latest(&self, event: &str, domain: &str) -> Option<u64> {
        let texts =
            (0..self.listeners.len()).map(|number| std::fs::read_to_string(self.file(number)));
        let texts: Vec<String> = texts.map(|text| text.expect("readable")).collect();
        let lines = texts.iter().flat_map(|text| text.lines());
        lines.filter_map(|line| moment(line, event, domain)).max()
    }

    /// How long that guest stood still in its last move.
    pub async fn stood_still(&self, domain: &str) -> Duration {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let moments = ["STOP", "RESUME"].map(|event| self.latest(event, domain));
            if let [Some(stopped), Some(resumed)] = moments
                && resumed > stopped
            {
                return Duration::from_micros(resumed - stopped);
            }
            assert!(
                Instant::now() < deadline,
                "not told of {domain}: {moments:?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// `event STOP at 1794942505.390470 for domain 'web': <null>`
fn moment(line: &str, event: &str, domain: &str) -> Option<u64> {
    let rest = line.strip_prefix(&format!("event {event} at "))?;
    let (time, rest) = rest.split_once(" for domain ")?;
    let (seconds, micros) = time.split_once('.')?;
    let number = |text: &str| text.parse::<u64>().ok();
    let known = rest.starts_with(&format!("'{domain}'"));
    known.then_some(number(seconds)? * 1_000_000 + number(micros)?)
}

#[test]
fn lines_are_read() {
    let line = "event STOP at 1794942505.000470 for domain 'web': <null>";
    assert_eq!(moment(line, "STOP", "web"), Some(1_794_942_505_000_470));
    assert_eq!(moment(line, "RESUME", "web"), None);
    assert_eq!(moment(line, "STOP", "we"), None);
}
