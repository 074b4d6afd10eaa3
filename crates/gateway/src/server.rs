//! Listens, with TLS.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::Client;
use polyvirt_contract::grpc::common_name;
use polyvirt_listener::{Settings, TlsListener, Who};
use polyvirt_pki::{Serving, ServingError, Source};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::front_proxy::FrontProxy;
use crate::machines::Machines;
use crate::register;
use crate::routes::{Shared, routes};

/// So often we look at the least whether the API server has got new certificates, or ours is to be renewed.
const REFRESH: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_secs(5);

/// Where the API server finds us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The namespace of the Service.
    pub namespace: String,
    /// The Service in front of us.
    pub service: String,
    /// The port of the Service.
    pub port: u16,
    /// What the Service stands for.
    pub reach: Reach,
    /// Which group comes first where kinds have one name.
    pub order: Order,
}

/// Which group comes first for a plural that two of them have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The first by its name.
    #[default]
    ByName,
    /// `novacron.io`.
    NovacronFirst,
}

/// What the Service stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Pods; somebody else has made it.
    Pods,
    /// A machine outside the cluster, by its name; we make the Service.
    Host(String),
}

impl Place {
    /// The name that the API server looks for in our certificate.
    pub(crate) fn server_name(&self) -> String {
        format!("{}.{}.svc", self.service, self.namespace)
    }
}

/// Why consoles cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The API server has published nothing about itself.
    #[error(
        "Cannot read what the API server tells of itself in kube-system/extension-apiserver-authentication ({0}): give the manager the role extension-apiserver-authentication-reader"
    )]
    NoFrontProxy(#[source] kube::Error),
    /// The API server hands nothing on.
    #[error(
        "The API server does not aggregate APIs: start it with --requestheader-client-ca-file and its companions"
    )]
    NoAggregation,
    /// A certificate that cannot be read.
    #[error("A certificate or key cannot be read: {0}")]
    BadAuthority(String),
    /// There is no certificate to show.
    #[error("The gateway has no certificate: {0}")]
    Certificate(#[from] ServingError),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// The verifier cannot be set up.
    #[error("The certificates of the API server cannot be checked: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    /// The API server refused.
    #[error("The API server refused: {0}")]
    Kube(#[from] kube::Error),
}

/// Consoles and commands in guests, served to the API server.
pub struct Gateway {
    shared: Arc<Shared>,
    serving: Serving,
    tls: Settings,
    place: Place,
}

impl Gateway {
    /// Learns from the API server whom to believe, and shows the certificate of that source.
    pub async fn prepare(
        client: Client,
        machines: Arc<dyn Machines>,
        place: Place,
        certificate: Source,
    ) -> Result<Self, GatewayError> {
        let front_proxy = FrontProxy::read(&client).await?;
        register::service(&client, &place).await?;
        let serving = Serving::new(certificate, vec![place.server_name()]);
        serving.keep(Timestamp::now()).await?;
        let tls = Settings::new(config(&front_proxy, &serving)?);
        let shared = Arc::new(Shared::new(client, machines, front_proxy));
        Ok(Self {
            shared,
            serving,
            tls,
            place,
        })
    }

    /// Serves until it is told to stop, and tells the API server so.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let incoming = TlsListener::<Peer>::new(listener, self.tls.clone(), stop.clone());
        let service =
            routes(self.shared.clone()).into_make_service_with_connect_info::<Who<Peer>>();
        tokio::spawn(self.look_after(stop.clone()));
        let served = axum::serve(incoming, service);
        let served = served.with_graceful_shutdown(stop.cancelled_owned());
        if let Err(error) = served.await {
            tracing::error!(%error, "consoles are no longer served");
        }
    }

    /// Does what is due, again and again.
    async fn look_after(self, stop: CancellationToken) {
        let mut told = None;
        loop {
            let Some(done) = stop.run_until_cancelled(self.look(&mut told)).await else {
                return;
            };
            let pause = done.unwrap_or_else(|error| {
                tracing::warn!(%error, "the gateway could not be looked after; it is tried again");
                RETRY
            });
            if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    /// Tells how long nothing is to be done. The API server is told whom to trust when that changes.
    async fn look(&self, told: &mut Option<ByteString>) -> Result<Duration, GatewayError> {
        let kept = self.serving.keep(Timestamp::now()).await?;
        let pause = kept.pause(REFRESH);
        let trusted = Some(ByteString(kept.trusted));
        if *told != trusted {
            register::api(&self.shared.client, &self.place, trusted.as_ref()).await?;
            *told = trusted;
        }
        self.take_over(FrontProxy::read(&self.shared.client).await?)?;
        Ok(pause)
    }

    /// Takes over new certificates of the API server, which it changes about once a year.
    fn take_over(&self, now: FrontProxy) -> Result<(), GatewayError> {
        if now == *self.shared.front_proxy() {
            return Ok(());
        }
        tracing::info!("the API server has got new front-proxy settings");
        self.tls.replace(config(&now, &self.serving)?);
        let mut held = self.shared.front_proxy.write();
        **held.as_mut().unwrap_or_else(|held| held.get_mut()) = Arc::new(now);
        Ok(())
    }
}

/// A certificate is asked for, and checked if there is one; requests without one are refused later, with words.
fn config(front_proxy: &FrontProxy, serving: &Serving) -> Result<Arc<ServerConfig>, GatewayError> {
    let verifier = WebPkiClientVerifier::builder(Arc::new(front_proxy.roots()?))
        .allow_unauthenticated()
        .build()?;
    let mut config = ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(serving.shown());
    // A websocket begins as HTTP/1.1.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The other side of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The name in its certificate, if that was verified.
    pub common_name: Option<String>,
}

impl polyvirt_listener::Peer for Peer {
    fn of(stream: &TlsStream<TcpStream>) -> Self {
        let certificates = stream.get_ref().1.peer_certificates();
        let own = certificates.and_then(|chain| chain.first());
        Self {
            common_name: own.and_then(|certificate| common_name(certificate)),
        }
    }
}
