//! What is counted of VMs of NovaCron, under the names that its page promises.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use polyvirt_api::infra;
use polyvirt_engine::runtime::key::ObjectKey;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// So many VMs have series of their own; further ones are only counted.
const MOST_SERIES: usize = 2000;

/// Labels of VMs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PhaseLabel {
    /// Where they stand.
    pub phase: String,
}

/// One VM.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct VmLabels {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
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

/// What a VM uses, where its provider tells.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Cores.
    pub cpu_cores: Option<f64>,
    /// Bytes of memory.
    pub memory_bytes: Option<f64>,
}

impl Used {
    /// What the provider told with the last state that the engine has seen.
    pub fn of(vm: &infra::VirtualMachine) -> Self {
        let told = |key: &str| {
            let status = vm.status.as_ref()?;
            let number: f64 = status.provider.get(key)?.parse().ok()?;
            (number.is_finite() && number >= 0.0).then_some(number)
        };
        Self {
            cpu_cores: told("cpuUsageCores"),
            memory_bytes: told("memoryUsageBytes"),
        }
    }
}

/// How one VM is counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Where it stands.
    pub phase: String,
    /// What it uses.
    pub used: Used,
}

type Float = Gauge<f64, AtomicU64>;

/// All that is counted of VMs of NovaCron.
pub struct Metrics {
    vms: Family<PhaseLabel, Gauge>,
    cpu: Family<VmLabels, Float>,
    memory: Family<VmLabels, Float>,
    passes: Family<ResultLabel, Counter>,
    seconds: Histogram,
    counted: Mutex<HashMap<ObjectKey, Counted>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            vms: Family::default(),
            cpu: Family::default(),
            memory: Family::default(),
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
        registry.register(
            "vm_cpu_usage_cores",
            "CPU that a VM uses, where its provider tells",
            self.cpu.clone(),
        );
        registry.register(
            "vm_memory_usage_bytes",
            "Memory that a VM uses, where its provider tells",
            self.memory.clone(),
        );
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

    /// A VM is counted so from now on; `None` if it is gone.
    pub fn count(&self, vm: &ObjectKey, now: Option<Counted>) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.get(vm) == now.as_ref() {
            return;
        }
        let used = now.as_ref().map(|now| now.used).unwrap_or_default();
        if let Some(now) = &now {
            self.add(&now.phase, 1);
        }
        let before = match now {
            Some(now) => counted.insert(vm.clone(), now),
            None => counted.remove(vm),
        };
        if let Some(before) = before {
            self.add(&before.phase, -1);
        }
        let has_room = counted.len() <= MOST_SERIES;
        show(&self.cpu, vm, used.cpu_cores.filter(|_| has_room));
        show(&self.memory, vm, used.memory_bytes.filter(|_| has_room));
    }

    fn add(&self, phase: &str, number: i64) {
        let phase = phase.to_owned();
        self.vms.get_or_create(&PhaseLabel { phase }).inc_by(number);
    }
}

/// A figure that is not known has no series.
fn show(family: &Family<VmLabels, Float>, vm: &ObjectKey, figure: Option<f64>) {
    let labels = VmLabels {
        namespace: vm.namespace().to_owned(),
        name: vm.name().to_owned(),
    };
    match figure {
        Some(figure) => drop(family.get_or_create(&labels).set(figure)),
        None => drop(family.remove(&labels)),
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
    fn a_vm_is_counted_once_and_its_figures_only_if_they_are_known() {
        let metrics = Metrics::default();
        let key = ObjectKey::new("ns", "web");
        let at = |phase: &str, cpu_cores| {
            Some(Counted {
                phase: phase.to_owned(),
                used: Used {
                    cpu_cores,
                    memory_bytes: None,
                },
            })
        };
        metrics.count(&key, at("Pending", None));
        metrics.count(&key, at("Running", Some(0.5)));
        metrics.pass(Outcome::Success, Duration::from_millis(2));
        let shown = text(&metrics);
        for line in [
            "novacron_vm_total{phase=\"Running\"} 1",
            "novacron_vm_total{phase=\"Pending\"} 0",
            "novacron_vm_cpu_usage_cores{namespace=\"ns\",name=\"web\"} 0.5",
            "novacron_reconcile_total{result=\"success\"} 1",
            "novacron_reconcile_duration_seconds_count 1",
        ] {
            assert!(shown.contains(line), "{line} is not in {shown}");
        }
        assert!(
            !shown.contains("novacron_vm_memory_usage_bytes{"),
            "{shown}"
        );
        metrics.count(&key, None);
        let shown = text(&metrics);
        assert!(
            shown.contains("novacron_vm_total{phase=\"Running\"} 0"),
            "{shown}"
        );
        assert!(!shown.contains("novacron_vm_cpu_usage_cores{"), "{shown}");
    }
}
