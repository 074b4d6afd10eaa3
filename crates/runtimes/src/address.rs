//! A provider at an address, and the certificates of a Secret that both sides use.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use polyvirt_api::infra::{Provider as ProviderObject, ProviderTls, RuntimeMode};
use polyvirt_contract::grpc::{self, Pem, ServerCheck, Target, TlsFiles};
use polyvirt_contract::{Provider, ProviderError};
use polyvirt_engine::link::session::Connector;
use polyvirt_engine::provider::{NoWay, Place, Security, Way};
use polyvirt_plan::{Problem, Reason};

use crate::refusal;

const SECRET_FIELD: &str = "spec.runtime.service.tls.secretRef.name";

/// Connects to a target.
pub struct Dial(pub Target);

#[async_trait]
impl Connector for Dial {
    async fn connect(&self) -> Result<Arc<dyn Provider>, ProviderError> {
        Ok(Arc::new(grpc::connect(self.0.clone())?))
    }
}

/// What a Provider says about encryption.
pub fn tls_of(provider: &ProviderObject) -> Option<&ProviderTls> {
    let service = provider.spec.runtime.as_ref()?.service.as_ref()?;
    service.tls.as_ref()
}

/// The Secret with certificates that a Provider names.
pub fn secret_of(provider: &ProviderObject) -> Option<&str> {
    let secret = tls_of(provider)?.secret_ref.as_ref()?;
    Some(secret.name.as_str()).filter(|name| !name.is_empty())
}

/// Whether a Provider wants nothing encrypted.
pub fn is_plain(provider: &ProviderObject) -> bool {
    tls_of(provider).is_some_and(|tls| !tls.enabled)
}

/// Certificates of a Secret, and a word that changes with them.
pub struct FromSecret {
    /// What a client needs.
    pub files: TlsFiles,
    /// Changes with the Secret.
    pub version: String,
    /// What is to be told of it.
    pub security: Security,
}

/// Reads the certificates of the Secret that the Provider names.
pub async fn from_secret(
    client: &Client,
    provider: &ProviderObject,
    name: &str,
    host: &str,
) -> Result<FromSecret, NoWay> {
    let problem = |text: String| Problem::new(Reason::SecretInvalid, SECRET_FIELD, text);
    let secret = read_secret(client, provider, name).await?;
    let data = secret.data.unwrap_or_default();
    let pem = |key: &str| {
        let value = data.get(key);
        let value =
            value.ok_or_else(|| problem(format!("Secret {name} has no key {key}. Add it")))?;
        Ok::<_, Problem>(Pem::Inline(value.0.clone().into()))
    };
    let (check, security) = match tls_of(provider) {
        Some(tls) if tls.insecure_skip_verify => (ServerCheck::Skip, Security::Unverified),
        _ => (ServerCheck::Full, Security::Secret(name.to_owned())),
    };
    let files = TlsFiles {
        ca: pem("ca.crt")?,
        cert: pem("tls.crt")?,
        key: pem("tls.key")?,
        domain_name: Some(host.to_owned()),
        check,
    };
    let version = secret.metadata.resource_version.unwrap_or_default();
    Ok(FromSecret {
        files,
        version,
        security,
    })
}

async fn read_secret(
    client: &Client,
    provider: &ProviderObject,
    name: &str,
) -> Result<Secret, NoWay> {
    let problem = |text: String| Problem::new(Reason::SecretInvalid, SECRET_FIELD, text);
    let namespace = provider.metadata.namespace.as_deref().unwrap_or_default();
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = api.get_opt(name).await;
    let found = found.map_err(|e| {
        let why = refusal::words(&e);
        refusal::told(&e, problem(format!("Secret {name} cannot be read: {why}")))
    })?;
    let absent = "does not exist. Create it with tls.crt, tls.key and ca.crt";
    found.ok_or_else(|| problem(format!("Secret {name} {absent}")).into())
}

/// Reaches providers that run already.
pub struct External {
    client: Client,
}

impl External {
    /// Secrets are read through the client.
    pub const fn new(client: Client) -> Self {
        Self { client }
    }

    /// The way to the address that the Provider names.
    pub async fn way(&self, provider: &ProviderObject) -> Result<Way, NoWay> {
        let endpoint = provider.spec.endpoint.as_deref().ok_or_else(no_address)?;
        let address = endpoint
            .trim_start_matches("grpc://")
            .trim_start_matches("tcp://");
        let mut target = Target::new(address);
        let (security, version) = if is_plain(provider) {
            (Security::Plain, "plain".to_owned())
        } else {
            let name = secret_of(provider).ok_or_else(no_certificates)?;
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            let read = from_secret(&self.client, provider, name, host).await?;
            target = target.with_tls(read.files);
            (read.security, read.version)
        };
        Ok(Way {
            connector: Arc::new(Dial(target)),
            made_from: format!("{endpoint} {version}"),
            place: Place {
                mode: Some(RuntimeMode::External),
                endpoint: Some(address.to_owned()),
                security,
                ..Place::default()
            },
        })
    }
}

fn no_address() -> Problem {
    let text = "Mode External needs the address of the provider, for example grpc://host:9443";
    Problem::new(Reason::InvalidConfiguration, "spec.endpoint", text)
}

fn no_certificates() -> Problem {
    let text = "Name a Secret with tls.crt, tls.key and ca.crt, or set spec.runtime.service.tls.enabled to false for plain text";
    Problem::new(Reason::InvalidConfiguration, SECRET_FIELD, text)
}
