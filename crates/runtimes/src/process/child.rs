//! One child, kept running.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use polyvirt_engine::runtime::key::ObjectKey;
use tempfile::TempDir;
use tokio::process::Child;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The first pause after an end; it doubles up to the longest.
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// One that ran this long was well, and its end is the first of its kind.
const WELL: Duration = Duration::from_secs(60);
/// How long a child may take to stop.
const PATIENCE: Duration = Duration::from_secs(15);

/// How a child is started.
pub struct Command {
    pub program: PathBuf,
    pub kind: &'static str,
    pub environment: Vec<(String, String)>,
    pub port: u16,
    /// Held for as long as the child may read it.
    pub folder: Arc<TempDir>,
}

impl Command {
    fn start(&self) -> std::io::Result<Child> {
        let mut command = tokio::process::Command::new(&self.program);
        command
            .args(["provider", self.kind, "--bind=127.0.0.1"])
            .arg(format!("--with-parent={}", std::process::id()))
            .arg(format!("--port={}", self.port))
            .arg("--health-port=0")
            .arg("--tls-dir")
            .arg(self.folder.path())
            .arg("--credentials-dir")
            .arg(self.folder.path().join(super::CREDENTIALS))
            .envs(self.environment.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command.spawn()
    }
}

/// Starts the child, and again whenever it ends, until it is told to stop.
pub async fn supervise(provider: ObjectKey, command: Command, stop: CancellationToken) {
    let mut pause = PAUSE;
    loop {
        let begin = Instant::now();
        match command.start() {
            Ok(mut child) => tokio::select! {
                ended = child.wait() => {
                    tracing::warn!(%provider, ?ended, "the provider's process ended; it is started again");
                }
                () = stop.cancelled() => return end(child).await,
            },
            Err(error) => {
                tracing::error!(%provider, %error, "the provider's process cannot be started");
            }
        }
        if begin.elapsed() > WELL {
            pause = PAUSE;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Asks, waits, and then does not ask any more.
async fn end(mut child: Child) {
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok())
        && let Some(pid) = rustix::process::Pid::from_raw(pid)
    {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    if tokio::time::timeout(PATIENCE, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}
