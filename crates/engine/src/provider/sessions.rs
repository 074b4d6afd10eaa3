//! One session for each Provider, replaced when what it was made from changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use polyvirt_api::infra::{Provider, ProviderLimits, ProviderType};
use polyvirt_contract::{ErrorKind, ProviderError};
use polyvirt_plan::Problem;
use tokio_util::sync::CancellationToken;

use crate::context::Clock;
use crate::link::rate::Rate;
use crate::link::session::{Connector, Listener, Session, Timing};
use crate::link::{Link, Links, Standing};
use crate::metrics::{Metrics, ProviderLabels};
use crate::provider::way::{NoWay, Place, Runtime, Way};
use crate::runtime::key::ObjectKey;

struct Running {
    made_from: String,
    stop: CancellationToken,
}

/// All sessions.
pub struct Sessions {
    runtime: Arc<dyn Runtime>,
    links: Arc<Links>,
    listener: Arc<dyn Listener>,
    clock: Clock,
    metrics: Arc<Metrics>,
    running: Mutex<HashMap<ObjectKey, Running>>,
    /// How metrics name each Provider that has series.
    named: Mutex<HashMap<ObjectKey, ProviderLabels>>,
    stop: CancellationToken,
    concurrency: usize,
}

impl Sessions {
    /// No session yet. All of them end with the token. So many objects of one Provider are worked on at once.
    pub fn new(
        runtime: Arc<dyn Runtime>,
        links: Arc<Links>,
        listener: Arc<dyn Listener>,
        clock: Clock,
        metrics: Arc<Metrics>,
        stop: CancellationToken,
        concurrency: usize,
    ) -> Self {
        Self {
            runtime,
            links,
            listener,
            clock,
            metrics,
            running: Mutex::default(),
            named: Mutex::default(),
            stop,
            concurrency,
        }
    }

    /// How much is asked of the Provider at a time.
    pub fn limits(&self, provider: &Provider) -> ProviderLimits {
        limits(provider, self.concurrency)
    }

    /// Makes sure that a session made from the present object runs, and tells where. One that runs is not ended for a
    /// question that the cluster cannot answer just now.
    pub async fn ensure(&self, provider: &Provider) -> Result<Place, NoWay> {
        let key = ObjectKey::of(provider);
        self.name(&key, provider);
        let way = match self.runtime.way(provider).await {
            Ok(way) => way,
            Err(NoWay::Unknown(problem)) if self.runs(&key) => {
                tracing::warn!(provider = %key, %problem, "the way to the provider is not known now; its session goes on");
                return Err(NoWay::Unknown(problem));
            }
            Err(no_way) => {
                self.refuse(&key, no_way.problem());
                return Err(no_way);
            }
        };
        let place = way.place.clone();
        self.keep(provider, way);
        Ok(place)
    }

    /// Every Provider has series, also one that has no session. They are removed with the object and not with a session: the
    /// session that follows has the same ones.
    fn name(&self, key: &ObjectKey, provider: &Provider) {
        let labels = labels(key, provider);
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let old = named.insert(key.clone(), labels.clone());
        drop(named);
        if old.as_ref() == Some(&labels) {
            return;
        }
        if let Some(old) = old {
            self.metrics.forget(&old);
        }
        self.metrics.unconnected(&labels);
    }

    fn unname(&self, key: &ObjectKey) {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(labels) = named.remove(key) {
            self.metrics.forget(&labels);
        }
    }

