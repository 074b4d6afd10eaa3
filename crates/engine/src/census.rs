//! What can be counted when somebody asks: VMs by phase, and what waits and runs for each provider. At rest it costs nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::context::Stores;
use crate::runtime::key::ObjectKey;
use crate::runtime::queue::{Lane, Load, Queue};
use crate::runtime::vm_index::provider_of;

/// Counts what the caches and the queue hold.
pub struct Census {
    stores: Arc<Stores>,
    queue: Queue,
}

/// VMs in one phase on one provider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct PhaseLabels {
    provider: String,
    phase: String,
}

#[derive(Clone, Debug, EncodeLabelSet)]
struct LaneLabels {
    provider: String,
}

impl Census {
    /// Counts in these.
    pub const fn new(stores: Arc<Stores>, queue: Queue) -> Self {
        Self { stores, queue }
    }

    fn phases(&self) -> BTreeMap<PhaseLabels, i64> {
        let mut phases = BTreeMap::new();
        for vm in self.stores.vms.list() {
            let phase = vm.status.as_ref().and_then(|s| s.phase);
            let labels = PhaseLabels {
                provider: provider_of(&vm).to_string(),
                phase: phase.map_or_else(|| "Pending".to_owned(), |p| format!("{p:?}")),
            };
            *phases.entry(labels).or_default() += 1;
        }
        phases
    }

    /// Every provider has a number, though nothing waits for it.
    fn loads(&self) -> BTreeMap<ObjectKey, Load> {
        let known = self.stores.providers.keys().into_iter();
        let mut loads: BTreeMap<_, _> = known.map(|key| (key, Load::default())).collect();
        for (lane, load) in self.queue.loads() {
            if let Lane::Provider(key) = lane {
                loads.insert(key, load);
            }
        }
        loads
    }
}

impl fmt::Debug for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Census").finish_non_exhaustive()
    }
}

impl Collector for Census {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let phases = self.phases();
        let mut family = encoder.encode_descriptor(
            "virtrigaud_vms",
            "VirtualMachines by provider and phase",
            None,
            MetricType::Gauge,
        )?;
        for (labels, number) in &phases {
            ConstGauge::new(*number).encode(family.encode_family(labels)?)?;
        }
        let loads = self.loads();
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        for (name, help, count) in [
            (
                "virtrigaud_provider_queue_depth",
                "Objects of a provider that wait to be looked at",
                (|load: &Load| load.waiting) as fn(&Load) -> usize,
            ),
            (
                "virtrigaud_provider_passes_inflight",
                "Objects of a provider that are worked on now",
                |load| load.running,
            ),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (key, load) in &loads {
                let labels = LaneLabels {
                    provider: key.to_string(),
                };
                let gauge = ConstGauge::new(number(count(load)));
                gauge.encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use polyvirt_api::infra::{
        Provider, ProviderSpec, ProviderType, VMPhase, VirtualMachine, VirtualMachineSpec,
    };
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::runtime::key::{Key, Kind};
    use crate::runtime::queue::Urgency;

    fn vm(name: &str, phase: Option<VMPhase>) -> VirtualMachine {
        let mut vm = VirtualMachine::new(name, VirtualMachineSpec::default());
        vm.metadata.namespace = Some("ns".to_owned());
        vm.spec.provider_ref.name = "p".to_owned();
        vm.status.get_or_insert_default().phase = phase;
        vm
    }

    #[test]
    fn vms_are_counted_by_phase_and_a_provider_at_rest_has_a_zero() {
        let stores = Arc::<Stores>::default();
        let mut provider = Provider::new("p", ProviderSpec::new(ProviderType::Mock));
        provider.metadata.namespace = Some("ns".to_owned());
        stores.providers.watched(provider);
        for (name, phase) in [
            ("a", Some(VMPhase::Running)),
            ("b", Some(VMPhase::Running)),
            ("c", None),
        ] {
            stores.vms.watched(vm(name, phase));
        }
        let queue = Queue::new(4);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Census::new(stores, queue.clone())));
        let mut text = String::new();
        encode(&mut text, &registry).expect("encoded");
        for line in [
            r#"virtrigaud_vms{provider="ns/p",phase="Running"} 2"#,
            r#"virtrigaud_vms{provider="ns/p",phase="Pending"} 1"#,
            r#"virtrigaud_provider_queue_depth{provider="ns/p"} 0"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        let lane = Lane::Provider(ObjectKey::new("ns", "p"));
        let key = Key::new(Kind::VirtualMachine, ObjectKey::new("ns", "a"));
        queue.add(key, lane, Urgency::Event);
        text.clear();
        encode(&mut text, &registry).expect("encoded");
        assert!(text.contains(r#"virtrigaud_provider_queue_depth{provider="ns/p"} 1"#));
    }
}
