//! One manager at a time: a Lease that its holder renews, and that others take when it no longer does.
//!
//! ```text
//!   standing by ──► leading ──► given up           (asked to stop: the next one begins at once)
//!                      └──────► lost               (not renewed in time: the work ends where it stands)
//! ```
//!
//! Nobody's clock is compared with anybody else's. A candidate counts from when it saw the last renewal, the holder from when
//! it sent its own, and the holder's time is the shorter one.

pub mod terms;

use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ObjectMeta, PostParams, WatchParams};
use kube::{Client, ResourceExt};
use tokio::time::{Instant, sleep, timeout, timeout_at};

pub use terms::Terms;
use terms::{Standing, given_up, renewed, standing, taken};

/// Leadership was lost: another manager may lead by now.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "The Lease {0} could not be renewed in time, so another manager may lead now: this one ends"
)]
pub struct Lost(String);

/// A candidate.
#[derive(Clone)]
pub struct Elector {
    api: Api<Lease>,
    lease: String,
    identity: String,
    terms: Terms,
}

/// What a candidate knows of the Lease.
struct Sight {
    version: Option<String>,
    since: Instant,
}

impl Elector {
    /// A candidate for the Lease of that namespace and name. The identity must be that of this process alone.
    pub fn new(client: Client, namespace: &str, lease: &str, identity: &str, terms: Terms) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            lease: lease.to_owned(),
            identity: identity.to_owned(),
            terms,
        }
    }

    /// Stands by until it leads.
    pub async fn acquire(&self) -> Term {
        let mut sight = Sight {
            version: None,
            since: Instant::now(),
        };
        loop {
            match self.attempt(&mut sight).await {
                Ok(Attempt::Elected(term)) => return *term,
                Ok(Attempt::Again) => {}
                Ok(Attempt::Until(version, end)) => self.until_changed(&version, end).await,
                Err(error) => {
                    tracing::warn!(lease = self.lease, %error, "cannot stand for leadership; tried again");
                    sleep(self.terms.retry).await;
                }
            }
        }
    }

    async fn attempt(&self, sight: &mut Sight) -> Result<Attempt, kube::Error> {
        let asked = Instant::now();
        let Some(lease) = self.api.get_opt(&self.lease).await? else {
            return self.take(None, asked).await;
        };
        if sight.version != lease.metadata.resource_version {
            sight.version.clone_from(&lease.metadata.resource_version);
            sight.since = Instant::now();
        }
        match standing(&lease, &self.identity, sight.since, Instant::now()) {
            Standing::Free | Standing::Ours => self.take(Some(lease), asked).await,
            Standing::HeldUntil(end) => {
                let version = lease.resource_version().unwrap_or_default();
                Ok(Attempt::Until(version, end))
            }
        }
    }

    /// Only one of those who try at once succeeds: the version decides.
    async fn take(&self, old: Option<Lease>, asked: Instant) -> Result<Attempt, kube::Error> {
        let now = Timestamp::now();
        let params = PostParams::default();
        let written = if let Some(old) = old {
            let lease = taken(&old, &self.identity, self.terms, now);
            self.api.replace(&self.lease, &params, &lease).await
        } else {
            let lease = taken(&self.unwritten(), &self.identity, self.terms, now);
            self.api.create(&params, &lease).await
        };
        match written {
            Ok(lease) => Ok(Attempt::Elected(Box::new(Term {
                elector: self.clone(),
                lease,
                renewed: asked,
            }))),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                Ok(Attempt::Again)
            }
            Err(error) => Err(error),
        }
    }

    fn unwritten(&self) -> Lease {
        Lease {
            metadata: ObjectMeta {
                name: Some(self.lease.clone()),
                ..ObjectMeta::default()
            },
            spec: None,
        }
    }

    /// Until the Lease changes, or its holder's time is over.
    async fn until_changed(&self, version: &str, end: Instant) {
        let only = WatchParams::default().fields(&format!("metadata.name={}", self.lease));
        let changed = async {
            match self.api.watch(&only, version).await {
                Ok(stream) => drop(stream.boxed().next().await),
                Err(error) => {
                    // The time decides then.
                    tracing::warn!(lease = self.lease, %error, "the Lease cannot be watched, so taking over from a manager that stops is slow; allow this account to watch it");
                    std::future::pending::<()>().await;
                }
            }
        };
        let _ = timeout_at(end, changed).await;
    }
}

enum Attempt {
    Elected(Box<Term>),
    /// Somebody was quicker.
    Again,
    /// Somebody else leads: look again when this version changes, or then.
    Until(String, Instant),
}

/// The time in which we lead.
pub struct Term {
    elector: Elector,
    lease: Lease,
    /// When the last renewal that succeeded was sent.
    renewed: Instant,
}

impl Term {
    /// Leads for as long as the work takes, and gives the Lease up after it. If the Lease is lost, the work is dropped.
    pub async fn lead<T>(mut self, work: impl Future<Output = T>) -> Result<T, Lost> {
        let done = tokio::select! {
            done = work => done,
            () = self.keep() => return Err(Lost(self.elector.lease)),
        };
        self.give_up().await;
        Ok(done)
    }

    /// Renews until that is no longer possible.
    async fn keep(&mut self) {
        let mut pause = self.elector.terms.renew_every;
        loop {
            sleep(pause.min(self.rest())).await;
            let asked = Instant::now();
            pause = match timeout(self.rest(), self.renew()).await {
                Ok(Ok(())) => {
                    self.renewed = asked;
                    self.elector.terms.renew_every
                }
                Ok(Err(error)) if self.is_anothers(&error).await => return,
                Ok(Err(_)) | Err(_) => self.elector.terms.retry,
            };
            if self.rest().is_zero() {
                return;
            }
        }
    }

    /// The time that is left to work in.
    fn rest(&self) -> Duration {
        let end = self.renewed + self.elector.terms.work_within;
        end.saturating_duration_since(Instant::now())
    }

    async fn renew(&mut self) -> Result<(), kube::Error> {
        self.write(renewed(&self.lease, Timestamp::now())).await
    }

    async fn write(&mut self, lease: Lease) -> Result<(), kube::Error> {
        let api = &self.elector.api;
        let params = PostParams::default();
        self.lease = api.replace(&self.elector.lease, &params, &lease).await?;
        Ok(())
    }

    /// After a conflict: whether the Lease has another holder. Somebody may have merely labelled it. One that was deleted is
    /// anybody's.
    async fn is_anothers(&mut self, error: &kube::Error) -> bool {
        match error {
            kube::Error::Api(status) if status.is_not_found() => return true,
            kube::Error::Api(status) if status.is_conflict() => {}
            _ => return false,
        }
        let found = timeout(self.rest(), self.elector.api.get_opt(&self.elector.lease)).await;
        let Ok(Ok(Some(lease))) = found else {
            return false;
        };
        let holder = lease.spec.as_ref().and_then(|s| s.holder_identity.clone());
        self.lease = lease;
        holder.as_deref() != Some(&self.elector.identity)
    }

    /// The next one need not wait. If that cannot be written, it waits.
    async fn give_up(mut self) {
        let free = given_up(&self.lease, Timestamp::now());
        if let Ok(Err(error)) = timeout(self.rest(), self.write(free)).await {
            tracing::warn!(lease = self.elector.lease, %error, "leadership not given up; the next manager waits for it");
        }
    }
}
