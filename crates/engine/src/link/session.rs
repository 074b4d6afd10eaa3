//! Keeps one link standing: connects, listens, checks health, and starts over when it breaks. One task a Provider.
//!
//! At rest it makes one call a minute: a health check, or for a provider that cannot stream the list of its VMs, which is a
//! health check too. What the hypervisor has is read again soon after VMs have changed.

#[cfg(test)]
mod tests;
mod vigil;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered};
use futures::{FutureExt, StreamExt};
use polyvirt_contract::watch::{MOST_VMS, VmEvent};
use polyvirt_contract::{ErrorKind, Extension, Features, Provider, ProviderError, VmId};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use self::vigil::{Answer, Question, Vigil};
use super::{Concerns, Link};
use crate::context::Clock;
use crate::link::guard::Guard;
use crate::link::rate::Rate;
use crate::metrics::{Circuit, Metrics, ProviderLabels};
use crate::runtime::background::caught;
use crate::runtime::backoff::pause;

/// Makes the connection that a Provider object describes.
#[async_trait]
pub trait Connector: Send + Sync {
    /// A provider to call, or why there is none.
    async fn connect(&self) -> Result<Arc<dyn Provider>, ProviderError>;
}

/// Told what the provider says, and asked what we know.
pub trait Listener: Send + Sync {
    /// The link's standing moved: report it.
    fn standing(&self, link: &Link);
    /// The provider said something about somebody.
    fn concerns(&self, link: &Link, concerns: Vec<Concerns>);
    /// The VMs that we know on this provider, for one that can neither stream nor list.
    fn known(&self, link: &Link) -> Vec<VmId>;
    /// What the hypervisor has is not what it was.
    fn inventory(&self, link: &Link);
}

/// How often, how long, how many.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Between health checks.
    pub interval: Duration,
    /// For one health check.
    pub timeout: Duration,
    /// Failed checks in a row before the provider counts as unavailable.
    pub failures: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(60),
            timeout: Duration::from_secs(10),
            failures: 3,
        }
    }
}

/// All that a session needs.
pub struct Session {
    /// The link that it keeps standing.
    pub link: Arc<Link>,
    /// Makes connections.
    pub connector: Arc<dyn Connector>,
    /// Told what happens.
    pub listener: Arc<dyn Listener>,
    /// The time.
    pub clock: Clock,
    /// How often, how long, how many.
    pub timing: Timing,
    /// For the counters.
    pub labels: ProviderLabels,
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// How many calls it gets, if its object says so.
    pub rate: Option<Arc<Rate>>,
}

impl Session {
    /// Runs until it is told to stop.
    pub async fn run(self, stop: CancellationToken) {
        tokio::select! {
            () = self.keep_on() => {}
            () = stop.cancelled() => {}
        }
    }

    /// A fault of ours with one provider starts its session over, and leaves the others alone.
    async fn keep_on(&self) {
        while let Err(panicked) = caught(self.keep()).await {
            self.lost(ProviderError::new(
                ErrorKind::Internal,
                panicked.to_string(),
            ));
            sleep(self.timing.interval).await;
        }
    }

    async fn keep(&self) {
        // A provider that never answers has a series, too.
        self.metrics.unconnected(&self.labels);
        let mut failures = 0;
        loop {
            let suspicion = Arc::new(Notify::new());
            let begin = Instant::now();
            let error = match self.establish(&suspicion).await {
                Ok((provider, features)) => {
                    let error = self.serve(&provider, &features, &suspicion).await;
                    // Only a link that lasted ends the growth of the pauses: one that breaks as soon as it stands is no better
                    // than one that cannot be made.
                    if begin.elapsed() > self.timing.interval {
                        failures = 0;
                    }
                    self.wavers(failures, &error.message);
                    error
                }
                Err(error) => error,
            };
            failures += 1;
            self.lost(error);
            sleep(pause(failures, u64::from(failures)).min(self.timing.interval)).await;
            // One that was never connected has no circuit to close again.
            if self.link.view().provider.is_some() {
                self.metrics.circuit(&self.labels, Circuit::HalfOpen);
            }
        }
    }

