//! One connection that many calls share.
//!
//! ```text
//!   call ─► permit ─► outbox (bounded) ─► writer task ─► socket
//!     ▲                                                    │
//!     └── by serial ◄── reader task ◄── frames ◄───────────┘ ──► streams, events, signs of life
//! ```
//!
//! libvirt works on five calls of a connection at a time and then stops reading, signs of life included. So at most four are
//! sent, and of those that wait for a guest or a disk at most two.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use polyvirt_provider_kit::uuid::Uuid;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::error::{LibvirtError, RpcError};
use super::frame::{Header, KEEPALIVE, Kind, QEMU, REMOTE, Status};
use super::procedure::{LIFE_EVENT, Lane, Procedure};
use super::types::Domain;
use super::xdr::{self, Decode, Encode};

/// Calls that are under way at the same time, and those among them that may take long.
const CALLS: usize = 4;
const SLOW_CALLS: usize = 2;
/// Messages that wait to be written: beyond that whoever sends waits.
const OUTBOX: usize = 16;
/// Messages of a stream that its reader may be behind.
const INBOX: usize = 256;
/// How often a silent other side is asked for a sign of life, and how often in vain.
const PING_EVERY: Duration = Duration::from_secs(5);
const PINGS: u32 = 6;
const PING: u32 = 1;
const PONG: u32 = 2;

/// Something happened to a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Which message told it.
    pub(crate) procedure: u32,
    /// The domain.
    pub(crate) domain: Uuid,
    /// How its life has turned, if that is what was told.
    pub(crate) turn: Option<Turn>,
}

/// Turns in the life of a domain, as far as they are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Suspended,
    Resumed,
    Other,
}

impl Turn {
    const fn of(number: i32) -> Self {
        match number {
            3 => Self::Suspended,
            4 => Self::Resumed,
            _ => Self::Other,
        }
    }
}

impl Event {
    /// Every message that we asked for begins with the number of the subscription and the domain.
    fn read(procedure: u32, body: Bytes) -> Option<Self> {
        let (_, domain) = xdr::read::<(i32, Domain)>(body.clone()).ok()?;
        let life = (procedure == LIFE_EVENT).then(|| xdr::read::<(i32, Domain, i32)>(body));
        let turn = life.and_then(Result::ok);
        Some(Self {
            procedure,
            domain: domain.uuid,
            turn: turn.map(|(_, _, number)| Turn::of(number)),
        })
    }
}

/// Where events go. It must not block.
pub(crate) type OnEvent = Arc<dyn Fn(Event) + Send + Sync>;

/// A piece of a stream.
#[derive(Debug)]
pub(super) enum Piece {
    Data(Bytes),
    End,
    Failed(LibvirtError),
}

type Reply = Result<Bytes, LibvirtError>;

#[derive(Default)]
struct Waiting {
    replies: HashMap<u32, oneshot::Sender<Reply>>,
    streams: HashMap<u32, mpsc::Sender<Piece>>,
}

/// A connection to libvirt. Dropping the last handle closes it.
pub(crate) struct Connection {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    outbox: mpsc::Sender<Bytes>,
    waiting: Mutex<Waiting>,
    serial: AtomicU32,
    calls: Semaphore,
    slow: Semaphore,
    over: CancellationToken,
    why: OnceLock<String>,
    /// Counts what came in, to notice silence.
    heard: AtomicU32,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.end("it was closed");
    }
}

impl Connection {
    /// Takes a socket that reaches libvirt, and speaks on it until it breaks.
    pub(crate) fn start<S>(socket: S, on_event: OnEvent) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (outbox, to_write) = mpsc::channel(OUTBOX);
        let shared = Arc::new(Shared {
            outbox,
            waiting: Mutex::default(),
            serial: AtomicU32::new(0),
            calls: Semaphore::new(CALLS),
            slow: Semaphore::new(SLOW_CALLS),
            over: CancellationToken::new(),
            why: OnceLock::new(),
            heard: AtomicU32::new(0),
        });
        let (reads, writes) = tokio::io::split(socket);
        tokio::spawn(io::write_all(shared.clone(), writes, to_write));
        tokio::spawn(io::read_all(shared.clone(), reads, on_event));
        Self { shared }
    }

    /// Begins to ask for signs of life. To be called once, when the other side is known to answer them.
    pub(crate) fn keep_alive(&self) {
        tokio::spawn(io::ping(self.shared.clone()));
    }

    /// Resolves when the connection is over.
    pub(crate) fn over(&self) -> CancellationToken {
        self.shared.over.clone()
    }

    /// Why it is over.
    pub(crate) fn why(&self) -> String {
        self.shared.reason()
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn call<R: Decode>(
        &self,
        procedure: Procedure,
        arguments: &impl Encode,
    ) -> Result<R, RpcError> {
        let asked = self.shared.ask(procedure, xdr::write(arguments), None);
        let late = RpcError::Late(procedure.number);
        let reply = tokio::time::timeout(procedure.lane.patience(), asked).await;
        let body = reply.map_err(|_| late)??;
        Ok(xdr::read(body)?)
    }

    /// Asks for something that a stream follows.
    pub(super) async fn open_stream(
        &self,
        procedure: Procedure,
        arguments: &impl Encode,
    ) -> Result<StreamEnd, RpcError> {
        let (sender, pieces) = mpsc::channel(INBOX);
        let serial = self.shared.next_serial();
        // From here on the stream is taken down whatever happens.
        let end = StreamEnd {
            shared: self.shared.clone(),
            procedure,
            serial,
            pieces,
        };
        self.shared.lock().streams.insert(serial, sender);
        let body = xdr::write(arguments);
        let asked = self.shared.ask(procedure, body, Some(serial));
        let late = RpcError::Late(procedure.number);
        let reply = tokio::time::timeout(procedure.lane.patience(), asked).await;
        reply.map_err(|_| late)??;
        Ok(end)
    }
}

