//! How full a hypervisor is, as the status of its Provider has it. Pure.

use polyvirt_api::infra::{ResourceUsage, UsageStats};
use polyvirt_contract::model::Inventory;

/// What the hosts and datastores have, and what is used of it.
pub(super) fn usage(inventory: &Inventory) -> ResourceUsage {
    let [cpu, memory, storage] = totals(inventory).map(stats);
    ResourceUsage {
        cpu: Some(cpu),
        memory: Some(memory),
        storage: Some(storage),
        network: None,
    }
}

/// The sum of what the hosts have and use, for the Provider's status: CPUs, bytes of memory, bytes of storage.
fn totals(inventory: &Inventory) -> [(u64, u64); 3] {
    let sum = |of: fn(&polyvirt_contract::model::Host) -> u64| inventory.hosts.iter().map(of).sum();
    let disks = |of: fn(&polyvirt_contract::model::Datastore) -> u64| {
        inventory.datastores.iter().map(of).sum()
    };
    [
        (sum(|h| u64::from(h.cpus)), sum(|h| u64::from(h.cpus_used))),
        (
            sum(|h| h.memory_mib << 20),
            sum(|h| h.memory_used_mib << 20),
        ),
        (
            disks(|d| d.capacity_bytes),
            disks(|d| d.capacity_bytes.saturating_sub(d.free_bytes)),
        ),
    ]
}

fn stats((total, used): (u64, u64)) -> UsageStats {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let percent = used.saturating_mul(100).checked_div(total).unwrap_or(0);
    UsageStats {
        total: Some(number(total)),
        used: Some(number(used)),
        available: Some(number(total.saturating_sub(used))),
        usage_percent: i32::try_from(percent).ok(),
    }
}

/// Whether the figures differ by one percent of what there is, or more.
pub(super) fn moved(old: Option<&ResourceUsage>, new: Option<&ResourceUsage>) -> bool {
    let (Some(old), Some(new)) = (old, new) else {
        return old.is_some() != new.is_some();
    };
    let pairs = [
        (&old.cpu, &new.cpu),
        (&old.memory, &new.memory),
        (&old.storage, &new.storage),
    ];
    pairs.into_iter().any(|(old, new)| {
        let (old, new) = (
            old.clone().unwrap_or_default(),
            new.clone().unwrap_or_default(),
        );
        let [was, is, total] = [old.used, new.used, new.total].map(Option::unwrap_or_default);
        old.total != new.total || (is != was && is.abs_diff(was) >= total.unsigned_abs() / 100)
    })
}

#[cfg(test)]
mod tests {
    use polyvirt_api::infra::ProviderStatus;

    use super::*;
    use crate::provider::report::differs;

    fn used(cpu: u64, storage: u64) -> ProviderStatus {
        ProviderStatus {
            resource_usage: Some(Box::new(ResourceUsage {
                cpu: Some(stats((8, cpu))),
                memory: None,
                storage: Some(stats((1000, storage))),
                network: None,
            })),
            ..ProviderStatus::default()
        }
    }

    #[test]
    fn usage_is_written_when_it_has_moved_by_a_percent() {
        assert!(differs(&used(0, 500), &used(1, 500)));
        assert!(!differs(&used(1, 500), &used(1, 509)));
        assert!(differs(&used(1, 500), &used(1, 490)));
        assert!(differs(&ProviderStatus::default(), &used(0, 0)));
    }
}
