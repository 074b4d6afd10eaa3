//! Towards what is desired: at once where the machine allows, else at the next start.

use std::time::Duration;

use polyvirt_contract::model::{CreateVm, Owner, VmRef};
use polyvirt_contract::{ErrorKind, ProviderError, Result, TaskId};

use crate::config::Resize;
use crate::state::tasks::Action;
use crate::state::vm::{Disk, Hardware, Vm, VmKey, hot_add, tags};
use crate::state::{Happened, State, check};

impl State {
    /// Brings size, disks, networks and tags to what is desired. An unmarked VM gets the mark of whoever asks.
    pub(crate) fn reconfigure(
        &mut self,
        now: Duration,
        vm: &VmRef,
        desired: CreateVm,
    ) -> Result<Option<TaskId>> {
        let key = self.authorised(vm)?;
        check::request(&desired)?;
        let target = wanted(self.vm(key)?, &desired);
        check::growth(&self.vm(key)?.hardware, &target)?;
        self.check_mark(key, desired.owner.as_ref())?;
        if self.vm(key)?.volatile.busy.is_none() && self.is_so(key, &target, &desired)? {
            return Ok(None);
        }
        self.perform(
            now,
            Action::Reconfigure(key, Box::new(desired)),
            self.times.reconfigure,
        )
    }

    fn is_so(&self, key: VmKey, target: &Hardware, desired: &CreateVm) -> Result<bool> {
        let vm = self.vm(key)?;
        let marked = vm.owner.is_some() || desired.owner.is_none();
        let same_class = vm.hot_add == hot_add(desired);
        Ok(vm.reserved() == target && vm.tags == tags(desired) && marked && same_class)
    }

    /// One identity is on one VM at most.
    fn check_mark(&self, key: VmKey, owner: Option<&Owner>) -> Result<()> {
        let holder = owner.and_then(|owner| self.by_identity.get(&owner.identity));
        match holder {
            Some(other) if *other != key => Err(ProviderError::new(
                ErrorKind::IdentityConflict,
                format!("The VM {} carries this identity already", other.id()),
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn apply_desired(&mut self, key: VmKey, desired: &CreateVm) -> Result<()> {
        let vm = self.vm(key)?;
        let target = wanted(vm, desired);
        check::growth(&vm.hardware, &target)?;
        self.check_mark(key, desired.owner.as_ref())?;
        let (host, reserved, live) = (vm.host, vm.reserved().clone(), self.live(vm, &target));
        self.hosts.exchange(host, &reserved, &target)?;
        let vm = self.vm_mut(key)?;
        vm.pending = (live != target).then(|| Box::new(target));
        vm.hardware = live;
        vm.tags = tags(desired);
        vm.hot_add = hot_add(desired);
        self.mark(key, desired.owner.as_ref());
        self.touch(key, Happened::Reconfigured);
        Ok(())
    }

    /// Puts the owner on a VM that has none.
    fn mark(&mut self, key: VmKey, owner: Option<&Owner>) {
        if let (Some(vm), Some(owner)) = (self.vms.get_mut(&key), owner)
            && vm.owner.is_none()
        {
            vm.owner = Some(Box::new(owner.clone()));
            self.by_identity.insert(owner.identity.clone(), key);
        }
    }

    /// What the VM can have at once.
    fn live(&self, vm: &Vm, target: &Hardware) -> Hardware {
        if !vm.runs() {
            return target.clone();
        }
        let has = &vm.hardware;
        let online = self.resize == Resize::Online;
        let grows = |allowed, from: u64, to: u64| if allowed && to > from { to } else { from };
        let cpu = grows(online || vm.hot_add.cpu, has.cpu.into(), target.cpu.into());
        Hardware {
            cpu: u32::try_from(cpu).unwrap_or(has.cpu),
            memory_mib: grows(
                online || vm.hot_add.memory,
                has.memory_mib,
                target.memory_mib,
            ),
            root_gib: target.root_gib,
            disks: target
                .disks
                .iter()
                .map(|disk| live_disk(has, disk))
                .collect(),
            nics: target.nics.clone(),
        }
    }

    /// Raises the virtual hardware version of a stopped VM.
    pub(crate) fn upgrade(
        &mut self,
        now: Duration,
        vm: &VmRef,
        version: i32,
    ) -> Result<Option<TaskId>> {
        let key = self.authorised(vm)?;
        let vm = self.vm(key)?;
        if version <= vm.hardware_version {
            return Ok(None);
        }
        if vm.runs() {
            let message =
                "The virtual hardware can be raised only while the VM is off; stop it first";
            return Err(ProviderError::new(ErrorKind::Precondition, message));
        }
        self.perform(now, Action::Upgrade(key, version), self.times.reconfigure)
    }

    pub(super) fn apply_upgrade(&mut self, key: VmKey, version: i32) -> Result<()> {
        self.vm_mut(key)?.hardware_version = version;
        self.touch(key, Happened::Upgraded);
        Ok(())
    }
}

/// The hardware to go to; a first disk without a size stays as it is.
fn wanted(vm: &Vm, desired: &CreateVm) -> Hardware {
    let mut target = Hardware::wanted(desired);
    if target.root_gib == 0 {
        target.root_gib = vm.hardware.root_gib;
    }
    target
}

/// A disk of a running VM grows only if its policy says so; a new one is plugged in.
fn live_disk(has: &Hardware, wants: &Disk) -> Disk {
    let old = has
        .disk(&wants.name)
        .filter(|old| old.size_gib < wants.size_gib && !wants.online);
    Disk {
        size_gib: old.map_or(wants.size_gib, |old| old.size_gib),
        ..wants.clone()
    }
}

/// Paths of what waits for the next start, in the words of the VirtualMachine.
pub(super) fn waiting(vm: &Vm) -> Vec<String> {
    let Some(pending) = &vm.pending else {
        return Vec::new();
    };
    let has = &vm.hardware;
    [
        ("spec.resources.cpu", pending.cpu != has.cpu),
        (
            "spec.resources.memoryMiB",
            pending.memory_mib != has.memory_mib,
        ),
        ("spec.disks", pending.disks != has.disks),
    ]
    .into_iter()
    .filter(|(_, differs)| *differs)
    .map(|(path, _)| path.to_owned())
    .collect()
}
