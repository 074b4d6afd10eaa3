//! Moments to go back to.

use std::time::{Duration, SystemTime};

use polyvirt_contract::model::{
    GuestDisks, Quiesce, SnapshotContents, SnapshotCreated, SnapshotRequest, SnapshotState, VmRef,
};
use polyvirt_contract::{ProviderError, Result, SnapshotId, TaskId};

use crate::state::tasks::Action;
use crate::state::vm::{Disk, Hardware, Power, Snapshot, Vm, VmKey};
use crate::state::{Happened, State};

impl State {
    /// Takes a snapshot. One of the same name that is there is returned: the first reply may have been lost.
    pub(crate) fn snapshot_create(
        &mut self,
        now: Duration,
        vm: &VmRef,
        request: &SnapshotRequest,
    ) -> Result<SnapshotCreated> {
        let key = self.authorised(vm)?;
        if let Some(found) = self.snapshot_in_flight(key, &request.name_hint) {
            return Ok(found);
        }
        let vm = self.vm(key)?;
        if let Some(snapshot) = named(vm, &request.name_hint) {
            let id = snapshot.id.clone();
            return Ok(SnapshotCreated { id, task: None });
        }
        let id = SnapshotId::from(format!(
            "{}-snapshot-{}",
            key.id(),
            self.snapshots_taken + 1
        ));
        let snapshot = snapshot(vm, id.clone(), request);
        self.snapshots_taken += 1;
        let action = Action::SnapshotTake(key, Box::new(snapshot));
        let task = self.perform(now, action, self.times.snapshot)?;
        Ok(SnapshotCreated { id, task })
    }

    fn snapshot_in_flight(&self, key: VmKey, name: &str) -> Option<SnapshotCreated> {
        let task = self.vms.get(&key)?.volatile.busy?;
        match &self.tasks.running(task)?.action {
            Action::SnapshotTake(_, snapshot) if !name.is_empty() && &*snapshot.name == name => {
                Some(SnapshotCreated {
                    id: snapshot.id.clone(),
                    task: Some(self.tasks.id(task)),
                })
            }
            _ => None,
        }
    }

    pub(super) fn keep_snapshot(&mut self, key: VmKey, snapshot: Snapshot) -> Result<()> {
        let vm = self.vm_mut(key)?;
        vm.lineage.taken(&snapshot.id);
        vm.snapshots.push(snapshot);
        self.touch(key, Happened::SnapshotTaken);
        Ok(())
    }

    /// Deletes a snapshot.
    pub(crate) fn snapshot_delete(
        &mut self,
        now: Duration,
        vm: &VmRef,
        id: &SnapshotId,
    ) -> Result<Option<TaskId>> {
        let key = self.authorised(vm)?;
        self.snapshot(key, id)?;
        self.perform(
            now,
            Action::SnapshotDelete(key, id.clone()),
            self.times.snapshot,
        )
    }

    pub(super) fn drop_snapshot(&mut self, key: VmKey, id: &SnapshotId) -> Result<()> {
        self.snapshot(key, id)?;
        let vm = self.vm_mut(key)?;
        vm.lineage.deleted(id);
        vm.snapshots.retain(|snapshot| snapshot.id != *id);
        self.touch(key, Happened::SnapshotDeleted);
        Ok(())
    }

    /// Takes the VM back to a snapshot.
    pub(crate) fn snapshot_revert(
        &mut self,
        now: Duration,
        vm: &VmRef,
        id: &SnapshotId,
    ) -> Result<Option<TaskId>> {
        let key = self.authorised(vm)?;
        self.snapshot(key, id)?;
        self.perform(
            now,
            Action::SnapshotRevert(key, id.clone()),
            self.times.snapshot,
        )
    }

    /// The machine gets the hardware and the power state of the snapshot. One that runs then has not booted: it goes on.
    pub(super) fn go_back(&mut self, _now: Duration, key: VmKey, id: &SnapshotId) -> Result<()> {
        let snapshot = self.snapshot(key, id)?.clone();
        let vm = self.vm(key)?;
        let (host, reserved) = (vm.host, vm.reserved().clone());
        let hardware = with_later(&snapshot.hardware, &reserved);
        self.hosts.exchange(host, &reserved, &hardware)?;
        let vm = self.vm_mut(key)?;
        vm.hardware = hardware;
        vm.pending = None;
        vm.power = snapshot.power;
        vm.volatile.hung = false;
        vm.lineage.reverted(id);
        self.touch(key, Happened::Reverted);
        Ok(())
    }

    pub(super) fn snapshot(&self, key: VmKey, id: &SnapshotId) -> Result<&Snapshot> {
        let found = self
            .vm(key)?
            .snapshots
            .iter()
            .find(|snapshot| snapshot.id == *id);
        found.ok_or_else(|| {
            ProviderError::not_found(format!("The snapshot {id} of the VM {}", key.id()))
        })
    }
}

/// The hardware of then with the disks that came later.
fn with_later(then: &Hardware, now: &Hardware) -> Hardware {
    let is_new = |disk: &&Disk| then.disk(&disk.name).is_none();
    let later = now.disks.iter().filter(is_new);
    Hardware {
        disks: then.disks.iter().chain(later).cloned().collect(),
        ..then.clone()
    }
}

fn named<'a>(vm: &'a Vm, name: &str) -> Option<&'a Snapshot> {
    let found = vm.snapshots.iter().find(|snapshot| &*snapshot.name == name);
    found.filter(|_| !name.is_empty())
}

fn snapshot(vm: &Vm, id: SnapshotId, request: &SnapshotRequest) -> Snapshot {
    let power = match request.contents {
        SnapshotContents::DisksAndMemory if vm.runs() => Power::On,
        _ => Power::Off,
    };
    Snapshot {
        id,
        name: request.name_hint.as_str().into(),
        description: request.description.as_str().into(),
        power,
        hardware: vm.hardware.clone(),
        taken: unix_seconds(),
        quiet: vm.power == Power::On && request.quiesce != Quiesce::No,
    }
}

fn unix_seconds() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0))
}

/// The snapshots in the words of the contract.
pub(super) fn shown(vm: &Vm) -> Vec<SnapshotState> {
    let with_parent = |snapshot: &Snapshot| SnapshotState {
        parent: vm.lineage.parent(&snapshot.id).cloned(),
        ..state(snapshot)
    };
    vm.snapshots.iter().map(with_parent).collect()
}

/// A pretended disk has a mebibyte in each gibibyte.
fn state(snapshot: &Snapshot) -> SnapshotState {
    let hardware = &snapshot.hardware;
    let data = hardware.disks.iter().map(|disk| u64::from(disk.size_gib));
    let gib = u64::from(hardware.root_gib) + data.sum::<u64>();
    SnapshotState {
        id: snapshot.id.clone(),
        name: snapshot.name.to_string(),
        description: snapshot.description.to_string(),
        taken: snapshot.taken,
        size_bytes: gib << 20,
        contents: if snapshot.power == Power::Off {
            SnapshotContents::Disks
        } else {
            SnapshotContents::DisksAndMemory
        },
        guest: if snapshot.quiet {
            GuestDisks::Quiet
        } else {
            GuestDisks::AsTheyWere
        },
        parent: None,
    }
}
