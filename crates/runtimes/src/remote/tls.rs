//! The certificates of a provider's pods, and of the manager that calls them.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use polyvirt_api::infra::Provider;
use polyvirt_contract::grpc::{Pem, ServerCheck, TlsFiles, TlsSource};
use polyvirt_engine::provider::{NoWay, Security};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_pki::authority::mark;
use polyvirt_pki::leaf::{self, Due, Notes};
use polyvirt_pki::{Issued, Keeper, Keyring, MANAGER_NAME, Purpose, Subject};
use polyvirt_plan::{Problem, Reason};
use serde_json::json;
use tokio::sync::{Mutex, watch};

use super::names::{hosts, labels, tls_secret_name};
use super::settings::Settings;
use super::{apply, workload};
use crate::address::{from_secret, is_plain, secret_of};

/// What both sides of a connection have.
pub struct Certificates {
    /// What the manager connects with; `None` for plain text.
    pub source: Option<TlsSource>,
    /// The Secret that the pods use.
    pub secret: Option<String>,
    /// Changes when a new session is needed.
    pub version: String,
    /// Changes with the authorities that are trusted.
    pub trust: Option<String>,
    /// What is to be told of it.
    pub security: Security,
    /// When something has to be renewed.
    pub look_again: Option<Duration>,
}

/// The certificates that a Provider asks for.
pub async fn certificates(
    own: &OwnCertificates,
    settings: &Settings,
    provider: &Provider,
    host: &str,
    now: Timestamp,
) -> Result<Certificates, NoWay> {
    if is_plain(provider) {
        return Ok(Certificates {
            source: None,
            secret: None,
            version: "plain".to_owned(),
            trust: None,
            security: Security::Plain,
            look_again: None,
        });
    }
    let Some(name) = secret_of(provider) else {
        return own.certificates(settings, provider, host, now).await;
    };
    let read = from_secret(&own.client, provider, name, host).await?;
    Ok(Certificates {
        source: Some(read.files.into()),
        secret: Some(name.to_owned()),
        trust: Some(read.version.clone()),
        version: format!("{name} {}", read.version),
        security: read.security,
        look_again: None,
    })
}

/// The manager's certificate, and until when it is good.
struct Manager {
    files: watch::Sender<TlsFiles>,
    notes: Notes,
}

/// Certificates of the manager's own authority.
pub struct OwnCertificates {
    client: Client,
    keeper: Arc<Keeper>,
    manager: Mutex<Option<Manager>>,
}

impl OwnCertificates {
    /// Signed by the keeper's authority.
    pub fn new(client: Client, keeper: Arc<Keeper>) -> Self {
        Self {
            client,
            keeper,
            manager: Mutex::new(None),
        }
    }

    /// A word that changes with the text, and does not give it away.
    pub async fn seal(&self, text: &[u8]) -> Result<String, NoWay> {
        let keyring = self.keeper.keyring(Timestamp::now()).await;
        Ok(keyring.map_err(|e| unavailable(&e))?.seal(text))
    }

    async fn certificates(
        &self,
        settings: &Settings,
        provider: &Provider,
        host: &str,
        now: Timestamp,
    ) -> Result<Certificates, NoWay> {
        let keyring = self
            .keeper
            .keyring(now)
            .await
            .map_err(|e| unavailable(&e))?;
        let (files, manager_until) = self.manager(&keyring, now).await?;
        let until = self.provider(settings, provider, &keyring, now).await?;
        let look_again = self.keeper.look_again(until.min(manager_until), now).await;
        let look_again = look_again.map_err(|e| unavailable(&e))?;
        Ok(Certificates {
            source: Some(TlsSource::live(files, host)),
            secret: Some(tls_secret_name(&ObjectKey::of(provider))),
            version: "own".to_owned(),
            trust: Some(mark(keyring.bundle().as_bytes())),
            security: Security::Own,
            look_again: Some(look_again.max(Duration::from_secs(1))),
        })
    }

    /// The manager's certificate is nobody else's business: it is not kept.
    async fn manager(
        &self,
        keyring: &Keyring,
        now: Timestamp,
    ) -> Result<(watch::Receiver<TlsFiles>, Timestamp), NoWay> {
        let mut manager = self.manager.lock().await;
        let subject = Subject {
            name: MANAGER_NAME.to_owned(),
            names: vec![MANAGER_NAME.to_owned()],
            purpose: Purpose::Client,
        };
        let notes = manager.as_ref().map(|m| &m.notes);
        let lifetimes = &self.keeper.lifetimes;
        if leaf::due(notes, keyring, &subject, lifetimes, now) != Due::Nothing {
            let issued = leaf::issue(keyring, &subject, lifetimes, now);
            let (issued, notes) = issued.map_err(|e| unavailable(&e))?;
            *manager = Some(renewed(manager.take(), keyring, issued, notes));
        }
        match &*manager {
            Some(manager) => Ok((manager.files.subscribe(), manager.notes.until)),
            None => Err(unavailable(&"the manager has no certificate")),
        }
    }

