//! The webhooks as a whole: certificate, server, registration.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use polyvirt_listener::{Settings, TlsListener};
use polyvirt_pki::{Serving, Source};
use rustls::ServerConfig;
use rustls::crypto::ring;
use tokio::net::TcpListener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::error::AdmissionError;
use crate::facts::Facts;
use crate::metrics::Metrics;
use crate::register::{self, ClientConfig, Configuration, FailurePolicy};
use crate::server::{Shared, routes};

/// Where the webhooks are, and who tells the API server so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The namespace of the Service.
    pub namespace: String,
    /// The Service in front of us.
    pub service: String,
    /// The name of the configurations.
    pub configuration: String,
    /// Who makes the configurations.
    pub registration: Registration,
    /// How often we look at the least whether something is due.
    pub look_every: Duration,
}

/// Who makes the configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registration {
    /// Somebody else, such as the chart; the authority is put into them.
    Injected,
    /// We do, and remove them when we stop.
    Own {
        /// Where the API server reaches us: `https://host:port`.
        url: String,
        /// What happens when nobody answers.
        failure_policy: FailurePolicy,
        /// The namespaces that we work in; none means all.
        namespaces: Vec<String>,
    },
}

impl Place {
    /// The names and addresses that the API server may look for in our certificate.
    fn names(&self) -> Vec<String> {
        let service = format!("{}.{}.svc", self.service, self.namespace);
        let full = format!("{service}.cluster.local");
        let mut names = vec![service, full];
        if let Registration::Own { url, .. } = &self.registration {
            names.extend(host(url));
        }
        names
    }
}

/// The host of a URL, without the brackets of IPv6.
fn host(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    let bare = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next()?,
        None => authority.rsplit_once(':').map_or(authority, |(h, _)| h),
    };
    (!bare.is_empty()).then(|| bare.to_owned())
}

/// The webhooks, ready to be served.
pub struct Webhooks {
    client: Client,
    place: Place,
    serving: Serving,
    shared: Arc<Shared>,
}

impl Webhooks {
    /// Shows the certificate of that source.
    pub async fn prepare(
        client: Client,
        place: Place,
        certificate: Source,
        facts: Arc<dyn Facts>,
        metrics: Metrics,
    ) -> Result<Self, AdmissionError> {
        if matches!(place.registration, Registration::Own { .. }) {
            register::namespace(&client, &place.namespace).await?;
        }
        let serving = Serving::new(certificate, place.names());
        serving.keep(Timestamp::now()).await?;
        Ok(Self {
            client,
            place,
            serving,
            shared: Shared::new(facts, metrics),
        })
    }

    /// Serves until it is told to stop. What we registered ourselves goes before the server does.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: CancellationToken,
    ) -> Result<(), AdmissionError> {
        let closed = CancellationToken::new();
        let settings = Settings::new(tls(&self.serving)?);
        let incoming = TlsListener::<()>::new(listener, settings, closed.clone());
        let server = axum::serve(incoming, routes(self.shared.clone()));
        let server = server.with_graceful_shutdown(closed.clone().cancelled_owned());
        let server = tokio::spawn(async move { server.await });
        self.look_after(&stop).await;
        self.sign_off().await;
        closed.cancel();
        if let Ok(Err(error)) = server.await {
            tracing::error!(%error, "webhooks were no longer served");
        }
        Ok(())
    }

    /// Does what is due, again and again.
    async fn look_after(&self, stop: &CancellationToken) {
        loop {
            let Some(done) = stop.run_until_cancelled(self.look()).await else {
                return;
            };
            let pause = done.unwrap_or_else(|error| {
                tracing::warn!(%error, "the webhooks could not be looked after; it is tried again");
                self.place.look_every
            });
            if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    /// Tells how long nothing is to be done.
    async fn look(&self) -> Result<Duration, AdmissionError> {
        let kept = self.serving.keep(Timestamp::now()).await?;
        let pause = kept.pause(self.place.look_every);
        self.register(kept.trusted).await?;
        Ok(pause)
    }

    async fn register(&self, authority: Vec<u8>) -> Result<(), AdmissionError> {
        match &self.place.registration {
            Registration::Injected => {
                register::inject(&self.client, &self.place.configuration, &authority).await
            }
            Registration::Own {
                url,
                failure_policy,
                namespaces,
            } => {
                let configuration = Configuration {
                    name: self.place.configuration.clone(),
                    client: ClientConfig::Url(url.clone()),
                    authority,
                    failure_policy: *failure_policy,
                    namespaces: namespaces.clone(),
                    own_namespace: self.place.namespace.clone(),
                    own_account: register::own_account(&self.client).await?,
                };
                register::apply(&self.client, &configuration).await
            }
        }
    }

    async fn sign_off(&self) {
        if self.place.registration == Registration::Injected {
            return;
        }
        if let Err(error) = register::remove(&self.client, &self.place.configuration).await {
            tracing::warn!(%error, "the webhooks could not be signed off");
        }
    }
}

/// TLS 1.2 and 1.3; whatever certificate is to be shown.
fn tls(serving: &Serving) -> Result<Arc<ServerConfig>, AdmissionError> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(serving.shown());
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_in_urls() {
        for (url, expected) in [
            ("https://127.0.0.1:9443", Some("127.0.0.1")),
            ("https://[::1]:9443/x", Some("::1")),
            ("https://a.example", Some("a.example")),
            ("a.example", None),
        ] {
            assert_eq!(host(url).as_deref(), expected, "{url}");
        }
    }
}
