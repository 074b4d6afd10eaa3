//! A machine of a newcomer: a folder, ports, and the program.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_polyvirt");

pub struct Machine {
    pub folder: tempfile::TempDir,
    pub ports: Vec<String>,
}

/// Stops what a failed test has left.
impl Drop for Machine {
    fn drop(&mut self) {
        let state = self.state();
        let _ = Command::new(PROGRAM)
            .args(["down", "--state-dir"])
            .arg(state)
            .output();
    }
}

impl Machine {
    pub fn new() -> Self {
        let listeners: Vec<_> = (0..6)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let names = ["api", "etcd", "gateway", "metrics", "health", "webhook"];
        let ports = names.iter().zip(&listeners).flat_map(|(name, listener)| {
            let port = listener.local_addr().unwrap().port();
            [format!("--{name}-port"), port.to_string()]
        });
        Self {
            ports: ports.collect(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// With ports that are free in steps of ten, as the clusters beside the first need them, and that the system gives to nobody
    /// for outgoing connections.
    pub fn with_room() -> Self {
        let first = |n: u32| 23_000 + u16::try_from((std::process::id() + n) % 80).unwrap() * 100;
        let mut places = (0..80).map(first);
        let base = places.find(|base| is_free(*base)).unwrap();
        let names = ["api", "etcd", "gateway", "metrics", "health", "webhook"];
        let ports = names.iter().zip(base..);
        let ports = ports.flat_map(|(name, port)| [format!("--{name}-port"), port.to_string()]);
        Self {
            ports: ports.collect(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(words);
        command
            .env("POLYVIRT_STATE_DIR", self.state())
            .env("KUBECONFIG", self.state().join("kubeconfig"))
            .stdin(Stdio::null());
        command
    }

    /// What it prints.
    pub fn kubectl(&self, words: &[&str]) -> String {
        let mut command = Command::new(polyvirt_testkit::kubectl());
        let config = self.state().join("kubeconfig");
        let output = command.args(words).env("KUBECONFIG", config).output();
        said(&output.unwrap(), 0)
    }

    pub fn up(&self) -> Output {
        self.up_with(&[])
    }

    pub fn up_with(&self, words: &[&str]) -> Output {
        let mut command = self.command(&["up", "--provider", "mock"]);
        command.args(words).args(&self.ports).output().unwrap()
    }
}

/// Whether nobody has any of the thirty ports from there on.
fn is_free(base: u16) -> bool {
    (base..base + 30).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok())
}

#[track_caller]
pub fn said(output: &Output, code: i32) -> String {
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{out}\n{errors}");
    out
}

#[track_caller]
pub fn complained(output: &Output, code: i32, word: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert!(errors.contains(word), "{errors}");
}

pub fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&folder)).collect()
}
