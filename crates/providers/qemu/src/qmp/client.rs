//! One connection to one monitor.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polyvirt_contract::{ErrorKind, ProviderError};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{broadcast, oneshot};
use tokio_util::sync::CancellationToken;

use crate::qmp::message::{Event, Message, Refusal};

/// How long a command may take that only asks or arranges something.
const PATIENCE: Duration = Duration::from_secs(20);
/// Events that a listener may be behind.
const EVENTS: usize = 1024;

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QmpError {
    /// QEMU is gone, or closed the monitor.
    #[error("QEMU is not there any more")]
    Closed,
    /// QEMU does not answer.
    #[error("QEMU has not answered {0} in time")]
    Timeout(String),
    /// QEMU says no.
    #[error("QEMU refused {command}: {reason}")]
    Refused {
        /// The command.
        command: String,
        /// QEMU's word for the kind of error.
        class: String,
        /// What QEMU says.
        reason: String,
    },
}

impl From<QmpError> for ProviderError {
    fn from(error: QmpError) -> Self {
        let kind = match &error {
            QmpError::Closed => ErrorKind::Unavailable,
            QmpError::Timeout(_) => ErrorKind::Timeout,
            QmpError::Refused { reason, .. } if reason.contains("No space left") => {
                ErrorKind::Exhausted
            }
            QmpError::Refused { .. } => ErrorKind::Internal,
        };
        Self::new(kind, error.to_string())
    }
}

type Waiting = HashMap<u64, oneshot::Sender<Result<Value, Refusal>>>;

struct Inside {
    writer: tokio::sync::Mutex<OwnedWriteHalf>,
    waiting: Mutex<Waiting>,
    last: AtomicU64,
    events: broadcast::Sender<Event>,
    closed: CancellationToken,
    pid: Option<i32>,
}

/// A connection to a monitor; copies share it. It is closed with the last of them.
#[derive(Clone)]
pub(crate) struct Qmp {
    inside: Arc<Inside>,
    _open: Arc<tokio_util::sync::DropGuard>,
}

impl std::fmt::Debug for Qmp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Qmp(pid {:?})", self.inside.pid)
    }
}

impl Qmp {
    /// Connects, and takes the monitor into the mode in which it carries out commands.
    pub(crate) async fn connect(path: &Path) -> std::io::Result<Self> {
        let stream = UnixStream::connect(path).await?;
        let pid = stream.peer_cred()?.pid();
        let (reader, writer) = stream.into_split();
        let closed = CancellationToken::new();
        let inside = Arc::new(Inside {
            writer: tokio::sync::Mutex::new(writer),
            waiting: Mutex::default(),
            last: AtomicU64::new(0),
            events: broadcast::channel(EVENTS).0,
            closed: closed.clone(),
            pid,
        });
        tokio::spawn(read(reader, inside.clone()));
        let qmp = Self {
            inside,
            _open: Arc::new(closed.drop_guard()),
        };
        match qmp.ask("qmp_capabilities").await {
            Ok(_) => Ok(qmp),
            Err(error) => Err(std::io::Error::other(error)),
        }
    }

    /// The process on the other side, as the kernel knows it.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.inside.pid
    }

    /// What happens from now on.
    pub(crate) fn events(&self) -> broadcast::Receiver<Event> {
        self.inside.events.subscribe()
    }

    /// Ends when the connection has.
    pub(crate) async fn closed(&self) {
        self.inside.closed.cancelled().await;
    }

    /// A command without arguments.
    pub(crate) async fn ask(&self, command: &str) -> Result<Value, QmpError> {
        self.execute(command, json!({})).await
    }

    /// A command, with the usual patience.
    pub(crate) async fn execute(&self, command: &str, arguments: Value) -> Result<Value, QmpError> {
        let answer = tokio::time::timeout(PATIENCE, self.send(command, arguments)).await;
        answer.unwrap_or_else(|_| Err(QmpError::Timeout(command.to_owned())))
    }

    async fn send(&self, command: &str, arguments: Value) -> Result<Value, QmpError> {
        let id = self.inside.last.fetch_add(1, Ordering::Relaxed);
        let mut line = json!({"execute": command, "arguments": arguments, "id": id}).to_string();
        line.push('\n');
        let (sender, answer) = oneshot::channel();
        self.inside.waiting().insert(id, sender);
        if self.inside.closed.is_cancelled() {
            self.inside.waiting().remove(&id);
            return Err(QmpError::Closed);
        }
        let sent = self
            .inside
            .writer
            .lock()
            .await
            .write_all(line.as_bytes())
            .await;
        sent.map_err(|_| QmpError::Closed)?;
        let answer = answer.await.map_err(|_| QmpError::Closed)?;
        answer.map_err(|refusal| QmpError::Refused {
            command: command.to_owned(),
            class: refusal.class,
            reason: refusal.desc,
        })
    }
}

