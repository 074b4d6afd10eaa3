//! Sees to it that there is a certificate, and that it is a good one.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};

use super::secret;
use super::shelf::{Due, Lifetimes, Shelf};
use super::shown::Shown;
use crate::error::AdmissionError;

/// Others write the same Secret; one of us wins each time.
const TRIES: usize = 5;

/// Keeps the certificate of one server.
pub struct Keeper {
    api: Api<Secret>,
    secret: String,
    names: Vec<String>,
    lifetimes: Lifetimes,
    shown: Arc<Shown>,
}

impl Keeper {
    /// Keeps it in this Secret, for these names and addresses.
    pub fn new(
        client: Client,
        namespace: &str,
        secret: &str,
        names: Vec<String>,
        lifetimes: Lifetimes,
    ) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            secret: secret.to_owned(),
            names,
            lifetimes,
            shown: Arc::default(),
        }
    }

    pub(crate) fn shown(&self) -> Arc<Shown> {
        self.shown.clone()
    }

    /// Does what is due, shows what is to be shown, and returns the authorities that are to be trusted.
    pub async fn keep(&self) -> Result<Vec<u8>, AdmissionError> {
        for _ in 0..TRIES {
            let found = self.api.get_opt(&self.secret).await?;
            if let Some(shelf) = self.tend(found).await? {
                let current = &shelf.current;
                self.shown.replace(&current.certificate, &current.key)?;
                return Ok(shelf.bundle());
            }
        }
        Err(AdmissionError::Contended(self.secret.clone()))
    }

    /// `None` if somebody else was quicker.
    async fn tend(&self, found: Option<Secret>) -> Result<Option<Shelf>, AdmissionError> {
        let now = Timestamp::now();
        let there = found.as_ref().and_then(secret::read);
        let ours = found.as_ref().is_none_or(secret::is_ours);
        let due = there
            .as_ref()
            .map(|shelf| shelf.due(&self.names, now, &self.lifetimes));
        match (there, due, ours) {
            (None, _, false) => Err(AdmissionError::BadSecret(self.secret.clone())),
            (Some(shelf), _, false) | (Some(shelf), Some(Due::Nothing), true) => Ok(Some(shelf)),
            (Some(shelf), due, true) => {
                let due = due.unwrap_or(Due::Nothing);
                tracing::info!(secret = self.secret, step = ?due, "the webhooks' certificate is renewed");
                let shelf = shelf.after(due, &self.names, now, &self.lifetimes)?;
                self.store(shelf, found.as_ref()).await
            }
            (None, _, true) => {
                let shelf = Shelf::new(&self.names, now, self.lifetimes.valid)?;
                self.store(shelf, found.as_ref()).await
            }
        }
    }

    async fn store(
        &self,
        shelf: Shelf,
        old: Option<&Secret>,
    ) -> Result<Option<Shelf>, AdmissionError> {
        let wanted = secret::write(&self.secret, &shelf, old);
        let params = PostParams::default();
        let written = match old {
            Some(_) => self.api.replace(&self.secret, &params, &wanted).await,
            None => self.api.create(&params, &wanted).await,
        };
        match written {
            Ok(_) => Ok(Some(shelf)),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}
