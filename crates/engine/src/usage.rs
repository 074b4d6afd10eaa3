//! What VMs use, asked of their providers only while somebody wants to know: one call a provider for all its VMs, and not more
//! often than every half minute. Nobody waits for it: who asks gets the last figures, and new ones are on their way.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use polyvirt_contract::model::VmUsage;
use polyvirt_contract::{Extension, Provider, VmId};

use crate::link::{Links, Standing};
use crate::runtime::key::ObjectKey;

/// How long figures are good.
const FRESH: Duration = Duration::from_secs(30);
/// Figures that are older say nothing any more.
const STALE: Duration = Duration::from_mins(5);

/// What a VM uses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Cores, on average between the last two answers; `None` before there are two.
    pub cpu_cores: Option<f64>,
    /// Bytes of memory of the host; `None` if the provider does not tell.
    pub memory_bytes: Option<u64>,
}

/// Asks for figures and keeps them.
pub struct Meter {
    links: Arc<Links>,
    told: Mutex<HashMap<ObjectKey, Told>>,
}

/// What one provider told.
struct Told {
    asked: Instant,
    vms: HashMap<VmId, Reading>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    at: Instant,
    cpu_time: Duration,
    used: Used,
}

impl Meter {
    pub(crate) fn new(links: Arc<Links>) -> Arc<Self> {
        Arc::new(Self {
            links,
            told: Mutex::default(),
        })
    }

    fn told(&self) -> MutexGuard<'_, HashMap<ObjectKey, Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a VM used when its provider was last asked.
    pub fn of(&self, provider: &ObjectKey, vm: &VmId) -> Option<Used> {
        let told = self.told();
        let reading = told.get(provider)?.vms.get(vm)?;
        (reading.at.elapsed() < STALE).then_some(reading.used)
    }

    /// Sees to it that these providers are asked soon, and forgets all others. Must be called where tokio runs.
    pub fn want(self: &Arc<Self>, providers: &BTreeSet<ObjectKey>) {
        self.told().retain(|key, _| providers.contains(key));
        for key in providers {
            let Some(provider) = self.due(key) else {
                continue;
            };
            let (meter, key) = (self.clone(), key.clone());
            tokio::spawn(async move { meter.ask(&key, &*provider).await });
        }
    }

    /// The provider, if it can tell and it is time to ask. From now on it counts as asked.
    fn due(&self, key: &ObjectKey) -> Option<Arc<dyn Provider>> {
        let view = self.links.get(key)?.view();
        let connected = matches!(view.standing, Standing::Connected { .. });
        let provider = view.provider.filter(|_| connected)?;
        let now = Instant::now();
        let mut told = self.told();
        let known = told.get(key).map(|told| told.asked);
        let late = known.is_none_or(|asked| now.duration_since(asked) >= FRESH);
        if !late || !view.features.has(Extension::Usage) {
            return None;
        }
        let entry = told.entry(key.clone()).or_insert_with(|| Told {
            asked: now,
            vms: HashMap::new(),
        });
        entry.asked = now;
        Some(provider)
    }

    async fn ask(&self, key: &ObjectKey, provider: &dyn Provider) {
        match provider.usage().await {
            Ok(usage) => self.keep(key, usage, Instant::now()),
            Err(error) => tracing::debug!(provider = %key, %error, "usage is not told"),
        }
    }

    fn keep(&self, key: &ObjectKey, usage: Vec<VmUsage>, at: Instant) {
        let mut told = self.told();
        let Some(entry) = told.get_mut(key) else {
            return;
        };
        let read = |vm: VmUsage| {
            let reading = reading(entry.vms.get(&vm.id), &vm, at);
            (vm.id, reading)
        };
        let vms = usage.into_iter().map(read).collect();
        entry.vms = vms;
    }
}

/// A VM that started anew since the last answer has used all its time since then.
fn reading(before: Option<&Reading>, vm: &VmUsage, at: Instant) -> Reading {
    let cores = before.and_then(|before| {
        let passed = at.duration_since(before.at).as_secs_f64();
        let spent = vm.cpu_time.checked_sub(before.cpu_time);
        let spent = spent.unwrap_or(vm.cpu_time).as_secs_f64();
        (passed > 0.0).then_some(spent / passed)
    });
    Reading {
        at,
        cpu_time: vm.cpu_time,
        used: Used {
            cpu_cores: cores,
            memory_bytes: vm.memory_bytes,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(seconds: u64) -> VmUsage {
        VmUsage {
            id: "vm-1".into(),
            cpu_time: Duration::from_secs(seconds),
            memory_bytes: Some(1 << 20),
        }
    }

    #[test]
    fn a_rate_needs_two_answers_and_survives_a_restart() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let first = reading(None, &usage(100), at(0));
        assert_eq!(first.used.cpu_cores, None);
        assert_eq!(first.used.memory_bytes, Some(1 << 20));
        let second = reading(Some(&first), &usage(115), at(30));
        assert_eq!(second.used.cpu_cores, Some(0.5));
        let anew = reading(Some(&second), &usage(3), at(60));
        assert_eq!(anew.used.cpu_cores, Some(0.1));
        assert_eq!(reading(Some(&anew), &usage(4), at(60)).used.cpu_cores, None);
    }

    #[test]
    fn what_nobody_wants_is_forgotten() {
        let meter = Meter::new(Arc::default());
        let key = ObjectKey::new("ns", "kvm");
        let told = Told {
            asked: Instant::now(),
            vms: HashMap::new(),
        };
        meter.told().insert(key.clone(), told);
        meter.keep(&key, vec![usage(1)], Instant::now());
        assert!(meter.of(&key, &"vm-1".into()).is_some());
        assert!(meter.of(&key, &"vm-2".into()).is_none());
        meter.want(&BTreeSet::new());
        assert!(meter.of(&key, &"vm-1".into()).is_none());
        meter.keep(&key, vec![usage(2)], Instant::now());
        assert!(
            meter.of(&key, &"vm-1".into()).is_none(),
            "an answer that came late"
        );
    }
}