impl Inside {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, message: Message) {
        match message {
            Message::Greeting => {}
            // Nobody listens, nobody misses it.
            Message::Event(event) => drop(self.events.send(event)),
            Message::Answer { id, result } => {
                if let Some(sender) = self.waiting().remove(&id) {
                    drop(sender.send(result));
                }
            }
        }
    }
}

async fn read(reader: OwnedReadHalf, inside: Arc<Inside>) {
    let mut lines = BufReader::new(reader).lines();
    loop {
        let line = tokio::select! {
            () = inside.closed.cancelled() => break,
            line = lines.next_line() => line,
        };
        let Ok(Some(line)) = line else { break };
        if let Some(message) = Message::parse(&line) {
            inside.take(message);
        }
    }
    inside.closed.cancel();
    inside.waiting().clear();
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    /// A monitor that answers as the script says: what it is asked, what it says.
    async fn monitor(script: &'static [(&'static str, &'static str)]) -> (tempfile::TempDir, Qmp) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("qmp.sock");
        let listener = UnixListener::bind(&path).expect("bound");
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("a client");
            let (reader, mut writer) = stream.into_split();
            let mut lines = BufReader::new(reader).lines();
            writer.write_all(b"{\"QMP\": {}}\n").await.expect("greeted");
            for (command, answer) in script {
                let line = lines.next_line().await.expect("read").expect("a line");
                let asked: Value = serde_json::from_str(&line).expect("JSON");
                assert_eq!(asked["execute"], *command);
                let answer = answer.replace("ID", &asked["id"].to_string());
                writer.write_all(answer.as_bytes()).await.expect("answered");
            }
        });
        let qmp = Qmp::connect(&path).await.expect("connected");
        (folder, qmp)
    }

    const HELLO: (&str, &str) = ("qmp_capabilities", "{\"return\": {}, \"id\": ID}\n");

    #[tokio::test]
    async fn answers_find_their_question_and_events_their_listener() {
        let (_folder, qmp) = monitor(&[
            HELLO,
            (
                "stop",
                "{\"event\": \"STOP\"}\n{\"return\": {\"x\": 1}, \"id\": ID}\n",
            ),
        ])
        .await;
        let mut events = qmp.events();
        assert_eq!(qmp.ask("stop").await, Ok(json!({"x": 1})));
        assert_eq!(events.recv().await.expect("an event").name, "STOP");
        assert_eq!(qmp.pid(), i32::try_from(std::process::id()).ok());
    }

    #[tokio::test]
    async fn a_refusal_tells_what_was_refused() {
        let (_folder, qmp) = monitor(&[
            HELLO,
            (
                "eject",
                "{\"error\": {\"class\": \"GenericError\", \"desc\": \"locked\"}, \"id\": ID}\n",
            ),
        ])
        .await;
        let error = qmp.ask("eject").await.expect_err("refused");
        assert_eq!(error.to_string(), "QEMU refused eject: locked");
    }

    #[tokio::test]
    async fn the_end_of_qemu_ends_every_wait() {
        let (_folder, qmp) = monitor(&[HELLO, ("quit", "")]).await;
        assert_eq!(qmp.ask("quit").await, Err(QmpError::Closed));
        qmp.closed().await;
        assert_eq!(qmp.ask("stop").await, Err(QmpError::Closed));
    }
}