    async fn establish(
        &self,
        suspicion: &Arc<Notify>,
    ) -> Result<(Arc<dyn Provider>, Features), ProviderError> {
        let begin = Instant::now();
        let inner = self.limited(self.connector.connect()).await?;
        let guard = Guard::new(
            inner,
            self.labels.clone(),
            self.metrics.clone(),
            suspicion.clone(),
            self.rate.clone(),
        );
        let provider: Arc<dyn Provider> = Arc::new(guard);
        self.limited(provider.validate()).await?;
        let latency = begin.elapsed();
        let capabilities = self.limited(provider.capabilities()).await?;
        let mut features = self.limited(provider.features()).await?;
        if features.honoured_fields.is_none() && features.extensions.is_empty() {
            let basic = polyvirt_plan::honoured::BASIC_PROVIDER
                .iter()
                .map(ToString::to_string);
            features.honoured_fields = Some(basic.collect());
        }
        // A peer without our extensions may list its hosts all the same.
        if capabilities.clustering && features.extensions.is_empty() {
            features.extensions.insert(Extension::Inventory);
        }
        if features.provider_type.is_empty() {
            features
                .provider_type
                .clone_from(&self.labels.provider_type);
        }
        self.link.connected(
            provider.clone(),
            features.clone(),
            capabilities,
            (self.clock)(),
            latency,
        );
        if features.has(Extension::Inventory) {
            let inventory = self.limited(provider.inventory()).await.ok();
            self.link.has(inventory);
        }
        self.metrics.circuit(&self.labels, Circuit::Closed);
        self.listener.standing(&self.link);
        Ok((provider, features))
    }

    fn lost(&self, error: ProviderError) {
        tracing::warn!(provider = %self.link.key, %error, "provider does not answer");
        self.link.unavailable(error, (self.clock)());
        self.metrics.circuit(&self.labels, Circuit::Open);
        self.listener.standing(&self.link);
    }

    async fn limited<T>(
        &self,
        work: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        let late = || ProviderError::new(ErrorKind::Timeout, "The provider did not answer in time");
        timeout(self.timing.timeout, work)
            .await
            .unwrap_or_else(|_| Err(late()))
    }

    async fn serve(
        &self,
        provider: &Arc<dyn Provider>,
        features: &Features,
        suspicion: &Notify,
    ) -> ProviderError {
        if features.has(Extension::Watch) {
            self.listen(provider, features, suspicion).await
        } else {
            self.ask_around(provider, suspicion).await
        }
    }

    /// A stream that ends is opened again soon; only one that cannot be opened breaks the link.
    async fn listen(
        &self,
        provider: &Arc<dyn Provider>,
        features: &Features,
        suspicion: &Notify,
    ) -> ProviderError {
        let mut short = 0;
        loop {
            let begin = Instant::now();
            let stream = match self.limited(provider.watch()).await {
                Ok(stream) => stream,
                Err(error) => return error,
            };
            self.link.hears((self.clock)());
            let vigil = Vigil::new(features.has(Extension::Inventory), self.timing.interval);
            let end = match self.hear(provider, stream, vigil, suspicion).await {
                Ok(end) => end,
                Err(error) => return error,
            };
            short = if begin.elapsed() > self.timing.interval {
                0
            } else {
                short + 1
            };
            self.wavers(short, &end);
            sleep(pause(short, u64::from(short)).min(self.timing.interval)).await;
        }
    }

    /// Hears the stream to its end, and tells why it ended. `Err` if the provider turned out to be dead.
    async fn hear(
        &self,
        provider: &Arc<dyn Provider>,
        mut stream: BoxStream<'static, Result<VmEvent, ProviderError>>,
        mut vigil: Vigil,
        suspicion: &Notify,
    ) -> Result<String, ProviderError> {
        let mut tick = self.ticks();
        // At most one: questions wait for each other, and events for none of them.
        let mut asked = FuturesUnordered::new();
        loop {
            let free = asked.is_empty();
            let stale = vigil.stale();
            tokio::select! {
                event = stream.next() => match event {
                    Some(Ok(event)) => if self.heard(event)? { vigil.news(Instant::now()) },
                    Some(Err(error)) => {
                        tracing::info!(provider = %self.link.key, %error, "watch ended");
                        return Ok(error.message);
                    }
                    None => return Ok("the provider closed it".to_owned()),
                },
                Some(answer) = asked.next() => self.answered(answer, &mut vigil)?,
                _ = tick.tick(), if free => asked.push(self.ask(provider, vigil.tick())),
                () = suspicion.notified(), if free => asked.push(self.ask(provider, Question::Suspicion)),
                () = at(stale), if free && stale.is_some() => {
                    asked.push(self.ask(provider, vigil.refreshing()));
                }
            }
        }
    }

