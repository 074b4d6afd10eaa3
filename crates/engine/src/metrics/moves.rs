//! What is counted of moves between hosts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::TypeLabel;
use crate::runtime::key::ObjectKey;

/// Labels of a move that ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct MoveLabels {
    /// `qemu`, `libvirt`, …
    pub provider_type: String,
    /// `moved`, `failed` or `cancelled`.
    pub result: &'static str,
}

/// What is counted of moves between hosts.
#[derive(Clone)]
pub struct Moves {
    ended: Family<MoveLabels, Counter>,
    seconds: Family<TypeLabel, Histogram>,
    downtime: Family<TypeLabel, Histogram>,
    begun: Arc<Mutex<HashMap<ObjectKey, Timestamp>>>,
}

impl Default for Moves {
    fn default() -> Self {
        Self {
            ended: Family::default(),
            seconds: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.5, 2.0, 14))
            }),
            downtime: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.01, 2.0, 12))
            }),
            begun: Arc::default(),
        }
    }
}

impl Moves {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "vm_migrations",
            "Moves of VMs between hosts that ended",
            self.ended.clone(),
        );
        registry.register(
            "vm_migration_duration_seconds",
            "Time from the beginning of a move that succeeded to its end",
            self.seconds.clone(),
        );
        registry.register(
            "vm_migration_downtime_seconds",
            "Time that the guest of a moved VM stood still, where the provider measured it",
            self.downtime.clone(),
        );
    }

    /// A migration began. The API keeps whole seconds, which is more than many migrations take.
    pub fn began(&self, migration: &ObjectKey, now: Timestamp) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.entry(migration.clone()).or_insert(now);
    }

    /// When a migration that is over began, if this process has seen it. Forgets it.
    pub fn beginning(&self, migration: &ObjectKey) -> Option<Timestamp> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.remove(migration)
    }

    /// A move ended.
    pub fn ended(&self, provider_type: &str, result: &'static str) {
        let provider_type = provider_type.to_owned();
        let labels = MoveLabels {
            provider_type,
            result,
        };
        self.ended.get_or_create(&labels).inc();
    }

    /// A move that succeeded took so long, and its guest stood still for so long.
    pub fn took(&self, provider_type: &str, took: Duration, downtime: Option<Duration>) {
        let provider_type = provider_type.to_owned();
        let label = TypeLabel { provider_type };
        self.seconds
            .get_or_create(&label)
            .observe(took.as_secs_f64());
        if let Some(downtime) = downtime {
            let stood = downtime.as_secs_f64();
            self.downtime.get_or_create(&label).observe(stood);
        }
    }
}
