//! From an address to a client. Nothing is sent before the first call, and a lost connection is made anew by the next one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Endpoint, Uri};

use crate::error::ProviderError;

use super::client::Client;
use super::deadline::Deadlines;
use super::tls::{TlsFiles, TlsSource};
use super::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES};

/// Calls that queue behind a failed attempt share its failure: else each would wait for an attempt of its own.
const FAILURE_SHARED_FOR: Duration = Duration::from_millis(500);

/// Servers in the field allow a ping every 5 s, and only while a call is open.
const PING_INTERVAL: Duration = Duration::from_secs(15);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Where a provider listens, and how to reach it.
#[derive(Clone, Debug)]
pub struct Target {
    /// `host:port`, or with `http://` or `https://` in front, which must then agree with `tls`.
    pub uri: String,
    /// mTLS; `None` for plain text.
    pub tls: Option<TlsSource>,
    /// How long it may take to connect, handshake included.
    pub connect_timeout: Duration,
    /// How long each call may take.
    pub deadlines: Deadlines,
}

impl Target {
    /// Plain text to an address.
    pub fn new(uri: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            tls: None,
            connect_timeout: Duration::from_secs(5),
            deadlines: Deadlines::default(),
        }
    }

    /// With mTLS.
    #[must_use]
    pub fn with_tls(mut self, tls: impl Into<TlsSource>) -> Self {
        self.tls = Some(tls.into());
        self
    }

    fn address(&self) -> Result<Address, ProviderError> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let authority = match self.uri.split_once("://") {
            None => self.uri.as_str(),
            Some((given, rest)) if given == scheme => rest,
            Some(_) => return Err(self.invalid(&format!("expected {scheme}://host:port"))),
        };
        let uri: Uri = format!("http://{authority}")
            .parse()
            .map_err(|_| self.invalid("expected host:port"))?;
        let (Some(host), Some(port)) = (uri.host(), uri.port_u16()) else {
            return Err(self.invalid("expected host:port"));
        };
        let host = host.trim_matches(['[', ']']).to_owned();
        let origin: Uri = format!("{scheme}://{authority}")
            .parse()
            .map_err(|_| self.invalid("expected host:port"))?;
        Ok(Address {
            host,
            port,
            uri,
            origin,
        })
    }

    fn invalid(&self, what: &str) -> ProviderError {
        ProviderError::invalid(
            "spec.runtime",
            format!(
                "The address {:?} of the provider cannot be used: {what}",
                self.uri
            ),
        )
    }
}

struct Address {
    host: String,
    port: u16,
    /// For the channel, which must not try TLS itself: ours is done in the dialler.
    uri: Uri,
    /// What the server is told.
    origin: Uri,
}

/// A client for the target. Sends nothing yet; must be called inside a tokio runtime.
pub fn connect(target: Target) -> Result<Client, ProviderError> {
    let address = target.address()?;
    let connections = Connections::default();
    let dialler = Arc::new(Dialler {
        host: address.host,
        port: address.port,
        tls: target.tls,
        timeout: target.connect_timeout,
        connections: connections.clone(),
        failed: Mutex::new(None),
    });
    let channel = Endpoint::from(address.uri)
        .origin(address.origin)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(false)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .connect_with_connector_lazy(tower::service_fn(move |_: Uri| dial(dialler.clone())));
    Ok(Client::new(channel)
        .with_deadlines(target.deadlines)
        .with_connections(connections))
}

/// Counts connections, so that what was learned from one peer is not believed of the next.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections(Arc<AtomicU64>);

impl Connections {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn add(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Why a connection could not be made.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
struct DialError(Arc<str>);

impl DialError {
    fn new(cause: &(dyn std::error::Error + 'static)) -> Self {
        let chain = std::iter::successors(Some(cause), |e| e.source());
        let causes: Vec<String> = chain.map(ToString::to_string).collect();
        Self(causes.join(": ").into())
    }
}

struct Dialler {
    host: String,
    port: u16,
    tls: Option<TlsSource>,
    timeout: Duration,
    connections: Connections,
    failed: Mutex<Option<(Instant, DialError)>>,
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}
type Wire = TokioIo<Box<dyn Io>>;

fn dial(dialler: Arc<Dialler>) -> BoxFuture<'static, Result<Wire, DialError>> {
    Box::pin(async move {
        if let Some(error) = dialler.recent_failure() {
            return Err(error);
        }
        let result = match tokio::time::timeout(dialler.timeout, dialler.open()).await {
            Ok(result) => result,
            Err(_) => Err(DialError(
                format!("no connection to {}:{} in time", dialler.host, dialler.port).into(),
            )),
        };
        dialler.remember(result.as_ref().err());
        result
    })
}

impl Dialler {
    async fn open(&self) -> Result<Wire, DialError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .and_then(|s| s.set_nodelay(true).map(|()| s))
            .map_err(|e| DialError(format!("{}:{}: {e}", self.host, self.port).into()))?;
        let io: Box<dyn Io> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => Box::new(self.handshake(&tls.files(), stream).await?),
        };
        Ok(TokioIo::new(io))
    }

    async fn handshake(
        &self,
        tls: &TlsFiles,
        stream: TcpStream,
    ) -> Result<impl Io + use<>, DialError> {
        let config = tls.client_config().await.map_err(|e| DialError::new(&e))?;
        let name = tls.domain_name.clone().unwrap_or_else(|| self.host.clone());
        let name = ServerName::try_from(name).map_err(|e| DialError::new(&e))?;
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .map_err(|e| DialError::new(&e))
    }

    fn recent_failure(&self) -> Option<DialError> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, error) = failed.as_ref()?;
        (at.elapsed() < FAILURE_SHARED_FOR).then(|| error.clone())
    }

    fn remember(&self, error: Option<&DialError>) {
        if error.is_none() {
            self.connections.add();
        }
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = error.map(|e| (Instant::now(), e.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(uri: &str) -> Result<(String, u16), ProviderError> {
        Target::new(uri).address().map(|a| (a.host, a.port))
    }

    #[test]
    fn addresses_with_and_without_scheme() {
        assert_eq!(
            address("svc.ns.svc:9443").unwrap(),
            ("svc.ns.svc".to_owned(), 9443)
        );
        assert_eq!(
            address("http://127.0.0.1:1").unwrap(),
            ("127.0.0.1".to_owned(), 1)
        );
        assert_eq!(address("[::1]:9443").unwrap(), ("::1".to_owned(), 9443));
    }

    #[test]
    fn what_is_no_address_is_refused_with_its_field() {
        for uri in [
            "",
            "host",
            "https://host:1",
            "host:99999",
            "http://",
            "a b:1",
        ] {
            let error = address(uri).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("spec.runtime"), "{uri}");
        }
    }
}