    /// Brings the Secret of the Provider's pods up to date, and tells until when its certificate is good.
    async fn provider(
        &self,
        settings: &Settings,
        provider: &Provider,
        keyring: &Keyring,
        now: Timestamp,
    ) -> Result<Timestamp, NoWay> {
        let key = ObjectKey::of(provider);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), key.namespace());
        let name = tls_secret_name(&key);
        let found = api.get_opt(&name).await.map_err(|e| unavailable(&e))?;
        apply::check_owner(
            found.as_ref().map(|s| &s.metadata),
            provider,
            "Secret",
            &name,
        )?;
        let subject = Subject {
            name: name.clone(),
            names: hosts(&key, &settings.cluster_domain),
            purpose: Purpose::Server,
        };
        let known = found.as_ref().and_then(whole);
        let lifetimes = &self.keeper.lifetimes;
        let (issued, notes) = match leaf::due(known.as_ref(), keyring, &subject, lifetimes, now) {
            Due::Nothing => return Ok(known.map_or(now, |n| n.until)),
            Due::Bundle => {
                let until = known.map_or(now, |n| n.until);
                (kept(found), Notes::new(keyring, &subject, until))
            }
            Due::Renewal => {
                let issued = leaf::issue(keyring, &subject, lifetimes, now);
                let (issued, notes) = issued.map_err(|e| unavailable(&e))?;
                (Some(issued), notes)
            }
        };
        let issued = issued.ok_or_else(|| unavailable(&"its certificate went away meanwhile"))?;
        let secret = secret(provider, &name, keyring, &issued, &notes);
        let params = PatchParams::apply(apply::FIELD_MANAGER).force();
        let written = api.patch(&name, &params, &Patch::Apply(secret)).await;
        written.map_err(|e| unavailable(&e))?;
        Ok(notes.until)
    }
}

/// What the Secret says of itself, if nothing is missing.
fn whole(secret: &Secret) -> Option<Notes> {
    let data = secret.data.as_ref()?;
    let parts = ["tls.crt", "tls.key", "ca.crt"];
    let complete = parts.iter().all(|key| data.contains_key(*key));
    let notes = Notes::read(secret.metadata.annotations.as_ref()?)?;
    complete.then_some(notes)
}

fn kept(secret: Option<Secret>) -> Option<Issued> {
    let mut data = secret?.data?;
    let mut text = |key: &str| String::from_utf8(data.remove(key)?.0).ok();
    Some(Issued {
        certificate: text("tls.crt")?,
        key: text("tls.key")?,
    })
}

fn secret(
    provider: &Provider,
    name: &str,
    keyring: &Keyring,
    issued: &Issued,
    notes: &Notes,
) -> serde_json::Value {
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": provider.metadata.namespace,
            "labels": labels(provider),
            "annotations": notes.annotations(),
            "ownerReferences": [workload::owner(provider)],
        },
        "type": "kubernetes.io/tls",
        "data": {
            "tls.crt": bytes(&issued.certificate),
            "tls.key": bytes(&issued.key),
            "ca.crt": bytes(&keyring.bundle()),
        },
    })
}

/// The next certificate of the manager, for all that hold the last one.
fn renewed(last: Option<Manager>, keyring: &Keyring, issued: Issued, notes: Notes) -> Manager {
    let files = TlsFiles {
        ca: Pem::Inline(keyring.bundle().into_bytes().into()),
        cert: Pem::Inline(issued.certificate.into_bytes().into()),
        key: Pem::Inline(issued.key.into_bytes().into()),
        domain_name: None,
        check: ServerCheck::Full,
    };
    let sender = match last {
        Some(last) => {
            last.files.send_replace(files);
            last.files
        }
        None => watch::Sender::new(files),
    };
    Manager {
        files: sender,
        notes,
    }
}

/// Certificates are ours to make: whatever stands in the way is not the Provider's fault, and may pass.
fn unavailable(error: &dyn std::fmt::Display) -> NoWay {
    let text = format!("The certificates of the provider cannot be made: {error}");
    NoWay::Unknown(Problem::new(
        Reason::SecretInvalid,
        "spec.runtime.service.tls",
        text,
    ))
}
