//! The certificates that the manager's own servers show: webhooks and gateway.
//!
//! Each process signs its own and keeps it to itself. Whoever trusts the authority's bundle trusts all of them, so a rotation
//! of the authority is theirs too: the next one is in the bundle for a while before anything that it signed is shown.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::sync::Mutex;

use crate::authority::{PkiError, Purpose, Subject};
use crate::keeper::{Keeper, KeeperError};
use crate::leaf::{self, Due, Notes};
use crate::shown::Shown;

/// Nothing is looked at more often.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// Why there is no certificate to show.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// There is no authority.
    #[error(transparent)]
    Keeper(#[from] KeeperError),
    /// Nothing can be signed.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The Secret of somebody else cannot be read.
    #[error("Secret {0} cannot be read: {1}")]
    Cluster(String, kube::Error),
    /// The Secret of somebody else lacks something.
    #[error(
        "Secret {0} has no tls.crt, tls.key and ca.crt. Whoever makes it must put them there; name no Secret, and the manager makes a certificate itself"
    )]
    Lacking(String),
    /// No certificate, or not its key.
    #[error("A certificate or its key cannot be used: {0}")]
    Unreadable(String),
}

/// Whose certificate a server shows.
#[derive(Clone)]
pub enum Source {
    /// One that the manager's own authority signs.
    Own(Arc<Keeper>),
    /// One that somebody else keeps in a Secret, such as cert-manager.
    Given(Arc<Given>),
}

/// A Secret of somebody else.
pub struct Given {
    api: Api<Secret>,
    name: String,
}

impl Source {
    /// The Secret of that name if there is one, in that namespace; without it the keeper's authority.
    pub fn new(keeper: &Arc<Keeper>, client: Client, namespace: &str, given: Option<&str>) -> Self {
        match given {
            Some(name) => Self::given(client, namespace, name),
            None => Self::Own(keeper.clone()),
        }
    }

    /// The Secret of that name.
    pub fn given(client: Client, namespace: &str, name: &str) -> Self {
        Self::Given(Arc::new(Given {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
        }))
    }
}

/// What there is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The authorities that are to be trusted, as PEM.
    pub trusted: Vec<u8>,
    /// When something is due; `None` if that is not ours to know.
    pub look_again: Option<Duration>,
}

impl Kept {
    /// How long to wait before the next look, if nothing else comes first.
    pub fn pause(&self, longest: Duration) -> Duration {
        let due = self.look_again.unwrap_or(longest);
        due.max(SHORTEST_PAUSE).min(longest)
    }
}

/// The certificate of one server.
pub struct Serving {
    source: Source,
    subject: Subject,
    shown: Arc<Shown>,
    /// Of the certificate that is shown.
    notes: Mutex<Option<Notes>>,
}

impl Serving {
    /// Nothing is shown before the first [`keep`](Self::keep). The names may be addresses.
    pub fn new(source: Source, names: Vec<String>) -> Self {
        let subject = Subject {
            name: names.first().cloned().unwrap_or_default(),
            names,
            purpose: Purpose::Server,
        };
        Self {
            source,
            subject,
            shown: Arc::default(),
            notes: Mutex::default(),
        }
    }

    /// What handshakes look at.
    pub fn shown(&self) -> Arc<Shown> {
        self.shown.clone()
    }

    /// Does what is due, shows what is to be shown, and tells whom to trust.
    pub async fn keep(&self, now: Timestamp) -> Result<Kept, ServingError> {
        match &self.source {
            Source::Own(keeper) => self.sign(keeper, now).await,
            Source::Given(given) => self.take(given).await,
        }
    }

    async fn sign(&self, keeper: &Keeper, now: Timestamp) -> Result<Kept, ServingError> {
        let keyring = keeper.keyring(now).await?;
        let mut notes = self.notes.lock().await;
        let lifetimes = &keeper.lifetimes;
        if leaf::due(notes.as_ref(), &keyring, &self.subject, lifetimes, now) == Due::Renewal {
            let (issued, fresh) = leaf::issue(&keyring, &self.subject, lifetimes, now)?;
            self.shown
                .replace(issued.certificate.as_bytes(), issued.key.as_bytes())?;
            *notes = Some(fresh);
        }
        let until = notes.as_ref().map_or(now, |notes| notes.until);
        Ok(Kept {
            trusted: keyring.bundle().into_bytes(),
            look_again: Some(keeper.look_again(until, now).await?),
        })
    }

    async fn take(&self, given: &Given) -> Result<Kept, ServingError> {
        let name = || given.name.clone();
        let found = given.api.get_opt(&given.name).await;
        let found = found.map_err(|error| ServingError::Cluster(name(), error))?;
        let mut data = found.and_then(|secret| secret.data).unwrap_or_default();
        let mut part = |key: &str| {
            let value = data.remove(key).map(|value| value.0);
            value.ok_or_else(|| ServingError::Lacking(name()))
        };
        self.shown.replace(&part("tls.crt")?, &part("tls.key")?)?;
        Ok(Kept {
            trusted: part("ca.crt")?,
            look_again: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_neither_longer_nor_shorter_than_makes_sense() {
        let pause = |due: Option<u64>| {
            let kept = Kept {
                trusted: Vec::new(),
                look_again: due.map(Duration::from_secs),
            };
            kept.pause(Duration::from_secs(60)).as_secs()
        };
        assert_eq!(pause(None), 60);
        assert_eq!(pause(Some(3600)), 60);
        assert_eq!(pause(Some(7)), 7);
        assert_eq!(pause(Some(0)), 1);
    }
}