    fn ask<'a>(
        &'a self,
        provider: &'a Arc<dyn Provider>,
        question: Question,
    ) -> BoxFuture<'a, Answer> {
        async move {
            let begin = Instant::now();
            let result = match question {
                Question::Health | Question::Suspicion => {
                    self.limited(provider.validate()).await.map(|()| None)
                }
                Question::HealthByInventory | Question::Inventory => {
                    self.limited(provider.inventory()).await.map(Some)
                }
            };
            Answer {
                question,
                took: begin.elapsed(),
                result,
            }
        }
        .boxed()
    }

    /// `Err` if the provider turned out to be dead.
    fn answered(&self, answer: Answer, vigil: &mut Vigil) -> Result<(), ProviderError> {
        vigil.judge(&answer, self.timing.failures)?;
        if let Ok(inventory) = answer.result {
            self.link.alive(answer.took);
            // The stream has lasted from one health check to the next.
            if answer.question.is_regular() {
                self.steadiness(None);
            }
            if inventory.is_some_and(|inventory| self.link.has(Some(inventory))) {
                self.listener.inventory(&self.link);
            }
        }
        Ok(())
    }

    /// Whether VMs have changed.
    fn heard(&self, event: VmEvent) -> Result<bool, ProviderError> {
        self.time_address(&event);
        let (concerns, vms) = self.link.seen(|seen| (seen.apply(event), seen.len()));
        if vms > MOST_VMS {
            self.link
                .seen(|seen| *seen = super::Observations::default());
            let text =
                format!("The provider tells of more than {MOST_VMS} VMs, which is not believed");
            return Err(ProviderError::new(ErrorKind::Internal, text));
        }
        let news = concerns.iter().any(|c| matches!(c, Concerns::Vm(..)));
        if !concerns.is_empty() {
            self.listener.concerns(&self.link, concerns);
        }
        Ok(news)
    }

    fn time_address(&self, event: &VmEvent) {
        let now = (self.clock)();
        let took = self.link.seen(|seen| seen.first_address(event, now));
        if let Some(took) = took {
            self.metrics.address_found(&self.labels, took);
        }
    }

    fn ticks(&self) -> tokio::time::Interval {
        let mut tick = interval_at(Instant::now() + self.timing.interval, self.timing.interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tick
    }

    /// Calls fail in a row: one failed health check is enough now.
    async fn suspect(&self, provider: &Arc<dyn Provider>) -> Result<(), ProviderError> {
        self.limited(provider.validate()).await
    }

    /// For a provider that cannot stream: the list of its VMs, compared with the last one.
    async fn ask_around(&self, provider: &Arc<dyn Provider>, suspicion: &Notify) -> ProviderError {
        let mut tick = self.ticks();
        let mut failed = 0;
        loop {
            match self.sweep(provider).await {
                Ok(()) => {
                    failed = 0;
                    self.steadiness(None);
                }
                Err(error) => {
                    failed += 1;
                    if failed >= self.timing.failures {
                        return error;
                    }
                }
            }
            tokio::select! {
                _ = tick.tick() => {}
                () = suspicion.notified() => if let Err(error) = self.suspect(provider).await { return error },
            }
        }
    }

    async fn sweep(&self, provider: &Arc<dyn Provider>) -> Result<(), ProviderError> {
        let asked = self.link.seen(|seen| seen.moment());
        let list = match provider.list_vms().await {
            Err(error) if error.kind == ErrorKind::Unsupported => {
                self.describe_known(provider).await?
            }
            other => other?,
        };
        let concerns = self.link.seen(|seen| seen.replace(list, asked));
        if !concerns.is_empty() {
            self.listener.concerns(&self.link, concerns);
        }
        Ok(())
    }

    async fn describe_known(
        &self,
        provider: &Arc<dyn Provider>,
    ) -> Result<Vec<polyvirt_contract::model::VmState>, ProviderError> {
        let mut list = Vec::new();
        for id in self.listener.known(&self.link) {
            list.extend(provider.describe(&id).await?);
        }
        Ok(list)
    }
}

/// Ends at the time; never if there is none.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
