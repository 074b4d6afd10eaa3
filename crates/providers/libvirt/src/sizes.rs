//! Sizes of disks that nobody has written down: those of VMs that others made, and first disks that are as large as their image.
//! Whoever adopts a VM by the list of all wants them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use polyvirt_contract::model::{DiskState, VmState};

use crate::core::Core;
use crate::rpc::DomainStats;

/// libvirt looks into the files for it. A list does not wait for a storage that hangs: then sizes are those that were told last.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sizes in GiB by path.
type ByPath = BTreeMap<String, u32>;

/// What was told last.
#[derive(Default)]
pub(crate) struct Sizes {
    told: Mutex<ByPath>,
    /// Held by the one question that is on its way.
    asking: Arc<tokio::sync::Mutex<()>>,
}

impl Sizes {
    fn keep(&self, told: ByPath) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = told;
    }

    fn fill(&self, vms: &mut [VmState]) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for disk in vms.iter_mut().flat_map(disks_mut) {
            if disk.size_gib == 0 {
                disk.size_gib = told.get(&disk.path).copied().unwrap_or(0);
            }
        }
    }
}

/// Fills in what is not known, by one call for all VMs.
pub(crate) async fn fill(core: &Arc<Core>, vms: &mut [VmState]) {
    if vms
        .iter_mut()
        .flat_map(disks_mut)
        .all(|disk| disk.size_gib > 0)
    {
        return;
    }
    if let Ok(one) = core.sizes.asking.clone().try_lock_owned() {
        let core = core.clone();
        let question = tokio::spawn(async move {
            ask(&core).await;
            drop(one);
        });
        let _ = tokio::time::timeout(PATIENCE, question).await;
    }
    core.sizes.fill(vms);
}

async fn ask(core: &Core) {
    let Ok(session) = core.session().await else {
        return;
    };
    match session.blocks().await {
        Ok(told) => core.sizes.keep(told.iter().flat_map(of_domain).collect()),
        Err(error) => tracing::debug!(%error, "Sizes of disks are not known"),
    }
}

fn disks_mut(vm: &mut VmState) -> impl Iterator<Item = &mut DiskState> {
    vm.root.iter_mut().chain(vm.disks.iter_mut().flatten())
}

fn of_domain(stats: &DomainStats) -> Vec<(String, u32)> {
    let count = stats.number("block.count").unwrap_or(0);
    let one = |place: u64| {
        let path = stats.text(&format!("block.{place}.path"))?;
        let bytes = stats.number(&format!("block.{place}.capacity"))?;
        let gib = u32::try_from(bytes.div_ceil(1 << 30)).unwrap_or(u32::MAX);
        Some((path.to_owned(), gib))
    };
    (0..count).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_is_believed_and_the_rest_is_filled_in() {
        let disk = |path: &str, size_gib| DiskState {
            path: path.to_owned(),
            size_gib,
            ..DiskState::default()
        };
        let sizes = Sizes::default();
        sizes.keep([("/a".to_owned(), 3), ("/b".to_owned(), 4)].into());
        let mut vms = [VmState {
            root: Some(disk("/a", 0)),
            disks: Some(vec![disk("/b", 2), disk("/c", 0)]),
            ..VmState::default()
        }];
        sizes.fill(&mut vms);
        let all: Vec<u32> = disks_mut(&mut vms[0]).map(|disk| disk.size_gib).collect();
        assert_eq!(all, [3, 2, 0]);
    }
}
