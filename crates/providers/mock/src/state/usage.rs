//! What VMs that are only imagined would use: a tenth of their processors since the mock began, and half of their memory.

use std::time::Duration;

use polyvirt_contract::model::VmUsage;

use crate::state::State;

impl State {
    /// What the running VMs use.
    pub(crate) fn usage(&self, now: Duration) -> Vec<VmUsage> {
        let running = self.vms.iter().filter(|(_, vm)| vm.runs());
        let used = running.map(|(key, vm)| VmUsage {
            id: key.id(),
            cpu_time: now * vm.hardware.cpu / 10,
            memory_bytes: Some(vm.hardware.memory_mib << 19),
        });
        used.collect()
    }
}
