//! The way itself: libvirt's five steps, asked by us on two connections that serve nothing else.
//!
//! Whatever fails, and wherever, what follows is to look at both hosts and settle (`settle`): nothing here decides who has the
//! VM in the end. The connections are closed at the end, and if this process dies: then libvirt removes what it has prepared
//! at the target, and the guest goes on at the source.

use std::sync::Arc;
use std::time::Duration;

use polyvirt_contract::model::{MigrateVm, PowerState};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_provider_kit::fleet::running::Running;
use polyvirt_provider_kit::tasks::Progress;

use super::Route;
use super::description::described;
use super::follow::{Follow, take_in};
use super::luggage::{Both, Luggage};
use super::stopwatch::Stopwatch;
use super::wish::{self, Flags};
use crate::core::Vm;
use crate::domain::{Marks, Moving};
use crate::reconfigure;
use crate::rpc::{Cookie, Domain, Ending, Parameter, RpcError, Session, flags, open_apart_for};

type Answer<T> = std::result::Result<T, RpcError>;

/// How long libvirt may take to give up a move.
const GIVES_UP_WITHIN: Duration = Duration::from_secs(20);
/// Words by which libvirt says that it has no certificates for a move.
const NO_TLS: [&str; 3] = ["TLS", "x509", "certificate"];

/// A guest about to leave.
pub(super) struct Trip<'a> {
    pub(super) route: &'a Route,
    pub(super) request: &'a MigrateVm,
    pub(super) was: PowerState,
    pub(super) marks: &'a Marks,
    pub(super) luggage: &'a Luggage,
    pub(super) running: &'a Running,
    pub(super) progress: &'a Progress,
}

impl Trip<'_> {
    /// Goes all the way, or fails somewhere on it.
    pub(super) async fn go(&self, both: &Both, vm: &Arc<Vm>) -> Result<()> {
        let domain = Domain::of(self.route.uuid);
        self.luggage.pack(both, self.route.uuid).await?;
        self.define(both, &domain).await?;
        if self.was == PowerState::Off {
            if self.luggage.copied_disks.is_empty() {
                return Ok(());
            }
            reconfigure::fit_disks(&self.route.source, &both.here, vm).await?;
            let paused = flags::START_PAUSED;
            both.here.start_with(&domain, paused).await?;
        }
        if self.running.stop.is_cancelled() {
            return Err(super::follow::CallBack::Stopped.error(""));
        }
        let mut steps = Box::pin(self.steps(both, domain)).await?;
        let sent = steps.send(self, both).await;
        sent.map_err(|error| self.explained(error))
    }

    /// All that a VM needs that is off and has its files there already. For others too it is written down before the guest comes:
    /// while it stands still, nobody waits for a disk of the target.
    async fn define(&self, both: &Both, domain: &Domain) -> Result<()> {
        let stored = flags::INACTIVE | flags::SECURE;
        let xml = both.here.xml(domain, stored).await?;
        let xml = described(&xml, &self.luggage.places, &self.arriving())?;
        both.there.define(&xml).await?;
        Ok(())
    }

    /// The marks with which it is on its way. That it was asked for is written with them, so that it is known as soon as it has
    /// arrived.
    fn arriving(&self) -> Marks {
        let host = self.route.source_host.clone();
        Marks {
            moving: Some(Moving::From { host }),
            request: self.request.request.clone().or(self.marks.request.clone()),
            ..self.luggage.marks(self.marks)
        }
    }

    async fn steps(&self, both: &Both, domain: Domain) -> Result<Steps> {
        let (source, target) = (&self.route.source.config, &self.route.target.config);
        let stopwatch = Stopwatch::of(self.route.uuid);
        let (source, session) = tokio::try_join!(
            open_apart_for(source, stopwatch.at_source()),
            open_apart_for(target, stopwatch.at_target())
        )?;
        let luggage = &self.luggage;
        let disks = luggage.copied_disks.iter();
        let mut parameters = wish::parameters(self.request);
        parameters.extend(disks.map(|disk| Parameter::Text("migrate_disks", disk.clone())));
        parameters.extend(target.move_host().map(wish::address));
        let live = flags::SECURE | flags::MIGRATABLE;
        let xml = both.here.xml(&domain, live).await?;
        let xml = described(&xml, &luggage.places, &self.arriving())?;
        parameters.push(Parameter::Text("destination_xml", xml));
        Ok(Steps {
            name: both
                .here
                .by_uuid(domain.uuid)
                .await?
                .map(|found| found.name),
            flags: wish::flags(self.request, self.was, luggage.disks(), luggage.shared()),
            source,
            target: session,
            stopwatch,
            domain,
            parameters,
        })
    }

    /// libvirt's words for what it cannot encrypt.
    fn explained(&self, error: ProviderError) -> ProviderError {
        let told = NO_TLS.iter().any(|word| error.message.contains(word));
        if !self.request.encrypted || !told {
            return error;
        }
        let message = format!(
            "The hosts cannot encrypt a move; give both certificates (migrate_tls_x509_cert_dir of qemu.conf), or take the wish away: {}",
            error.message
        );
        ProviderError::new(ErrorKind::Unsupported, message).at("encrypted")
    }
}

