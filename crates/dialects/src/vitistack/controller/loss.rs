//! A VM that was deleted behind its Machine: recorded, reported, and replaced only if the user asks for it.

use std::sync::Arc;

use polyvirt_api::infra::VirtualMachine;
use polyvirt_api::names::RECREATE_VM_ANNOTATION;
use polyvirt_api::vitistack::{MACHINE_FINALIZER, Machine};
use polyvirt_contract::VmId;
use polyvirt_engine::cluster::ClusterError;
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_engine::runtime::trim;
use polyvirt_engine::runtime::vm_index::provider_of;
use serde_json::json;

use super::Controller;
use super::pass::{Found, Pass, Stop};
use crate::shared::lost::{asked, give_way, lost};
use crate::vitistack::lower::is_owned;
use crate::vitistack::raise::Trouble;

impl Pass<'_> {
    /// A VM that was deleted behind its Machine is not replaced by itself: its disks were the user's.
    pub(super) fn is_not_lost(&self, vm: Option<&VirtualMachine>) -> Result<(), Stop> {
        match lost(&*self.machine, known_vm(&self.machine), vm) {
            Some(id) => Err(missing(self.key, id).into()),
            None => Ok(()),
        }
    }

    /// A request for a new VM holds once: the VirtualMachine that it asked for is there.
    pub(super) async fn close_request(&mut self) -> Result<(), ClusterError> {
        if asked(&*self.machine).is_none() {
            return Ok(());
        }
        let body = json!({"metadata": {"annotations": {RECREATE_VM_ANNOTATION: null}}});
        let written: Machine = self.controller.desk.merge(self.key, &body).await?;
        let written = trim::metadata(written);
        self.controller.stores.machines.written(written.clone());
        self.machine = Arc::new(written);
        Ok(())
    }
}

impl Controller {
    /// Records that the VM of a Machine was deleted behind it. `Err` until the cache knows, too: a pass must not take a Machine that
    /// lost its VM for one that never had one.
    pub(super) async fn record_loss(
        &self,
        vm: &VirtualMachine,
        id: &VmId,
    ) -> Result<(), ClusterError> {
        let key = ObjectKey::of(vm);
        let Some(machine) = self.stores.machines.get(&key) else {
            return Ok(());
        };
        let ends = machine.metadata.deletion_timestamp.is_some();
        if ends || !machine.spec.is_for_kubevirt() || !is_owned(vm, &*machine) {
            return Ok(());
        }
        let mut with_id = vm.clone();
        with_id.status.get_or_insert_default().id = Some(id.to_string());
        let found = Found {
            config: Some(provider_of(vm)),
            ..Found::default()
        };
        let trouble = missing(&key, id.to_string());
        let reported = self.report(&key, &machine, &found, Some(&with_id), Some(&trouble));
        give_way(reported.await)?;
        match self.stores.machines.get(&key) {
            Some(machine) if !is_recorded(&machine) => Err(ClusterError::Conflict),
            _ => Ok(()),
        }
    }
}

/// The id of the VM that a Machine had by us. `machineID` alone proves nothing: the operator before us writes it, too, and leaves
/// VMs that are still to be taken over.
fn known_vm(machine: &Machine) -> Option<&str> {
    let status = machine.status.as_ref()?;
    let mut marks = machine.metadata.finalizers.iter().flatten();
    let ours = status.provider_id.is_some() && marks.any(|f| f == MACHINE_FINALIZER);
    status.machine_id.as_deref().filter(|_| ours)
}

/// The loss of the VM of that id.
fn missing(key: &ObjectKey, id: String) -> Trouble {
    let name = key.name().to_owned();
    Trouble::VmMissing { name, id }
}

/// Whether the status says that there was a VM.
fn is_recorded(machine: &Machine) -> bool {
    let status = machine.status.as_ref();
    status.is_some_and(|s| s.provider_id.is_some() && s.machine_id.is_some())
}
