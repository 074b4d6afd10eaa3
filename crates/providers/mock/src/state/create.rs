//! Find or create by identity, and delete.

use std::time::Duration;

use polyvirt_contract::model::{CreateVm, Created, VmRef};
use polyvirt_contract::{ErrorKind, Identity, ProviderError, Result, TaskId};

use crate::state::tasks::Action;
use crate::state::vm::{Devices, Stage, Vm, VmKey, image_key};
use crate::state::{Happened, State, check};

/// The size of an image's disk, where nobody says another.
pub(super) const IMAGE_GIB: u32 = 10;

impl State {
    /// The VM of the request's identity, made now if it is not there.
    pub(crate) fn create(&mut self, now: Duration, request: &CreateVm) -> Result<Created> {
        let identity = request.owner.as_ref().map(|owner| &owner.identity);
        if let Some(key) = identity.and_then(|identity| self.half_created(identity)) {
            return self.make(now, key);
        }
        if let Some(found) = self.already_there(identity, &request.name)? {
            return Ok(found);
        }
        check::request(request)?;
        self.images.pull(&request.image, image_key(request))?;
        let wanted_host = request.placement.as_ref().map_or("", |place| &place.host);
        let mut vm = Vm::new(VmKey(self.numbers.vm + 1), request, 0);
        self.fill_first_disk(&mut vm);
        vm.host = self.hosts.place(&vm.hardware, wanted_host)?;
        vm.devices = self.devices(vm.host, request)?;
        let key = self.take_in(vm);
        self.make(now, key)
    }

    /// Makes a VM that was taken in. Where that is to fail, the VM stays half created.
    fn make(&mut self, now: Duration, key: VmKey) -> Result<Created> {
        if self.faults.leaves_half() {
            let message =
                "The mock was told to leave the VM half created; the next create completes it";
            return Err(ProviderError::new(ErrorKind::Exhausted, message));
        }
        self.work(now, key, self.times.create)
    }

    /// The devices that the request names, if nobody on the host has them.
    fn devices(&self, host: u16, request: &CreateVm) -> Result<Option<Box<Devices>>> {
        let wanted = request.placement.as_ref().map(|place| &place.devices);
        let Some(wanted) = wanted.filter(|devices| !devices.is_empty()) else {
            return Ok(None);
        };
        let there = self.vms.values().filter(|vm| vm.host == host);
        let taken = there.filter_map(|vm| vm.devices.as_deref());
        self.hosts.has_devices(host, wanted, &taken)?;
        Ok(Some(Box::new(wanted.clone())))
    }

    /// The first disk is as large as the image at least, and holds what was imported.
    fn fill_first_disk(&self, vm: &mut Vm) {
        let imported = self.images.imported(&vm.image);
        let image_gib = imported.map_or(IMAGE_GIB, |disk| disk.size_gib);
        vm.hardware.root_gib = vm.hardware.root_gib.max(image_gib);
        vm.content = imported.map(|disk| disk.sha256.clone());
    }

    /// Takes a new VM in and begins the work on it.
    pub(super) fn begin(&mut self, now: Duration, vm: Vm, takes: Duration) -> Result<Created> {
        let key = self.take_in(vm);
        self.work(now, key, takes)
    }

    fn take_in(&mut self, vm: Vm) -> VmKey {
        let key = vm.key;
        self.numbers.vm = key.0;
        self.index(vm);
        self.touch(key, Happened::Accepted);
        key
    }

    /// The VM that an earlier create left half created: no task will complete it.
    fn half_created(&self, identity: &Identity) -> Option<VmKey> {
        let vm = self.vms.get(self.by_identity.get(identity)?)?;
        let left = vm.stage == Stage::Creating && vm.volatile.creation.is_none();
        left.then_some(vm.key)
    }

    fn work(&mut self, now: Duration, key: VmKey, takes: Duration) -> Result<Created> {
        let task = self.perform(now, Action::FinishCreate(key), takes)?;
        if let Some(vm) = self.vms.get_mut(&key) {
            vm.volatile.creation = vm.volatile.busy;
        }
        Ok(Created { id: key.id(), task })
    }

    pub(super) fn finish_create(&mut self, key: VmKey) -> Result<()> {
        let vm = self.vm_mut(key)?;
        if vm.stage == Stage::Creating {
            vm.stage = Stage::Ready;
        }
        self.touch(key, Happened::Created);
        Ok(())
    }

    /// The VM that the identity has already, or the reason why the name cannot be had.
    pub(super) fn already_there(
        &self,
        identity: Option<&Identity>,
        name: &str,
    ) -> Result<Option<Created>> {
        if let Some(key) = identity.and_then(|identity| self.by_identity.get(identity)) {
            return self.found(*key).map(Some);
        }
        let Some(vm) = self.by_name.get(name).and_then(|key| self.vms.get(key)) else {
            return Ok(None);
        };
        let same_request = identity.is_none() && vm.owner.is_none() && vm.stage == Stage::Creating;
        if same_request {
            self.found(vm.key).map(Some)
        } else {
            Err(name_taken(vm))
        }
    }

    fn found(&self, key: VmKey) -> Result<Created> {
        let vm = self.vm(key)?;
        let id = key.id();
        match vm.stage {
            Stage::Ready => Ok(Created { id, task: None }),
            Stage::Creating => Ok(Created {
                id,
                task: vm.volatile.creation.map(|task| self.tasks.id(task)),
            }),
            Stage::Deleting => Err(ProviderError::new(
                ErrorKind::Precondition,
                format!("The VM {id} is being deleted; wait until it is gone"),
            )),
        }
    }

    /// Deletes the VM with its disks and snapshots, whether it runs or not.
    pub(crate) fn delete(&mut self, now: Duration, vm: &VmRef) -> Result<Option<TaskId>> {
        let key = self.authorised(vm)?;
        let task = self.perform(now, Action::Delete(key), self.times.delete)?;
        if let Some(vm) = self.vms.get_mut(&key)
            && vm.stage != Stage::Deleting
        {
            vm.stage = Stage::Deleting;
            self.touch(key, Happened::Deleting);
        }
        Ok(task)
    }
}

fn name_taken(vm: &Vm) -> ProviderError {
    let holder = vm.owner.as_ref().map_or_else(
        || "nobody has marked as theirs".to_owned(),
        |owner| format!("belongs to {}/{}", owner.namespace, owner.name),
    );
    let message = format!(
        "The name {} is taken by the VM {}, which {holder}; rename one of the two, or delete that VM",
        vm.name,
        vm.key.id()
    );
    ProviderError::new(ErrorKind::NameConflict, message).at("metadata.name")
}
