//! The Secret with the keyring. Whoever works with it reads it anew now and then; a write that somebody else was quicker to
//! make is not made.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::Mutex;

use crate::authority::PkiError;
use crate::keyring::{Keyring, KeyringError};
use crate::rotation::{Lifetimes, Move};
use crate::secret::{is_empty, written_over};

/// The Secret with the manager's own certificate authority, in the manager's namespace.
pub const AUTHORITY_SECRET: &str = "polyvirt-provider-ca";

/// How long a keyring is believed without looking at the Secret: managers that stand beside each other show certificates that
/// all of them have told the API server to trust.
const FRESH: SignedDuration = SignedDuration::from_mins(1);

/// Why there is no keyring.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// The API server does not give or take it.
    #[error(
        "The Secret {AUTHORITY_SECRET} with the certificate authority cannot be used: {}",
        words(.0)
    )]
    Cluster(kube::Error),
    /// What is there is none.
    #[error(
        "The Secret {AUTHORITY_SECRET} holds no certificate authority: {0}. Take out its data, and a new one is made"
    )]
    Spoilt(KeyringError),
    /// Nothing can be signed.
    #[error(transparent)]
    Pki(#[from] PkiError),
}

/// What the API server said, without the parts that are for programs.
fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

struct Read {
    keyring: Arc<Keyring>,
    at: Timestamp,
}

/// Keeps the keyring of one Secret.
pub struct Keeper {
    api: Api<Secret>,
    /// For how long what it signs is valid.
    pub lifetimes: Lifetimes,
    read: Mutex<Option<Read>>,
}

impl Keeper {
    /// For the Secret in that namespace, which need not exist yet.
    pub fn new(client: Client, namespace: &str, lifetimes: Lifetimes) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            lifetimes,
            read: Mutex::new(None),
        }
    }

    /// The keyring as it is to be now: made if there is none, turned if that is due.
    pub async fn keyring(&self, now: Timestamp) -> Result<Arc<Keyring>, KeeperError> {
        let mut read = self.read.lock().await;
        let known = read.as_ref().filter(|read| self.is_good(read, now));
        if let Some(known) = known {
            return Ok(known.keyring.clone());
        }
        let keyring = Arc::new(self.up_to_date(now).await?);
        *read = Some(Read {
            keyring: keyring.clone(),
            at: now,
        });
        Ok(keyring)
    }

    /// When the keyring, or a certificate of it that is valid until then, is to be looked at again.
    pub async fn look_again(
        &self,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Duration, KeeperError> {
        let turn = match self.keyring(now).await?.due(&self.lifetimes, now) {
            Move::Wait(turn) => turn,
            _ => now,
        };
        let next = turn.min(self.lifetimes.renewal(until));
        Ok(Duration::try_from(next.duration_since(now)).unwrap_or(Duration::ZERO))
    }

    fn is_good(&self, read: &Read, now: Timestamp) -> bool {
        let fresh = now.duration_since(read.at) < FRESH;
        fresh && matches!(read.keyring.due(&self.lifetimes, now), Move::Wait(_))
    }

    async fn up_to_date(&self, now: Timestamp) -> Result<Keyring, KeeperError> {
        loop {
            let Some(secret) = self.find().await? else {
                if let Some(made) = self.first(now).await? {
                    return Ok(made);
                }
                continue;
            };
            if is_empty(&secret) {
                let made = Keyring::make(&self.lifetimes, now)?;
                if self.replace(secret, &made).await? {
                    return Ok(made);
                }
                continue;
            }
            let keyring = Keyring::from_secret(&secret).map_err(KeeperError::Spoilt)?;
            let step = keyring.due(&self.lifetimes, now);
            if matches!(step, Move::Wait(_)) {
                return Ok(keyring);
            }
            let turned = keyring.turned(step, &self.lifetimes, now)?;
            tracing::info!(
                secret = AUTHORITY_SECRET,
                ?step,
                "the certificate authority is rotated"
            );
            if self.replace(secret, &turned).await? {
                return Ok(turned);
            }
        }
    }

    async fn find(&self) -> Result<Option<Secret>, KeeperError> {
        let found = self.api.get_opt(AUTHORITY_SECRET).await;
        found.map_err(KeeperError::Cluster)
    }

    /// `None` if somebody else was quicker.
    async fn first(&self, now: Timestamp) -> Result<Option<Keyring>, KeeperError> {
        let made = Keyring::make(&self.lifetimes, now)?;
        let secret = made.to_secret(AUTHORITY_SECRET);
        match self.api.create(&PostParams::default(), &secret).await {
            Ok(_) => Ok(Some(made)),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
            Err(error) => Err(KeeperError::Cluster(error)),
        }
    }

    /// False if somebody else was quicker.
    async fn replace(&self, old: Secret, turned: &Keyring) -> Result<bool, KeeperError> {
        let new = written_over(turned.to_secret(AUTHORITY_SECRET), old);
        let written = self
            .api
            .replace(AUTHORITY_SECRET, &PostParams::default(), &new)
            .await;
        match written {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {
                Ok(false)
            }
            Err(error) => Err(KeeperError::Cluster(error)),
        }
    }
}
