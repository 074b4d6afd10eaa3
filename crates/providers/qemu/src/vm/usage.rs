//! What a VM uses. Measured when something else changes, so that at rest nothing has to be told.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use polyvirt_contract::model::VmUsage;

use crate::core::Core;
use crate::state::VmDir;
use crate::vm::live::Live;

/// Ticks of the kernel's clock for processes in a second; fixed on all machines that QEMU runs VMs on.
pub(crate) const TICKS: u64 = 100;

/// Figures of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) cpu_ticks: u64,
    pub(crate) rss_mib: u64,
    pub(crate) disk_mib: u64,
}

impl Usage {
    pub(crate) fn of(dir: &VmDir, live: Option<&Live>) -> Self {
        Self {
            disk_mib: disk_bytes(dir) >> 20,
            ..live.map(Self::of_process).unwrap_or_default()
        }
    }

    /// Without its disks.
    fn of_process(live: &Live) -> Self {
        let process = format!("/proc/{}", live.process.pid());
        let read = |file: &str| std::fs::read_to_string(format!("{process}/{file}")).ok();
        Self {
            cpu_ticks: read("stat").as_deref().and_then(cpu_ticks).unwrap_or(0),
            rss_mib: read("status").as_deref().and_then(rss_mib).unwrap_or(0),
            disk_mib: 0,
        }
    }
}

/// What the running VMs use now.
pub(crate) fn of_all(core: &Core) -> Vec<VmUsage> {
    let running = core.all().into_iter();
    let running = running.filter_map(|vm| Some((vm.live()?, vm)));
    let used = running.map(|(live, vm)| {
        let used = Usage::of_process(&live);
        VmUsage {
            id: vm.uuid().vm_id(),
            cpu_time: Duration::from_millis(used.cpu_ticks * (1000 / TICKS)),
            memory_bytes: Some(used.rss_mib << 20),
        }
    });
    used.collect()
}

/// The name of the process, in parentheses, may hold anything: fields are counted behind it.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some(ticks(11)? + ticks(12)?)
}

fn rss_mib(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib >> 10)
}

fn disk_bytes(dir: &VmDir) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir.run()) else {
        return 0;
    };
    let blocks = entries
        .filter_map(|entry| entry.ok()?.metadata().ok())
        .map(|file| file.blocks());
    blocks.sum::<u64>() * 512
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_kernel() {
        let stat = "42 (qemu) x) S 1 42 42 0 -1 4194304 1 0 0 0 250 170 0 0 20 0 4 0 1 2 3";
        assert_eq!(cpu_ticks(stat), Some(420));
        assert_eq!(rss_mib("Name:\tq\nVmRSS:\t  262144 kB\n"), Some(256));
        assert_eq!(cpu_ticks("nonsense"), None);
    }
}
