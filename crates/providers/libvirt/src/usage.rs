//! What VMs use, in one call for all of them.

use std::time::Duration;

use polyvirt_contract::Result;
use polyvirt_contract::model::VmUsage;

use crate::core::Core;
use crate::rpc::DomainStats;

/// What the running VMs use.
pub(crate) async fn of_all(core: &Core) -> Result<Vec<VmUsage>> {
    let told = core.session().await?.usage().await?;
    Ok(told.iter().filter_map(of).collect())
}

/// What QEMU occupies on the host, not what the guest counts as used: that is what it costs.
fn of(stats: &DomainStats) -> Option<VmUsage> {
    let kib = stats.number("balloon.rss");
    Some(VmUsage {
        id: stats.domain.uuid.vm_id(),
        cpu_time: Duration::from_nanos(stats.number("cpu.time")?),
        memory_bytes: kib.map(|kib| kib << 10),
    })
}
