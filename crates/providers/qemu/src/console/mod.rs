//! The serial port, read all the time and shared by all who look; and the screen, which QEMU shares itself.

mod log;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use polyvirt_contract::model::{ConsoleKind, ConsoleSession};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use self::log::Log;
use crate::cmdline::{SERIAL_SOCKET, VNC_SOCKET};
use crate::state::{OpenDir, VmDir};
use crate::vm::Vm;

/// What a new reader is shown of the past.
const PAST: usize = 16 << 10;
/// Pieces that a reader may be behind.
const BEHIND: usize = 1024;
const PIECE: usize = 4096;

/// The serial port of a running VM.
pub(crate) struct Serial {
    past: Mutex<Past>,
    writer: tokio::sync::Mutex<OwnedWriteHalf>,
    closed: CancellationToken,
}

struct Past {
    bytes: VecDeque<u8>,
    readers: broadcast::Sender<Bytes>,
    log: Log,
}

impl Serial {
    /// Takes hold of the port of a machine that has not begun to run, and begins to read.
    pub(crate) async fn attach(folder: &OpenDir, dir: &VmDir) -> Result<Arc<Self>> {
        Self::hold(folder, Log::open(dir.console_log()), VecDeque::new()).await
    }

    /// Takes hold of the port of a machine that runs. What it said in an earlier life of the provider is the past here too.
    pub(crate) async fn attach_again(folder: &OpenDir, dir: &VmDir) -> Result<Arc<Self>> {
        let log = Log::open(dir.console_log());
        let said = log.tail(PAST);
        Self::hold(folder, log, said.into()).await
    }

    async fn hold(folder: &OpenDir, log: Log, said: VecDeque<u8>) -> Result<Arc<Self>> {
        let stream = connect(folder, SERIAL_SOCKET).await?;
        let (reader, writer) = stream.into_split();
        let serial = Arc::new(Self {
            past: Mutex::new(Past {
                bytes: said,
                readers: broadcast::channel(BEHIND).0,
                log,
            }),
            writer: tokio::sync::Mutex::new(writer),
            closed: CancellationToken::new(),
        });
        tokio::spawn(read(Arc::downgrade(&serial), reader, serial.closed.clone()));
        Ok(serial)
    }

    fn lock(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, bytes: Bytes) {
        let mut past = self.lock();
        past.bytes.extend(bytes.iter());
        let over = past.bytes.len().saturating_sub(PAST);
        past.bytes.drain(..over);
        past.log.write(&bytes);
        // Nobody may be looking.
        let _ = past.readers.send(bytes);
    }

    /// Ends all sessions.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// A session: the last of what was said, then what is said from now on.
    pub(crate) fn session(self: &Arc<Self>) -> ConsoleSession {
        let past = self.lock();
        let (news, shown) = (
            past.readers.subscribe(),
            past.bytes.iter().copied().collect::<Bytes>(),
        );
        drop(past);
        let first = (!shown.is_empty()).then_some(Ok(shown));
        let closed = self.closed.clone();
        let rest = stream::unfold((news, closed), |(mut news, closed)| async move {
            let bytes = next(&mut news, &closed).await?;
            Some((Ok(bytes), (news, closed)))
        });
        // A session that is forgotten must not keep the port from the next life of the provider.
        let input = futures::sink::unfold(Arc::downgrade(self), |port, bytes: Bytes| async move {
            let serial = port.upgrade().ok_or_else(detached)?;
            let sent = serial.writer.lock().await.write_all(&bytes).await;
            sent.map(|()| port).map_err(|_| detached())
        });
        ConsoleSession {
            output: stream::iter(first).chain(rest).boxed(),
            input: Box::pin(input),
        }
    }
}

impl Drop for Serial {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

/// The next piece; one that came too fast to be kept is passed over. `None` at the end.
async fn next(news: &mut broadcast::Receiver<Bytes>, closed: &CancellationToken) -> Option<Bytes> {
    loop {
        let piece = tokio::select! {
            biased;
            piece = news.recv() => piece,
            () = closed.cancelled() => return None,
        };
        match piece {
            Ok(bytes) => return Some(bytes),
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return None,
        }
    }
}

async fn read(
    serial: std::sync::Weak<Serial>,
    mut reader: OwnedReadHalf,
    closed: CancellationToken,
) {
    let mut piece = vec![0; PIECE];
    loop {
        let count = tokio::select! {
            () = closed.cancelled() => break,
            count = reader.read(&mut piece) => count,
        };
        match (count, serial.upgrade()) {
            (Ok(count), Some(serial)) if count > 0 => {
                serial.take(Bytes::copy_from_slice(&piece[..count]));
            }
            _ => break,
        }
    }
    closed.cancel();
}

/// Attaches to a console of a VM that runs.
pub(crate) async fn attach(vm: &Vm, kind: ConsoleKind) -> Result<ConsoleSession> {
    let live = vm.must_live()?;
    match kind {
        ConsoleKind::Serial => Ok(live.serial.session()),
        ConsoleKind::Vnc => {
            let stream = connect(&vm.dir.open_run()?, VNC_SOCKET).await?;
            Ok(raw(stream))
        }
    }
}

fn raw(stream: UnixStream) -> ConsoleSession {
    let (reader, writer) = stream.into_split();
    let output = stream::unfold(reader, |mut reader| async move {
        let mut piece = vec![0; 16 * PIECE];
        let count = reader
            .read(&mut piece)
            .await
            .ok()
            .filter(|count| *count > 0)?;
        piece.truncate(count);
        Some((Ok(Bytes::from(piece)), reader))
    });
    ConsoleSession {
        output: output.boxed(),
        input: Box::pin(sink(writer)),
    }
}

fn sink<W>(writer: W) -> impl futures::Sink<Bytes, Error = ProviderError>
where
    W: AsyncWrite + Unpin + Send + 'static,
{
    futures::sink::unfold(writer, |mut writer, bytes: Bytes| async move {
        writer.write_all(&bytes).await.map_err(|_| detached())?;
        Ok(writer)
    })
}

async fn connect(folder: &OpenDir, socket: &str) -> Result<UnixStream> {
    let stream = UnixStream::connect(folder.join(socket)).await;
    stream.map_err(|error| {
        let message = format!("The console {socket} cannot be reached: {error}");
        ProviderError::new(ErrorKind::Unavailable, message)
    })
}

fn detached() -> ProviderError {
    ProviderError::new(
        ErrorKind::Unavailable,
        "The console is closed; attach again",
    )
}
