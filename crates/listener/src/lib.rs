//! TLS in front of axum.
//!
//! Handshakes run beside each other, so a slow one delays nobody; each uses the settings of its moment, so certificates
//! change without a connection being dropped.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

const HANDSHAKE: Duration = Duration::from_secs(10);
const WAITING: usize = 64;

/// TLS settings that can be replaced while they are in use.
#[derive(Clone)]
pub struct Settings(Arc<RwLock<Arc<ServerConfig>>>);

impl Settings {
    /// The settings to begin with.
    pub fn new(config: Arc<ServerConfig>) -> Self {
        Self(Arc::new(RwLock::new(config)))
    }

    /// From the next handshake on.
    pub fn replace(&self, config: Arc<ServerConfig>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    fn now(&self) -> Arc<ServerConfig> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// What a server wants to know of the other side of a connection.
pub trait Peer: Clone + Send + Sync + 'static {
    /// Looks at a connection whose handshake is done.
    fn of(stream: &TlsStream<TcpStream>) -> Self;
}

/// Where nobody asks who is there.
impl Peer for () {
    fn of(_: &TlsStream<TcpStream>) -> Self {}
}

/// The other side of a connection, for handlers that ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who<P>(pub P);

/// Connections whose handshake is done, as axum wants them.
pub struct TlsListener<P> {
    accepted: mpsc::Receiver<(TlsStream<TcpStream>, Who<P>)>,
}

impl<P: Peer> TlsListener<P> {
    /// Accepts until it is told to stop.
    pub fn new(listener: TcpListener, settings: Settings, stop: CancellationToken) -> Self {
        let (sender, accepted) = mpsc::channel(WAITING);
        tokio::spawn(accept(listener, settings, sender, stop));
        Self { accepted }
    }
}

async fn accept<P: Peer>(
    listener: TcpListener,
    settings: Settings,
    sender: mpsc::Sender<(TlsStream<TcpStream>, Who<P>)>,
    stop: CancellationToken,
) {
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let Ok((stream, _)) = accepted else {
            // No file descriptors left, most likely: some will come back.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (config, sender) = (settings.now(), sender.clone());
        tokio::spawn(async move {
            let handshake = TlsAcceptor::from(config).accept(stream);
            if let Ok(Ok(stream)) = timeout(HANDSHAKE, handshake).await {
                let who = Who(P::of(&stream));
                let _ = sender.send((stream, who)).await;
            }
        });
    }
}

impl<P: Peer> Listener for TlsListener<P> {
    type Io = TlsStream<TcpStream>;
    type Addr = Who<P>;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.accepted.recv().await {
            Some(accepted) => accepted,
            // Whoever accepts has stopped, and so will axum.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Err(io::Error::other(
            "the other side is known by connection only",
        ))
    }
}

impl<P: Peer> Connected<IncomingStream<'_, TlsListener<P>>> for Who<P> {
    fn connect_info(stream: IncomingStream<'_, TlsListener<P>>) -> Self {
        stream.remote_addr().clone()
    }
}
