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
            if let Some(kept) = self.tend(found).await? {
                let current = &kept.current;
                self.shown.replace(&current.certificate, &current.key)?;
                return Ok(kept.bundle());
            }
        }
        Err(AdmissionError::Contended(self.secret.clone()))
    }

    /// `None` if somebody else was quicker.
    async fn tend(&self, found: Option<Secret>) -> Result<Option<Shelf>, AdmissionError> {
        let ours = found.as_ref().is_none_or(secret::is_ours);
        let there = found.as_ref().and_then(secret::read);
        if !ours {
            let given = there.ok_or_else(|| AdmissionError::BadSecret(self.secret.clone()))?;
            return Ok(Some(given));
        }
        let now = Timestamp::now();
        let Some(kept) = there else {
            let made = Shelf::new(&self.names, now, self.lifetimes.valid)?;
            return self.store(made, found.as_ref()).await;
        };
        let due = kept.due(&self.names, now, &self.lifetimes);
        if due == Due::Nothing {
            return Ok(Some(kept));
        }
        tracing::info!(secret = self.secret, step = ?due, "the webhooks' certificate is renewed");
        let renewed = kept.after(due, &self.names, now, &self.lifetimes)?;
        self.store(renewed, found.as_ref()).await
    }

    async fn store(
        &self,
        kept: Shelf,
        old: Option<&Secret>,
    ) -> Result<Option<Shelf>, AdmissionError> {
        let wanted = secret::write(&self.secret, &kept, old);
        let params = PostParams::default();
        let written = match old {
            Some(_) => self.api.replace(&self.secret, &params, &wanted).await,
            None => self.api.create(&params, &wanted).await,
        };
        match written {
            Ok(_) => Ok(Some(kept)),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}
