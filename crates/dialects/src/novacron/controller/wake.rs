//! Who is to be looked at when something changes.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use polyvirt_api::infra;
use polyvirt_api::novacron::VirtualMachine;
use polyvirt_contract::VmId;
use polyvirt_engine::cluster::ClusterError;
use polyvirt_engine::runtime::dispatch::{Follower, Source};
use polyvirt_engine::runtime::key::{Kind, ObjectKey};
use polyvirt_engine::runtime::queue::Urgency;
use polyvirt_engine::runtime::store::Change;
use polyvirt_plan::Reason;

use super::Controller;
use crate::novacron::raise::READY;
use crate::shared::wake::{is_edited, urgency};

impl Controller {
    fn wake(&self, key: &ObjectKey, urgency: Urgency) {
        self.line.wake(Kind::NovacronVirtualMachine, key, urgency);
    }

    pub(super) fn edited(&self, change: &Change<VirtualMachine>, source: Source) {
        let key = match change {
            Change::Updated { old, new } if !is_edited(&**old, &**new) => return,
            Change::Added(any) | Change::Updated { new: any, .. } | Change::Removed(any) => {
                ObjectKey::of(&**any)
            }
        };
        self.wake(&key, urgency(source));
    }
}

/// Whether a VM waits for a Provider.
fn waits_for_place(vm: &VirtualMachine) -> bool {
    let conditions = vm.status.iter().flat_map(|s| &s.conditions);
    let mut ready = conditions.filter(|c| c.type_ == READY);
    ready.any(|c| c.reason.as_deref() == Some(Reason::NodeSelectionFailed.as_str()))
}

impl Follower for Controller {
    fn vm_changed(&self, vm: &ObjectKey) {
        if self.stores.vms.get(vm).is_some() {
            self.wake(vm, Urgency::Event);
        }
    }

    fn vm_leaves<'a>(
        &'a self,
        vm: &'a infra::VirtualMachine,
        id: &'a VmId,
    ) -> BoxFuture<'a, Result<(), ClusterError>> {
        self.record_loss(vm, id).boxed()
    }

    /// A Provider that is new, or one that is gone, may end a wait. Its status is told by the VMs on it.
    fn provider_changed(&self, _: &ObjectKey) {
        for vm in self.stores.vms.list() {
            if waits_for_place(&vm) {
                self.wake(&ObjectKey::of(&*vm), Urgency::Event);
            }
        }
    }
}