/// Our end of a stream. Dropping it takes the stream down.
pub(super) struct StreamEnd {
    shared: Arc<Shared>,
    procedure: Procedure,
    serial: u32,
    pub(super) pieces: mpsc::Receiver<Piece>,
}

impl StreamEnd {
    fn message(&self, status: Status, body: &[u8]) -> Bytes {
        let header = Header {
            program: self.procedure.program,
            procedure: self.procedure.number,
            kind: Kind::Stream,
            serial: self.serial,
            status,
        };
        header.with(body)
    }

    /// Sends a piece, and waits while the other side does not read.
    pub(super) async fn send(&self, status: Status, body: &[u8]) -> Result<(), RpcError> {
        self.shared.send(self.message(status, body)).await
    }

    /// What tells why there are no more pieces although the stream has not ended.
    pub(super) fn broken(&self) -> RpcError {
        RpcError::Unreachable(self.shared.reason())
    }
}

impl Drop for StreamEnd {
    fn drop(&mut self) {
        let open = self.shared.lock().streams.remove(&self.serial).is_some();
        if open && !self.shared.over.is_cancelled() {
            let (shared, message) = (self.shared.clone(), self.message(Status::Error, &[]));
            // Nobody waits for it: the other side only has to hear of it at some time.
            tokio::spawn(async move { shared.send(message).await });
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_serial(&self) -> u32 {
        self.serial.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    fn reason(&self) -> String {
        self.why
            .get()
            .cloned()
            .unwrap_or_else(|| "the connection ended".to_owned())
    }

    fn unreachable(&self) -> RpcError {
        RpcError::Unreachable(self.reason())
    }

    /// The first reason is the one that is told.
    fn end(&self, why: &str) {
        let _ = self.why.set(why.to_owned());
        self.over.cancel();
        let waiting = std::mem::take(&mut *self.lock());
        drop(waiting);
    }

    async fn send(&self, message: Bytes) -> Result<(), RpcError> {
        tokio::select! {
            biased;
            () = self.over.cancelled() => Err(self.unreachable()),
            sent = self.outbox.send(message) => sent.map_err(|_| self.unreachable()),
        }
    }

    async fn ask(
        &self,
        procedure: Procedure,
        body: Vec<u8>,
        serial: Option<u32>,
    ) -> Result<Bytes, RpcError> {
        let closed = |_| self.unreachable();
        let _slow = match procedure.lane {
            Lane::Slow => Some(self.slow.acquire().await.map_err(closed)?),
            Lane::Quick | Lane::Endless => None,
        };
        let _turn = self.calls.acquire().await.map_err(closed)?;
        let serial = serial.unwrap_or_else(|| self.next_serial());
        let (sender, reply) = oneshot::channel();
        self.lock().replies.insert(serial, sender);
        let _forget = Forget {
            shared: self,
            serial,
        };
        let header = Header {
            program: procedure.program,
            procedure: procedure.number,
            kind: Kind::Call,
            serial,
            status: Status::Ok,
        };
        self.send(header.with(&body)).await?;
        tokio::select! {
            biased;
            reply = reply => Ok(reply.map_err(|_| self.unreachable())??),
            () = self.over.cancelled() => Err(self.unreachable()),
        }
    }

    fn take_in(&self, header: Header, body: Bytes, on_event: &OnEvent) {
        self.heard.fetch_add(1, Ordering::Relaxed);
        match (header.program, header.kind) {
            (KEEPALIVE, _) if header.procedure == PING => self.sign(PONG),
            (REMOTE | QEMU, Kind::Reply) => self.replied(header, body),
            (REMOTE | QEMU, Kind::Stream) => self.streamed(header, body),
            (REMOTE, Kind::Message) => {
                if let Some(event) = Event::read(header.procedure, body) {
                    on_event(event);
                }
            }
            _ => {}
        }
    }

    fn replied(&self, header: Header, body: Bytes) {
        // Nobody waits any more for a call that was given up.
        let Some(sender) = self.lock().replies.remove(&header.serial) else {
            return;
        };
        let _ = sender.send(match header.status {
            Status::Error => Err(LibvirtError::read(body)),
            _ => Ok(body),
        });
    }

    fn streamed(&self, header: Header, body: Bytes) {
        let mut waiting = self.lock();
        let Some(sender) = waiting.streams.get(&header.serial) else {
            return;
        };
        let piece = match header.status {
            Status::Continue => Piece::Data(body),
            Status::Ok => Piece::End,
            Status::Error => Piece::Failed(LibvirtError::read(body)),
        };
        let last = !matches!(piece, Piece::Data(_));
        // A reader that is too far behind loses its stream: it must not hold up all others.
        if sender.try_send(piece).is_err() || last {
            waiting.streams.remove(&header.serial);
        }
    }

    /// Sends a sign of life. If there is no room, something else is on its way, and that is a sign too.
    fn sign(&self, procedure: u32) {
        let header = Header {
            program: KEEPALIVE,
            procedure,
            kind: Kind::Message,
            serial: 0,
            status: Status::Ok,
        };
        let _ = self.outbox.try_send(header.with(&[]));
    }
}

/// Takes a call from the list of those that wait, however it ends.
struct Forget<'a> {
    shared: &'a Shared,
    serial: u32,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.shared.lock().replies.remove(&self.serial);
    }
}

mod io;
#[cfg(test)]
mod tests;
