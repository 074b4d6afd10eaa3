//! What VMs use.

use std::time::Duration;

use crate::model::VmUsage;
use crate::wire::ext;

impl From<Vec<VmUsage>> for ext::GetUsageResponse {
    fn from(vms: Vec<VmUsage>) -> Self {
        let vms = vms.into_iter().map(|vm| ext::VmUsage {
            vm_id: vm.id.to_string(),
            cpu_time_ms: u64::try_from(vm.cpu_time.as_millis()).unwrap_or(u64::MAX),
            memory_bytes: vm.memory_bytes,
        });
        Self { vms: vms.collect() }
    }
}

impl From<ext::GetUsageResponse> for Vec<VmUsage> {
    fn from(response: ext::GetUsageResponse) -> Self {
        let vms = response.vms.into_iter().map(|vm| VmUsage {
            id: vm.vm_id.into(),
            cpu_time: Duration::from_millis(vm.cpu_time_ms),
            memory_bytes: vm.memory_bytes,
        });
        vms.collect()
    }
}
