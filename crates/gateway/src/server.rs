//! Listens, with TLS.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use polyvirt_contract::grpc::common_name;
use polyvirt_listener::{Settings, TlsListener, Who};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::certificate::Serving;
use crate::front_proxy::FrontProxy;
use crate::machines::Machines;
use crate::register;
use crate::routes::{Shared, routes};

/// So often we look whether the API server has got new certificates.
const REFRESH: Duration = Duration::from_secs(60);

/// Where the API server finds us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The namespace of the Service and of our Secret.
    pub namespace: String,
    /// The Service in front of us.
    pub service: String,
    /// The port of the Service.
    pub port: u16,
    /// What the Service stands for.
    pub reach: Reach,
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
    /// The Secret with our certificate is damaged.
    #[error(
        "Secret {0} has no {1}: remove the Secret and restart the manager, which makes a new one"
    )]
    BadSecret(String, &'static str),
    /// Our own certificate.
    #[error("Cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
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
    /// Learns from the API server whom to believe, and makes a certificate if there is none.
    pub async fn prepare(
        client: Client,
        machines: Arc<dyn Machines>,
        place: Place,
    ) -> Result<Self, GatewayError> {
        let front_proxy = FrontProxy::read(&client).await?;
        register::service(&client, &place).await?;
        let serving = Serving::find_or_make(&client, &place).await?;
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
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: CancellationToken,
    ) -> Result<(), GatewayError> {
        let incoming = TlsListener::<Peer>::new(listener, self.tls.clone(), stop.clone());
        tokio::spawn(refresh(
            self.shared.clone(),
            self.serving.clone(),
            self.tls.clone(),
            stop.clone(),
        ));
        let authority = self.serving.authority();
        register::api(&self.shared.client, &self.place, authority).await?;
        let service = routes(self.shared).into_make_service_with_connect_info::<Who<Peer>>();
        let served = axum::serve(incoming, service);
        let served = served.with_graceful_shutdown(stop.cancelled_owned());
        if let Err(error) = served.await {
            tracing::error!(%error, "consoles are no longer served");
        }
        Ok(())
    }
}

/// A certificate is asked for, and checked if there is one; requests without one are refused later, with words.
fn config(front_proxy: &FrontProxy, serving: &Serving) -> Result<Arc<ServerConfig>, GatewayError> {
    let (chain, key) = serving.parts()?;
    let verifier = WebPkiClientVerifier::builder(Arc::new(front_proxy.roots()?))
        .allow_unauthenticated()
        .build()?;
    let mut config = ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    // A websocket begins as HTTP/1.1.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Takes over new certificates of the API server, which it changes about once a year.
async fn refresh(shared: Arc<Shared>, serving: Serving, tls: Settings, stop: CancellationToken) {
    while stop.run_until_cancelled(sleep(REFRESH)).await.is_some() {
        let read = FrontProxy::read(&shared.client).await;
        match read.and_then(|now| Ok((config(&now, &serving)?, now))) {
            Ok((_, now)) if now == *shared.front_proxy() => {}
            Ok((config, now)) => {
                tracing::info!("the API server has got new front-proxy settings");
                tls.replace(config);
                let mut held = shared.front_proxy.write();
                **held.as_mut().unwrap_or_else(|held| held.get_mut()) = Arc::new(now);
            }
            Err(error) => {
                tracing::debug!(%error, "the API server's certificates could not be read again");
            }
        }
    }
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
