//! VMSnapshots.

use polyvirt_api::infra::{ReportedCapabilities, VMSnapshot};
use polyvirt_plan::Problem;
use polyvirt_plan::snapshot::desired::resolve;
use polyvirt_plan::snapshot::schedule::schedule;

use super::{Judged, references};
use crate::facts::{Facts, Found};

impl Judged for VMSnapshot {
    fn problems(&self, _: &dyn Facts) -> Vec<Problem> {
        let mut found: Vec<_> = resolve(self).err().into_iter().collect();
        if self.spec.schedule.is_some() {
            found.extend(schedule(self).err().filter(|p| !found.contains(p)));
        }
        found
    }

    fn warnings(&self, _: Option<&Self>, facts: &dyn Facts) -> Vec<String> {
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let vm = references::local(namespace, &self.spec.vm_ref);
        let found = facts.vm(&vm);
        let gone = references::missing(&found, "spec.vmRef", "VirtualMachine", &vm);
        let ignored = resolve(self)
            .map(|desired| desired.ignored)
            .unwrap_or_default();
        let idle = ignored
            .iter()
            .map(|field| format!("{field} does nothing yet"));
        let mut told: Vec<_> = gone.into_iter().chain(idle).collect();
        if let Found::Here(vm) = found {
            let provider = references::key(namespace, &vm.spec.provider_ref);
            let provider = facts.provider(&provider);
            let can = provider
                .here()
                .and_then(|p| p.status.as_ref()?.reported_capabilities.as_ref());
            told.extend(can.and_then(|can| beyond(self, can)));
        }
        told
    }
}

fn beyond(snapshot: &VMSnapshot, can: &ReportedCapabilities) -> Option<String> {
    if !can.supports_snapshots {
        return Some("The VM's provider takes no snapshots".to_owned());
    }
    let config = snapshot.spec.snapshot_config.as_ref()?;
    (config.include_memory && !can.supports_memory_snapshots).then(|| {
        "spec.snapshotConfig.includeMemory: the VM's provider takes no snapshots with memory"
            .to_owned()
    })
}
