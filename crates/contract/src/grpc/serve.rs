//! A provider behind a port, until told to stop.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::{Connected, Router};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::provider::Provider;

use super::server::Server;
use super::tls::{Clients, Material, ServerTls, TlsError};
use super::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES};

const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HANDSHAKES_AT_ONCE: usize = 256;

/// The names that managers in the field and tools ask the health service for.
const HEALTH_NAMES: [&str; 4] = [
    "",
    "provider",
    "provider.v1.Provider",
    "polyvirt.provider.v1.Extensions",
];

/// Why a provider is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port cannot be had.
    #[error("Cannot listen on {address}: choose another port or stop what uses it")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The certificates cannot be used.
    #[error("Cannot set up TLS")]
    Tls(#[from] TlsError),
    /// The server failed.
    #[error("The server failed")]
    Transport(#[from] tonic::transport::Error),
}

/// Where to listen.
#[derive(Debug)]
pub enum Listen {
    /// Bind this address.
    Address(SocketAddr),
    /// Take this socket, for example to know the port before.
    Bound(TcpListener),
}

/// How to serve.
#[derive(Debug)]
pub struct ServeOptions {
    /// Where to listen.
    pub listen: Listen,
    /// mTLS; `None` for plain text.
    pub tls: Option<ServerTls>,
    /// How long open calls may take to end after the stop.
    pub grace: Duration,
}

impl ServeOptions {
    /// Plain text.
    pub const fn new(listen: Listen) -> Self {
        Self {
            listen,
            tls: None,
            grace: Duration::from_secs(15),
        }
    }

    /// With mTLS.
    #[must_use]
    pub fn with_tls(mut self, tls: ServerTls) -> Self {
        self.tls = Some(tls);
        self
    }
}

/// Serves both services and `grpc.health.v1.Health` until `shutdown` is ready, then lets open calls end.
pub async fn serve(
    provider: Arc<dyn Provider>,
    options: ServeOptions,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let acceptor = match options.tls {
        Some(tls) => Some(Acceptor::load(tls).await?),
        None => None,
    };
    let listener = bind(options.listen).await?;
    let stop = CancellationToken::new();
    let (router, health) = router(provider, stop.clone()).await;
    let stopping = stop.clone();
    let drained = async move {
        shutdown.await;
        set_health(&health, ServingStatus::NotServing).await;
        stopping.cancel();
    };
    let connections = accepted(listener);
    let serving = Box::pin(async {
        match acceptor {
            None => run(router, connections.map(Ok), drained).await,
            Some(acceptor) => run(router, acceptor.handshakes(connections), drained).await,
        }
    });
    tokio::select! {
        result = serving => result,
        () = after(&stop, options.grace) => Ok(()),
    }
}

async fn bind(listen: Listen) -> Result<TcpListener, ServeError> {
    match listen {
        Listen::Bound(listener) => Ok(listener),
        Listen::Address(address) => TcpListener::bind(address)
            .await
            .map_err(|source| ServeError::Bind { address, source }),
    }
}

async fn router(provider: Arc<dyn Provider>, stop: CancellationToken) -> (Router, HealthReporter) {
    let (reporter, health) = tonic_health::server::health_reporter();
    set_health(&reporter, ServingStatus::Serving).await;
    let (basic, extensions) = Server::new(provider).with_stop(stop).into_services();
    let router = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(PING_INTERVAL))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .add_service(health)
        .add_service(basic)
        .add_service(extensions);
    (router, reporter)
}

async fn set_health(reporter: &HealthReporter, status: ServingStatus) {
    for name in HEALTH_NAMES {
        reporter.set_service_status(name, status).await;
    }
}

async fn run<IO>(
    router: Router,
    connections: impl Stream<Item = io::Result<IO>>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError>
where
    IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    Ok(router
        .serve_with_incoming_shutdown(connections, stop)
        .await?)
}

async fn after(stop: &CancellationToken, grace: Duration) {
    stop.cancelled().await;
    tokio::time::sleep(grace).await;
}

/// Connections for ever: an error of one, or of having too many, must not end the server.
fn accepted(listener: TcpListener) -> impl Stream<Item = TcpStream> + Send {
    stream::unfold(listener, |listener| async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) if stream.set_nodelay(true).is_ok() => {
                    return Some((stream, listener));
                }
                Ok(_) => {}
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    })
}

/// Shakes hands with the certificates of the moment.
struct Acceptor {
    tls: ServerTls,
    current: Mutex<Current>,
}

struct Current {
    source: [Bytes; 3],
    config: Arc<ServerConfig>,
}

impl Current {
    fn new(material: Material, clients: &Clients) -> Result<Self, TlsError> {
        Ok(Self {
            source: material.source.clone(),
            config: Arc::new(material.into_server_config(clients)?),
        })
    }

    /// `None` if nothing has changed.
    fn replaced_by(&self, material: Material, clients: &Clients) -> Result<Option<Self>, TlsError> {
        let changed = material.source != self.source;
        changed.then(|| Self::new(material, clients)).transpose()
    }
}

impl Acceptor {
    async fn load(tls: ServerTls) -> Result<Self, TlsError> {
        let current = Mutex::new(Current::new(tls.material().await?, &tls.clients)?);
        Ok(Self { tls, current })
    }

    fn handshakes(
        self,
        connections: impl Stream<Item = TcpStream> + Send,
    ) -> impl Stream<Item = io::Result<TlsStream<TcpStream>>> + Send {
        let acceptor = Arc::new(self);
        connections
            .map(move |stream| {
                let acceptor = acceptor.clone();
                async move { acceptor.handshake(stream).await }
            })
            .buffer_unordered(HANDSHAKES_AT_ONCE)
            .filter_map(|connection| async { connection.map(Ok) })
    }

    /// `None` for a peer that we do not let in; it has been told why.
    async fn handshake(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let accept = async {
            let config = self.fresh_config().await;
            TlsAcceptor::from(config).accept(stream).await.ok()
        };
        tokio::time::timeout(HANDSHAKE_TIMEOUT, accept).await.ok()?
    }

    /// Rotated certificates hold from the next connection on; while they are half written, the old ones do.
    async fn fresh_config(&self) -> Arc<ServerConfig> {
        let read = self.tls.material().await;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match read.and_then(|material| current.replaced_by(material, &self.tls.clients)) {
            Ok(Some(rotated)) => *current = rotated,
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "New certificates are unusable, the old ones stay");
            }
        }
        current.config.clone()
    }
}
