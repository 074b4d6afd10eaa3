//! What is counted of VMs of NovaCron, under the names that its page promises.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use polyvirt_engine::runtime::key::ObjectKey;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Labels of VMs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PhaseLabel {
    /// Where they stand.
    pub phase: String,
}

/// How a pass ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ResultLabel {
    /// `success` or `error`.
    pub result: &'static str,
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All that was to be done is done.
    Success,
    /// Kubernetes stood in the way; it is tried again.
    Error,
}

/// All that is counted of VMs of NovaCron.
pub struct Metrics {
    vms: Family<PhaseLabel, Gauge>,
    passes: Family<ResultLabel, Counter>,
    seconds: Histogram,
    /// The phase of each.
    counted: Mutex<HashMap<ObjectKey, String>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            vms: Family::default(),
            passes: Family::default(),
            seconds: Histogram::new(exponential_buckets(0.001, 4.0, 9)),
            counted: Mutex::default(),
        }
    }
}

impl Metrics {
    /// Registers everything under the names of the reference page.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("novacron");
        registry.register("vm_total", "VMs of NovaCron by phase", self.vms.clone());
        registry.register("reconcile", "Passes over VMs", self.passes.clone());
        registry.register(
            "reconcile_duration_seconds",
            "Time of a pass over a VM",
            self.seconds.clone(),
        );
    }

    /// A pass ended.
    pub fn pass(&self, outcome: Outcome, took: Duration) {
        let result = match outcome {
            Outcome::Success => "success",
            Outcome::Error => "error",
        };
        self.passes.get_or_create(&ResultLabel { result }).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// A VM stands there from now on; `None` if it is gone.
    pub fn count(&self, vm: &ObjectKey, phase: Option<&str>) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.get(vm).map(String::as_str) == phase {
            return;
        }
        let before = match phase {
            Some(phase) => {
                self.add(phase, 1);
                counted.insert(vm.clone(), phase.to_owned())
            }
            None => counted.remove(vm),
        };
        if let Some(before) = before {
            self.add(&before, -1);
        }
    }

    fn add(&self, phase: &str, number: i64) {
        let phase = phase.to_owned();
        self.vms.get_or_create(&PhaseLabel { phase }).inc_by(number);
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    fn text(metrics: &Metrics) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        metrics.register(&mut registry);
        encode(&mut text, &registry).expect("text");
        text
    }

    #[test]
    fn a_vm_is_counted_once() {
        let metrics = Metrics::default();
        let key = ObjectKey::new("ns", "web");
        metrics.count(&key, Some("Pending"));
        metrics.count(&key, Some("Running"));
        metrics.count(&key, Some("Running"));
        metrics.pass(Outcome::Success, Duration::from_millis(2));
        let shown = text(&metrics);
        for line in [
            "novacron_vm_total{phase=\"Running\"} 1",
            "novacron_vm_total{phase=\"Pending\"} 0",
            "novacron_reconcile_total{result=\"success\"} 1",
            "novacron_reconcile_duration_seconds_count 1",
        ] {
            assert!(shown.contains(line), "{line} is not in {shown}");
        }
        metrics.count(&key, None);
        let shown = text(&metrics);
        assert!(
            shown.contains("novacron_vm_total{phase=\"Running\"} 0"),
            "{shown}"
        );
    }
}