    fn runs(&self, key: &ObjectKey) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.contains_key(key)
    }

    fn keep(&self, provider: &Provider, way: Way) {
        let key = ObjectKey::of(provider);
        let spec = &provider.spec;
        let made_from = format!(
            "{} {:?} {:?}",
            way.made_from, spec.health_check, spec.rate_limit
        );
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.get(&key).is_some_and(|r| r.made_from == made_from) {
            return;
        }
        if let Some(old) = running.remove(&key) {
            old.stop.cancel();
        }
        let stop = self.stop.child_token();
        tokio::spawn(self.session(provider, way.connector).run(stop.clone()));
        running.insert(key, Running { made_from, stop });
    }

    /// A replaced link keeps what the last one knew of the provider's VMs out: everything is told anew.
    fn session(&self, provider: &Provider, connector: Arc<dyn Connector>) -> Session {
        let key = ObjectKey::of(provider);
        let link = Arc::new(Link::new(key.clone()));
        self.links.put(link.clone());
        Session {
            link,
            connector,
            listener: self.listener.clone(),
            clock: self.clock.clone(),
            timing: timing(provider),
            labels: labels(&key, provider),
            metrics: self.metrics.clone(),
            rate: rate(provider).map(Arc::new),
        }
    }

    /// Nothing can be made of the Provider as it is: its VMs are told, once.
    fn refuse(&self, key: &ObjectKey, problem: &Problem) {
        self.end(key);
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(labels) = named.get(key) {
            self.metrics.unconnected(labels);
        }
        drop(named);
        let link = self.links.get(key).unwrap_or_else(|| {
            let link = Arc::new(Link::new(key.clone()));
            self.links.put(link.clone());
            link
        });
        let told = matches!(link.view().standing, Standing::Unavailable { error, .. } if error.message == problem.to_string());
        if !told {
            link.unavailable(
                ProviderError::new(ErrorKind::Unavailable, problem.to_string()),
                (self.clock)(),
            );
            self.listener.standing(&link);
        }
    }

    /// Ends the session of a Provider.
    fn end(&self, key: &ObjectKey) {
        let ended = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
        if let Some(ended) = ended {
            ended.stop.cancel();
            self.links.remove(key);
        }
    }

    /// The Provider is gone, and with it what a refusal left.
    pub async fn forget(&self, key: &ObjectKey) {
        self.end(key);
        self.links.remove(key);
        self.unname(key);
        self.runtime.forget(key).await;
    }
}

/// The word for a type of provider.
pub const fn type_word(kind: ProviderType) -> &'static str {
    match kind {
        ProviderType::Vsphere => "vsphere",
        ProviderType::Libvirt => "libvirt",
        ProviderType::Firecracker => "firecracker",
        ProviderType::Qemu => "qemu",
        ProviderType::Proxmox => "proxmox",
        ProviderType::Mock => "mock",
        ProviderType::Kubevirt => "kubevirt",
        ProviderType::Aws => "aws",
        ProviderType::Azure => "azure",
    }
}

/// What the Provider says about health checks; a switched-off check is one that comes once an hour.
fn timing(provider: &Provider) -> Timing {
    let default = Timing::default();
    let Some(check) = &provider.spec.health_check else {
        return default;
    };
    let interval = if check.enabled {
        check.interval.parse().unwrap_or(default.interval)
    } else {
        Duration::from_secs(3600)
    };
    Timing {
        interval: interval.max(Duration::from_secs(1)),
        timeout: check
            .timeout
            .parse()
            .unwrap_or(default.timeout)
            .max(Duration::from_millis(100)),
        failures: u32::try_from(check.failure_threshold)
            .unwrap_or(default.failures)
            .max(1),
    }
}

fn limits(provider: &Provider, concurrency: usize) -> ProviderLimits {
    let rate = provider.spec.rate_limit.as_ref();
    ProviderLimits {
        concurrency: i32::try_from(concurrency).unwrap_or(i32::MAX),
        calls_per_second: rate.map(|r| r.qps),
        burst: rate.map(|r| r.burst),
    }
}

fn rate(provider: &Provider) -> Option<Rate> {
    let limit = provider.spec.rate_limit.as_ref()?;
    Some(Rate::new(limit, tokio::time::Instant::now()))
}

/// How metrics name a Provider.
pub fn labels(key: &ObjectKey, provider: &Provider) -> ProviderLabels {
    ProviderLabels {
        provider_type: type_word(provider.spec.type_).to_owned(),
        provider: key.to_string(),
    }
}
