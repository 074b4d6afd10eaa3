//! What the answers to our own writes changed, and what we have finished ourselves.

use futures::future::{BoxFuture, try_join_all};
use futures::{FutureExt as _, TryFutureExt as _};
use polyvirt_api::infra::{Provider, VMImage, VMMigration, VMSnapshot, VirtualMachine};
use polyvirt_contract::VmId;

use super::{Dispatcher, Source};
use crate::cluster::ClusterError;
use crate::context::Observer;
use crate::runtime::key::ObjectKey;
use crate::runtime::queue::Urgency;
use crate::runtime::store::Change;

impl Observer for Dispatcher {
    fn vm(&self, change: Change<VirtualMachine>) {
        self.vm_changed(&change, Source::OurWrite);
    }

    fn image(&self, change: Change<VMImage>) {
        self.image_changed(&change, Source::OurWrite);
    }

    fn snapshot(&self, change: Change<VMSnapshot>) {
        self.snapshot_changed(&change, Source::OurWrite);
    }

    fn migration(&self, change: Change<VMMigration>) {
        self.migration_changed(&change, Source::OurWrite);
    }

    /// A status that we wrote wakes nobody of our own.
    fn provider(&self, change: Change<Provider>) {
        self.tell_of_provider(&change);
    }

    fn vm_leaves<'a>(
        &'a self,
        vm: &'a VirtualMachine,
        id: &'a VmId,
    ) -> BoxFuture<'a, Result<(), ClusterError>> {
        let followers = self.followers.iter().map(move |f| f.vm_leaves(vm, id));
        try_join_all(followers).map_ok(drop).boxed()
    }

    fn hook_over(&self, vm: &ObjectKey) {
        self.tell_vm(vm, Urgency::Event);
    }
}
