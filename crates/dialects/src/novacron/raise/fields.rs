//! The plain fields of the status.

use polyvirt_api::infra::{self, MigrationPhase, VMMigration, VMSnapshotInfo};
use polyvirt_api::novacron::{
    MigrationStatus, ResourceUsage, SnapshotStatus, Unplaced, Usage, VirtualMachineStatus,
};

use super::{Facts, Trouble, phase};
use crate::shared::size::binary_quantity;

const MIB: u64 = 1 << 20;

pub(super) fn fill(status: &mut VirtualMachineStatus, facts: &Facts<'_>, phase: &str) {
    status.placement = facts.trouble.and_then(unplaced);
    if let Some(Trouble::VmMissing { id, .. }) = facts.trouble {
        return lost(status, id);
    }
    let Some(made) = facts.made else { return };
    let Some(made) = made.status.as_ref() else {
        // A new VirtualMachine: the VM of a former one is no longer the one that is meant.
        status.vm_id = None;
        return;
    };
    let runs = matches!(phase, phase::RUNNING | phase::MIGRATING);
    status.node_name = made.host.clone().filter(|_| runs);
    status.vm_id = made.id.clone().filter(|id| !id.is_empty());
    status.ip_addresses.clone_from(&made.ips);
    status.snapshots = made.snapshots.iter().map(snapshot).collect();
    status.resources = resources(facts, made);
    status.migration = match facts.migration {
        Some(migration) => Some(told(migration)),
        None => (phase == phase::MIGRATING).then(|| untold(status)),
    };
}

/// The id stays: it says that there was a VM.
fn lost(status: &mut VirtualMachineStatus, id: &str) {
    status.vm_id = Some(id.to_owned());
    status.node_name = None;
    status.ip_addresses.clear();
    status.snapshots.clear();
    status.resources = None;
    status.migration = None;
}

/// What `polyvirt vm explain` shows of a VM that no Provider takes.
fn unplaced(trouble: &Trouble) -> Option<Unplaced> {
    let Trouble::Place(why) = trouble else {
        return None;
    };
    Some(Unplaced {
        message: why.to_string().chars().take(1024).collect(),
        hosts: why.obstacles().to_vec(),
    })
}

fn snapshot(info: &VMSnapshotInfo) -> SnapshotStatus {
    let bytes = info.size_bytes.and_then(|b| u64::try_from(b).ok());
    SnapshotStatus {
        name: info.name.clone(),
        created_at: info.creation_time.clone(),
        size: bytes.filter(|b| *b > 0).map(binary_quantity),
    }
}

/// What it has. What it uses changes all the time, and is told by metrics.
fn resources(facts: &Facts<'_>, made: &infra::VirtualMachineStatus) -> Option<ResourceUsage> {
    made.id.as_ref()?;
    let size = made.current_resources.as_ref();
    let memory = size.and_then(|s| u64::try_from(s.memory_mib?).ok()?.checked_mul(MIB));
    let disk = &facts.vm.spec.template.spec.resources.disk;
    Some(ResourceUsage {
        cpu: size.and_then(|s| s.cpu).map(|n| has(n.to_string())),
        memory: memory.map(|bytes| has(binary_quantity(bytes))),
        disk: Some(has(disk.clone())),
    })
}

fn has(amount: String) -> Usage {
    Usage {
        available: Some(amount),
        ..Usage::default()
    }
}

/// The words are those that NovaCron knows, and those for what it has no word for.
fn told(migration: &VMMigration) -> MigrationStatus {
    let status = migration.status.clone().unwrap_or_default();
    let state = match status.phase {
        Some(MigrationPhase::Ready) => "completed",
        Some(MigrationPhase::Failed) => "failed",
        Some(MigrationPhase::Cancelled) => "cancelled",
        Some(MigrationPhase::Transferring) => "running",
        _ => "pending",
    };
    let percent = status.progress.and_then(|p| p.percentage);
    MigrationStatus {
        state: Some(state.to_owned()),
        target_node: migration.spec.target.host.clone(),
        progress: match state {
            "completed" => Some(100),
            _ => percent,
        },
        start_time: status.start_time,
    }
}

/// KubeVirt moves VMs by itself, and does not tell how far it is.
fn untold(status: &VirtualMachineStatus) -> MigrationStatus {
    let known = status.migration.clone().unwrap_or_default();
    MigrationStatus {
        state: Some("running".to_owned()),
        ..known
    }
}
