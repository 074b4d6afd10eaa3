//! A provider in pods of its own.
//!
//! ```text
//!   Provider ──► settings.rs   which image, and whether it may run here
//!            ──► tls.rs        certificates: ours, renewed; a Secret's; none
//!            ──► workload.rs, environment.rs, network.rs    what is to be there; pure
//!            ──► apply.rs      server-side apply, only of what is not known to be there
//!            ──► pods.rs       how many answer, and why the others do not
//!   watch.rs tells which Provider to look at when somebody touches what is there
//! ```
//!
//! All objects are in the Provider's namespace and are owned by it: they go when it goes. A crash anywhere in between leaves
//! a part of them, and the next pass makes the rest.

mod apply;
mod environment;
pub mod names;
mod network;
mod pods;
mod settings;
mod tls;
mod watch;
mod workload;

use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::{BoxStream, StreamExt as _};
use jiff::Timestamp;
use kube::Client;
use polyvirt_api::infra::{Provider, RuntimeMode};
use polyvirt_contract::grpc::Target;
use polyvirt_engine::provider::{NoWay, Place, Way};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_pki::Keeper;
use polyvirt_plan::{Problem, Reason};
use serde_json::Value;
use tokio::sync::{OnceCell, mpsc};
use tokio_stream::wrappers::UnboundedReceiverStream;

pub use settings::{Image, Settings};

use crate::address::Dial;
use crate::credentials;
use apply::Applied;
use names::{host, object_name};
use tls::{Certificates, OwnCertificates};
use watch::Watched;
use workload::Parts;

/// Makes and looks after the pods of Providers.
pub struct Remote {
    client: Client,
    settings: Settings,
    certificates: OwnCertificates,
    applied: Applied,
    watched: Arc<Watched>,
    watching: OnceCell<()>,
    news: Mutex<Option<mpsc::UnboundedReceiver<ObjectKey>>>,
}

impl Remote {
    /// Nothing is done before the first Provider needs it. Certificates are signed by the keeper's authority.
    pub fn new(client: Client, settings: Settings, keeper: Arc<Keeper>) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self {
            certificates: OwnCertificates::new(client.clone(), keeper),
            applied: Applied::new(client.clone()),
            watched: Arc::new(Watched::new(sender)),
            watching: OnceCell::new(),
            news: Mutex::new(Some(receiver)),
            client,
            settings,
        }
    }

    /// Providers whose objects somebody has touched. Asked for once.
    pub fn news(&self) -> BoxStream<'static, ObjectKey> {
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        match news.take() {
            Some(receiver) => UnboundedReceiverStream::new(receiver).boxed(),
            None => futures::stream::pending().boxed(),
        }
    }

    /// Brings the Provider's objects up to date, and says how to reach its pods.
    pub async fn way(&self, provider: &Provider) -> Result<Way, NoWay> {
        let image = self.settings.image_for(provider)?;
        self.watch().await;
        let now = Timestamp::now();
        let certificates = self.certificates(provider, now).await?;
        let parts = self.parts(provider, image, &certificates).await?;
        let key = ObjectKey::of(provider);
        if self.watched.take_touched(&key) {
            self.applied.doubt(&key);
        }
        let objects = self.objects(provider, &parts);
        self.applied.ensure(&key, provider, objects).await?;
        self.found(provider, certificates).await
    }

    async fn watch(&self) {
        let start = || async { watch::start(&self.client, &self.settings, &self.watched) };
        self.watching.get_or_init(start).await;
    }

    async fn certificates(
        &self,
        provider: &Provider,
        now: Timestamp,
    ) -> Result<Certificates, NoWay> {
        let host = host(&ObjectKey::of(provider), &self.settings.cluster_domain);
        tls::certificates(&self.certificates, &self.settings, provider, &host, now).await
    }

    fn objects(&self, provider: &Provider, parts: &Parts) -> Vec<Value> {
        vec![
            workload::service_account(provider),
            network::policy(provider, &self.settings),
            workload::service(provider),
            workload::deployment(provider, parts),
        ]
    }

    async fn parts(
        &self,
        provider: &Provider,
        image: Image,
        certificates: &Certificates,
    ) -> Result<Parts, NoWay> {
        let mut seals = Vec::new();
        if let Some(seal) = self.credentials(provider).await? {
            seals.push(("credentials", seal));
        }
        // Ours reads new certificates by itself; others know only that of their own side.
        if let Some(trust) = certificates.trust.clone().filter(|_| !is_ours(&image)) {
            seals.push(("trust", trust));
        }
        Ok(Parts {
            image,
            tls_secret: certificates.secret.clone(),
            seals,
        })
    }

    /// A word for the credentials, from which nobody can tell what they are.
    async fn credentials(&self, provider: &Provider) -> Result<Option<String>, NoWay> {
        let Some(wanted) = &provider.spec.credential_secret_ref else {
            return Ok(None);
        };
        let own = provider.metadata.namespace.as_deref().unwrap_or_default();
        if wanted.namespace_or(own) != own {
            return Err(elsewhere(&wanted.name, own).into());
        }
        let credentials = credentials::read(&self.client, provider).await?;
        let pairs: Vec<_> = credentials.iter().map(|(k, v)| (k, v.as_ref())).collect();
        let text = serde_json::to_vec(&pairs).unwrap_or_default();
        self.certificates.seal(&text).await.map(Some)
    }

    async fn found(&self, provider: &Provider, certificates: Certificates) -> Result<Way, NoWay> {
        let key = ObjectKey::of(provider);
        let port = workload::port(provider);
        let endpoint = format!("{}:{port}", host(&key, &self.settings.cluster_domain));
        let mut target = Target::new(&endpoint);
        target.tls = certificates.source;
        let pods = pods::look(&self.client, &key, self.watched.deployment(&key)).await;
        Ok(Way {
            connector: Arc::new(Dial(target)),
            made_from: format!("{endpoint} {}", certificates.version),
            place: Place {
                mode: Some(RuntimeMode::Remote),
                endpoint: Some(endpoint),
                service: Some(object_name(&key)),
                pods: Some(pods),
                security: certificates.security,
                look_again: certificates.look_again,
            },
        })
    }

    /// Takes away what a Provider had in pods that no longer is to run in them.
    pub async fn remove(&self, provider: &Provider) -> Result<(), NoWay> {
        self.applied
            .remove(&ObjectKey::of(provider), provider)
            .await
    }

    /// The Provider is gone, and its objects go with it.
    pub fn forget(&self, provider: &ObjectKey) {
        self.applied.doubt(provider);
    }
}

fn is_ours(image: &Image) -> bool {
    matches!(image, Image::Ours(_))
}

fn elsewhere(name: &str, own: &str) -> Problem {
    let text = format!(
        "Pods can use Secrets of their own namespace only: put {name} into namespace {own}, or choose mode InProcess"
    );
    Problem::new(
        Reason::SecretInvalid,
        "spec.credentialSecretRef.namespace",
        text,
    )
}
