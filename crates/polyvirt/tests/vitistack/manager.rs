//! The program as a process of its own, set up by variables alone.

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::site::{PATIENCE, Site};

const PROGRAM: &str = env!("CARGO_BIN_EXE_polyvirt");

pub struct Manager {
    child: Child,
    log: PathBuf,
    metrics: u16,
    probes: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let text = std::fs::read_to_string(&self.log).unwrap_or_default();
            let last: Vec<_> = text.lines().rev().take(40).collect();
            let last: Vec<_> = last.into_iter().rev().collect();
            println!("the manager's last words:\n{}", last.join("\n"));
        }
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Manager {
    /// Starts it; ready or not.
    pub fn start(supervisor: &Site, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("manager.log");
        let (metrics, probes) = (free_port(), free_port());
        let mut command = Command::new(PROGRAM);
        command
            .arg("manager")
            .env_clear()
            .env("KUBECONFIG", supervisor.plane.kubeconfig_path())
            .env("METRICS_BIND_ADDRESS", format!("127.0.0.1:{metrics}"))
            .env("HEALTH_PROBE_BIND_ADDRESS", format!("127.0.0.1:{probes}"))
            .env("LOG_FORMAT", "json")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap());
        Self {
            child: command.spawn().unwrap(),
            log,
            metrics,
            probes,
            _folder: folder,
        }
    }

    /// The same, once it says that it is ready.
    pub async fn ready(supervisor: &Site, variables: &[(&str, &str)]) -> Self {
        let manager = Self::start(supervisor, variables);
        let deadline = Instant::now() + PATIENCE;
        while manager.probe("/readyz").await.0 != 200 {
            assert!(Instant::now() < deadline, "the manager is never ready");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        manager
    }

    pub async fn probe(&self, path: &str) -> (u16, String) {
        get(self.probes, path).await
    }

    pub async fn metrics(&self) -> (u16, String) {
        get(self.metrics, "/metrics").await
    }

    /// All log lines so far. Each is a JSON object.
    pub fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        let whole = text.split_inclusive('\n').filter(|l| l.ends_with('\n'));
        whole
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }
}

/// Status and body; status 0 if nobody answers.
async fn get(port: u16, path: &str) -> (u16, String) {
    let asked = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = asked.await.unwrap_or_default();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let code = head.split(' ').nth(1).and_then(|c| c.parse().ok());
    (code.unwrap_or(0), body.to_owned())
}
