//! A VM that was deleted behind its object: recorded, reported, and replaced only if the user asks for it.

use std::sync::Arc;

use polyvirt_api::infra;
use polyvirt_api::names::RECREATE_VM_ANNOTATION;
use polyvirt_api::novacron::VirtualMachine;
use polyvirt_contract::VmId;
use polyvirt_engine::cluster::ClusterError;
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_engine::runtime::trim;
use serde_json::json;

use super::Controller;
use super::pass::{Found, Pass, Stop};
use crate::novacron::raise::Trouble;
use crate::shared::lost::{asked, give_way, lost};
use crate::shared::owner::is_owned;

impl Pass<'_> {
    /// A VM that was deleted behind its object is not replaced by itself: its disks were the user's.
    pub(super) fn is_not_lost(&self, made: Option<&infra::VirtualMachine>) -> Result<(), Stop> {
        let status = self.vm.status.as_ref();
        let known = status.and_then(|s| s.vm_id.as_deref());
        match lost(&*self.vm, known, made) {
            Some(id) => Err(missing(self.key, id).into()),
            None => Ok(()),
        }
    }

    /// A request for a new VM holds once: the VirtualMachine that it asked for is there.
    pub(super) async fn close_request(&mut self) -> Result<(), ClusterError> {
        if asked(&*self.vm).is_none() {
            return Ok(());
        }
        let body = json!({"metadata": {"annotations": {RECREATE_VM_ANNOTATION: null}}});
        let written: VirtualMachine = self.controller.desk.merge(self.key, &body).await?;
        let written = trim::metadata(written);
        self.controller.stores.vms.written(written.clone());
        self.vm = Arc::new(written);
        Ok(())
    }
}

impl Controller {
    /// Records that the VM of an object was deleted behind it. `Err` until the cache knows, too: a pass must not take an object
    /// that lost its VM for one that never had one.
    pub(super) async fn record_loss(
        &self,
        made: &infra::VirtualMachine,
        id: &VmId,
    ) -> Result<(), ClusterError> {
        let key = ObjectKey::of(made);
        let Some(vm) = self.stores.vms.get(&key) else {
            return Ok(());
        };
        if vm.metadata.deletion_timestamp.is_some() || !is_owned(made, &*vm) {
            return Ok(());
        }
        let trouble = missing(&key, id.to_string());
        let found = Found::default();
        give_way(self.report(&key, &vm, &found, Some(&trouble)).await)?;
        match self.stores.vms.get(&key) {
            Some(vm) if vm.status.as_ref().is_none_or(|s| s.vm_id.is_none()) => {
                Err(ClusterError::Conflict)
            }
            _ => Ok(()),
        }
    }
}

/// The loss of the VM of that id.
fn missing(key: &ObjectKey, id: String) -> Trouble {
    let name = key.name().to_owned();
    Trouble::VmMissing { name, id }
}
