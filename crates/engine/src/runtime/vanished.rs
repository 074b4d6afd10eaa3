//! Objects that the API server removed although our finalizer was on them.
//!
//! A DELETE reads the object, sees no finalizer, and removes it; a finalizer that is added between the two is overlooked
//! (kubernetes/kubernetes#77988). Both requests succeed, so the VM may be made already. What the object stood for is still to
//! be taken down: the cache keeps the object, as one that is being deleted, until that is done.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use polyvirt_api::infra::{
    Host, HostPool, Provider, VMClass, VMImage, VMMigration, VMNetworkAttachment,
    VMPlacementPolicy, VMSnapshot, VirtualMachine,
};
use polyvirt_api::novacron;
use polyvirt_api::vitistack::{
    KubevirtConfig, Machine, MachineClass, NetworkConfiguration, NetworkNamespace,
};
use polyvirt_plan::virtual_machine::record::has_finalizer;

/// In the cache only.
const MARK: &str = "cache.polyvirt.io/vanished";

/// Whether an object may leave something behind that its finalizer was to prevent.
pub trait Vanishing: Sized {
    /// What the cache keeps of an object that was removed too early; `None` if all is in order.
    fn kept(&self) -> Option<Self> {
        None
    }

    /// Whether the cache alone has it.
    fn is_vanished(&self) -> bool {
        false
    }
}

impl Vanishing for Provider {}
impl Vanishing for Host {}
impl Vanishing for HostPool {}
impl Vanishing for VMClass {}
impl Vanishing for VMImage {}
impl Vanishing for VMNetworkAttachment {}
impl Vanishing for VMSnapshot {}
impl Vanishing for VMMigration {}
impl Vanishing for VMPlacementPolicy {}
impl Vanishing for Machine {}
impl Vanishing for KubevirtConfig {}
impl Vanishing for NetworkConfiguration {}
impl Vanishing for NetworkNamespace {}
impl Vanishing for MachineClass {}
impl Vanishing for novacron::VirtualMachine {}

impl Vanishing for VirtualMachine {
    /// One that was deleted in order has a time of deletion, for somebody had to take the finalizer off.
    fn kept(&self) -> Option<Self> {
        if !has_finalizer(self) || self.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let mut kept = self.clone();
        let meta = kept.meta_mut();
        meta.deletion_timestamp = Some(Time(Timestamp::now()));
        meta.annotations
            .get_or_insert_with(BTreeMap::new)
            .insert(MARK.to_owned(), String::new());
        Some(kept)
    }

    fn is_vanished(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations.is_some_and(|all| all.contains_key(MARK))
    }
}

#[cfg(test)]
mod tests {
    use polyvirt_api::infra::VirtualMachineSpec;
    use polyvirt_api::names;

    use super::*;

    fn vm(finalizers: &[&str]) -> VirtualMachine {
        let mut vm = VirtualMachine::new("web", VirtualMachineSpec::default());
        vm.metadata.finalizers = Some(finalizers.iter().map(|f| (*f).to_owned()).collect());
        vm
    }

    #[test]
    fn what_was_removed_with_the_finalizer_on_it_is_kept_as_one_that_is_deleted() {
        let vm = vm(&[names::VIRTUAL_MACHINE_FINALIZER]);
        assert!(!vm.is_vanished());
        let kept = vm.kept().expect("kept");
        assert!(kept.is_vanished());
        assert!(kept.metadata.deletion_timestamp.is_some());
    }

    #[test]
    fn what_was_never_claimed_or_was_let_go_is_not_kept() {
        assert!(vm(&[]).kept().is_none());
        let mut released = vm(&[names::VIRTUAL_MACHINE_FINALIZER]);
        released.metadata.deletion_timestamp = Some(Time(Timestamp::now()));
        assert!(released.kept().is_none());
    }
}
