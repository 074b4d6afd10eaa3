//! What VMs of NovaCron use, under the names that its page promises. Found out when somebody asks for the metrics.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use polyvirt_contract::VmId;
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_engine::runtime::vm_index::provider_of;
use polyvirt_engine::usage::Used;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::Controller;

/// So many VMs have series of their own, the first by namespace and name.
const MOST_SERIES: usize = 2000;

/// One VM.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VmLabels {
    namespace: String,
    name: String,
}

/// Where the figures come from.
type Source = dyn Fn() -> Vec<(ObjectKey, Used)> + Send + Sync;

/// The figures of all VMs.
pub struct Figures(Box<Source>);

impl Figures {
    /// Figures that a closure finds.
    pub fn new(source: impl Fn() -> Vec<(ObjectKey, Used)> + Send + Sync + 'static) -> Self {
        Self(Box::new(source))
    }

    /// Those of the VMs that a controller looks after.
    pub fn of(controller: Arc<Controller>) -> Self {
        Self::new(move || controller.used())
    }
}

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Figures").finish_non_exhaustive()
    }
}

impl Controller {
    /// What each VM uses, as far as its provider has told. The providers are asked again, for the next time.
    fn used(&self) -> Vec<(ObjectKey, Used)> {
        let (mut providers, mut used) = (BTreeSet::new(), Vec::new());
        for (key, vm) in first(self.own_vms()) {
            let provider = provider_of(&vm);
            let id = vm.status.as_ref().and_then(|status| status.id.as_deref());
            if let Some(id) = id.and_then(VmId::non_empty) {
                let found = self.engine().meter.of(&provider, &id);
                used.extend(found.map(|found| (key, found)));
                providers.insert(provider);
            }
        }
        self.engine().meter.want(&providers);
        used
    }
}

/// Always the same ones, so that no series comes and goes.
fn first<T>(mut vms: Vec<(ObjectKey, T)>) -> impl Iterator<Item = (ObjectKey, T)> {
    vms.sort_by(|(a, _), (b, _)| a.cmp(b));
    vms.into_iter().take(MOST_SERIES)
}

impl Collector for Figures {
    /// A figure that is not known has no series.
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let used = (self.0)();
        let bytes = |used: &Used| used.memory_bytes.map(rough);
        for (name, help, figure) in [
            (
                "novacron_vm_cpu_usage_cores",
                "CPU that a VM uses, where its provider tells; of the first 2000 VMs by namespace and name",
                &(|used: &Used| used.cpu_cores) as &dyn Fn(&Used) -> Option<f64>,
            ),
            (
                "novacron_vm_memory_usage_bytes",
                "Memory that a VM uses, where its provider tells; of the first 2000 VMs by namespace and name",
                &bytes,
            ),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (key, figure) in used.iter().filter_map(|(key, u)| Some((key, figure(u)?))) {
                let labels = VmLabels {
                    namespace: key.namespace().to_owned(),
                    name: key.name().to_owned(),
                };
                ConstGauge::new(figure).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// Exact up to some petabytes.
#[expect(clippy::cast_precision_loss, reason = "nobody has so much memory")]
const fn rough(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn the_same_vms_have_series_each_time() {
        let name = |n: usize| (ObjectKey::new("ns", &format!("vm-{n:05}")), n);
        let all = (0..MOST_SERIES + 2).rev().map(name).collect();
        let numbers: Vec<_> = first(all).map(|(_, n)| n).collect();
        assert_eq!(numbers, (0..MOST_SERIES).collect::<Vec<_>>());
    }

    #[test]
    fn a_figure_that_is_not_known_has_no_series() {
        let used = |cpu_cores, memory_bytes| Used {
            cpu_cores,
            memory_bytes,
        };
        let figures = Figures::new(move || {
            vec![
                (ObjectKey::new("ns", "web"), used(Some(0.5), Some(4096))),
                (ObjectKey::new("ns", "new"), used(None, Some(8192))),
            ]
        });
        let (mut registry, mut text) = (Registry::default(), String::new());
        registry.register_collector(Box::new(figures));
        encode(&mut text, &registry).expect("text");
        for line in [
            "novacron_vm_cpu_usage_cores{namespace=\"ns\",name=\"web\"} 0.5",
            "novacron_vm_memory_usage_bytes{namespace=\"ns\",name=\"web\"} 4096.0",
            "novacron_vm_memory_usage_bytes{namespace=\"ns\",name=\"new\"} 8192.0",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        assert!(
            !text.contains("cores{namespace=\"ns\",name=\"new\""),
            "{text}"
        );
    }
}
