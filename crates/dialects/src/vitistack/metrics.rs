//! What is counted of Machines, under the names that dashboards of Viti Stack already use.

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

/// Labels of Machines.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct MachineLabels {
    /// Where they stand.
    pub phase: String,
    /// What they call their size; empty if nothing.
    pub template: String,
}

/// A controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ControllerLabel {
    /// `Machine` or `KubevirtConfig`.
    pub controller: &'static str,
}

/// Labels of errors.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ErrorLabels {
    /// `Machine` or `KubevirtConfig`.
    pub controller: &'static str,
    /// The reason, as in the condition.
    pub error_type: String,
}

/// Labels of VMs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StatusLabel {
    /// How the hypervisor calls their state.
    pub status: String,
}

/// Labels of storage.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StorageLabel {
    /// The StorageClass; `default` if none is named.
    pub storage_class: String,
}

/// Labels of networks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct NetworkLabel {
    /// What the Machine calls it.
    pub network_name: String,
}

/// How one Machine is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Where it stands.
    pub phase: String,
    /// What it calls its size.
    pub template: String,
    /// How the hypervisor calls the state of its VM, if it has one.
    pub vm: Option<String>,
}

/// All that is counted of Machines.
pub struct Metrics {
    machines: Family<MachineLabels, Gauge>,
    vms: Family<StatusLabel, Gauge>,
    seconds: Family<ControllerLabel, Histogram>,
    errors: Family<ErrorLabels, Counter>,
    storage: Family<StorageLabel, Histogram>,
    networks: Family<NetworkLabel, Counter>,
    counted: Mutex<HashMap<ObjectKey, Counted>>,
    /// The network of each Machine that cannot be used, as it was counted last.
    unusable: Mutex<HashMap<ObjectKey, String>>,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 4.0, 9))
}

fn long_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.25, 2.0, 12))
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            machines: Family::default(),
            vms: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            errors: Family::default(),
            storage: Family::new_with_constructor(long_seconds),
            networks: Family::default(),
            counted: Mutex::default(),
            unusable: Mutex::default(),
        }
    }
}

impl Metrics {
    /// Registers everything under the names of the reference page.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("kubevirt_operator");
        registry.register(
            "machines_total",
            "Machines by phase and size",
            self.machines.clone(),
        );
        registry.register(
            "virtual_machines_total",
            "VMs of Machines by state",
            self.vms.clone(),
        );
        registry.register(
            "reconciliation_duration_seconds",
            "Time of a pass",
            self.seconds.clone(),
        );
        registry.register(
            "reconciliation_errors",
            "Passes that found something wrong",
            self.errors.clone(),
        );
        registry.register(
            "storage_provisioning_duration_seconds",
            "Time from the making of a VM to its disks",
            self.storage.clone(),
        );
        registry.register(
            "network_configuration_errors",
            "Networks that a Machine names and that cannot be used",
            self.networks.clone(),
        );
    }

    /// A pass ended.
    pub fn pass(&self, controller: &'static str, took: Duration) {
        let label = ControllerLabel { controller };
        let seconds = self.seconds.get_or_create(&label);
        seconds.observe(took.as_secs_f64());
    }

    /// A pass found something wrong.
    pub fn error(&self, controller: &'static str, error_type: &str) {
        let error_type = error_type.to_owned();
        let labels = ErrorLabels {
            controller,
            error_type,
        };
        self.errors.get_or_create(&labels).inc();
    }

    /// A pass found that the Machine cannot use this network, or no such network. The same one again is not counted again.
    pub fn network_error(&self, machine: &ObjectKey, network: Option<&str>) {
        let mut unusable = self.unusable.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(network) = network else {
            unusable.remove(machine);
            return;
        };
        let network_name = network.to_owned();
        let before = unusable.insert(machine.clone(), network_name.clone());
        if before.as_deref() != Some(network) {
            let label = NetworkLabel { network_name };
            self.networks.get_or_create(&label).inc();
        }
    }

    /// The disks of a VM were there so long after it was made.
    pub fn storage_ready(&self, class: &str, took: Duration) {
        let storage_class = class.to_owned();
        let label = StorageLabel { storage_class };
        let seconds = self.storage.get_or_create(&label);
        seconds.observe(took.as_secs_f64());
    }

    /// A Machine is counted so from now on; `None` if it is gone.
    pub fn count(&self, machine: &ObjectKey, now: Option<Counted>) {
        if now.is_none() {
            self.network_error(machine, None);
        }
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.get(machine) == now.as_ref() {
            return;
        }
        let before = match &now {
            Some(now) => counted.insert(machine.clone(), now.clone()),
            None => counted.remove(machine),
        };
        if let Some(before) = before {
            self.add(&before, -1);
        }
        if let Some(now) = now {
            self.add(&now, 1);
        }
    }

    fn add(&self, counted: &Counted, number: i64) {
        let labels = MachineLabels {
            phase: counted.phase.clone(),
            template: counted.template.clone(),
        };
        self.machines.get_or_create(&labels).inc_by(number);
        if let Some(status) = counted.vm.clone() {
            self.vms
                .get_or_create(&StatusLabel { status })
                .inc_by(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    fn text(metrics: &Metrics) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        metrics.register(&mut registry);
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn each_network_of_a_machine_that_cannot_be_used_is_counted_once() {
        let metrics = Metrics::default();
        let key = ObjectKey::new("ns", "web");
        let seen = ["prod", "prod", "storage", "storage"];
        for network in seen {
            metrics.network_error(&key, Some(network));
        }
        metrics.network_error(&key, None);
        metrics.network_error(&key, Some("storage"));
        let shown = text(&metrics);
        for (network, number) in [("prod", 1), ("storage", 2)] {
            let line = format!(
                "kubevirt_operator_network_configuration_errors_total{{network_name=\"{network}\"}} {number}"
            );
            assert!(shown.contains(&line), "{shown}");
        }
    }

    #[test]
    fn a_machine_is_counted_once_wherever_it_stands() {
        let metrics = Metrics::default();
        let key = ObjectKey::new("ns", "web");
        let at = |phase: &str, vm: Option<&str>| Counted {
            phase: phase.into(),
            template: "small".into(),
            vm: vm.map(str::to_owned),
        };
        metrics.count(&key, Some(at("Creating", None)));
        metrics.count(&key, Some(at("Running", Some("Running"))));
        metrics.count(&key, Some(at("Running", Some("Running"))));
        let shown = text(&metrics);
        let line = |phase, number| {
            format!(
                "kubevirt_operator_machines_total{{phase=\"{phase}\",template=\"small\"}} {number}"
            )
        };
        assert!(shown.contains(&line("Running", 1)), "{shown}");
        assert!(shown.contains(&line("Creating", 0)), "{shown}");
        metrics.count(&key, None);
        assert!(text(&metrics).contains(&line("Running", 0)));
    }
}