/// One move, as libvirt is asked for it.
struct Steps {
    source: Session,
    target: Session,
    stopwatch: Arc<Stopwatch>,
    domain: Domain,
    name: Option<String>,
    parameters: Vec<Parameter>,
    flags: Flags,
}

impl Steps {
    fn set(&mut self, name: &'static str, text: String) {
        self.parameters.retain(|known| known.name() != name);
        self.parameters.push(Parameter::Text(name, text));
    }

    async fn send(&mut self, trip: &Trip<'_>, both: &Both) -> Result<()> {
        let cookie = self.prepare().await?;
        let performed = self.perform(trip, both, &cookie).await;
        // What was expected is not what was measured.
        trip.running.tell(|told| told.downtime = None);
        trip.running.close();
        let cookie = match performed {
            Ok(cookie) => cookie,
            Err(error) => {
                self.undo().await;
                return Err(error);
            }
        };
        match self.finish(&cookie, Ending::Carried).await {
            Ok(cookie) => {
                self.measure(trip, both).await;
                self.confirm(&cookie, Ending::Carried).await;
                Ok(())
            }
            Err(error) => {
                // The target has said that the guest is not there. If it has said nothing, nobody knows, and nobody is woken.
                if matches!(error, RpcError::Libvirt(_)) {
                    self.confirm(&Cookie::default(), Ending::Cancelled).await;
                }
                Err(error.into())
            }
        }
    }

    /// Removes what was prepared. The source has called its guest back itself, or does when it can: a disk that is being copied
    /// over a dead link is let go when TCP gives up.
    async fn undo(&mut self) {
        let cookie = Cookie::default();
        let ends = self.finish(&cookie, Ending::Cancelled);
        let removed = tokio::time::timeout(GIVES_UP_WITHIN, ends).await;
        // It answers with the error that the guest was called back.
        tracing::debug!(?removed, "What was prepared for a move is removed");
    }

    async fn prepare(&mut self) -> Answer<Cookie> {
        let begun = self
            .source
            .migrate_begin(&self.domain, &self.parameters, self.flags.source);
        let (cookie, xml) = begun.await?;
        self.set("destination_xml", xml);
        let asked = self
            .target
            .migrate_prepare(&self.parameters, &cookie, self.flags.target);
        match asked.await {
            Ok((cookie, place)) => {
                if let Some(place) = place {
                    self.set("migrate_uri", place);
                }
                Ok(cookie)
            }
            Err(error) => {
                self.confirm(&cookie, Ending::Cancelled).await;
                Err(error)
            }
        }
    }

    /// Sends the guest, and calls it back if there is reason to.
    async fn perform(&self, trip: &Trip<'_>, both: &Both, cookie: &Cookie) -> Result<Cookie> {
        let mut follow = Follow {
            session: &both.here,
            target: &self.target,
            domain: &self.domain,
            running: trip.running,
            progress: trip.progress,
            stall: trip.route.source.config.move_stall,
            post_copy: trip.request.post_copy,
            stopwatch: &self.stopwatch,
            pace: wish::pace(trip.request, trip.was),
        };
        follow.begin().await;
        let performs =
            self.source
                .migrate_perform(&self.domain, &self.parameters, cookie, self.flags.source);
        tokio::pin!(performs);
        let why = tokio::select! {
            performed = &mut performs => return Ok(performed?),
            why = follow.watch() => why,
        };
        if let Err(error) = both.here.abort_job(&self.domain).await {
            tracing::debug!(%error, "The move could not be called back");
        }
        match tokio::time::timeout(GIVES_UP_WITHIN, performs).await {
            // It was there before it could be called back.
            Ok(Ok(cookie)) => Ok(cookie),
            Ok(Err(error)) => Err(why.error(&error.to_string())),
            Err(_) => Err(why.error("libvirt does not give it up")),
        }
    }

    async fn finish(&mut self, cookie: &Cookie, ending: Ending) -> Answer<Cookie> {
        if let Some(name) = self.name.clone() {
            self.set("destination_name", name);
        }
        let asked = self
            .target
            .migrate_finish(&self.parameters, cookie, self.flags.target, ending);
        asked.await
    }

    /// Without an answer the settling does what is missing.
    async fn confirm(&self, cookie: &Cookie, ending: Ending) {
        let flags = self.flags.source;
        let asked =
            self.source
                .migrate_confirm(&self.domain, &self.parameters, cookie, flags, ending);
        if let Err(error) = asked.await {
            tracing::debug!(%error, ?ending, "The source has not confirmed the end of a move");
        }
    }

    /// How much was sent, and how long the guest stood still: as it was heard, else as libvirt has counted.
    async fn measure(&self, trip: &Trip<'_>, both: &Both) {
        let job = both.there.job(&self.domain, flags::ENDED_JOB).await;
        trip.running.tell(|told| {
            match job {
                Ok((_, job)) => take_in(told, &job),
                Err(error) => tracing::debug!(%error, "libvirt tells no figures of a move"),
            }
            told.remaining_bytes = Some(0);
            told.downtime = self.stopwatch.stood_still().or(told.downtime);
        });
    }
}
