//! What the caches do not need and so do not keep. It is often more than half of an object.

use kube::Resource;
use polyvirt_api::infra::{
    Host, HostPool, Provider, VMClass, VMImage, VMMigration, VMNetworkAttachment,
    VMPlacementPolicy, VMSnapshot, VirtualMachine,
};
use polyvirt_api::novacron;
use polyvirt_api::vitistack::{
    KubevirtConfig, Machine, MachineClass, NetworkConfiguration, NetworkNamespace,
};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Takes off who wrote what, and kubectl's copy of the manifest.
pub fn metadata<K: Resource>(mut object: K) -> K {
    let meta = object.meta_mut();
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove(LAST_APPLIED);
    }
    object
}

/// The object as a cache keeps it.
pub fn for_cache<K: Resource + Compact>(object: K) -> K {
    let mut object = metadata(object);
    object.compact();
    object
}

/// Gives back what was reserved while an object was read. Only VMs are so many that it counts.
pub trait Compact {
    /// Takes no more memory than it needs.
    fn compact(&mut self) {}
}

impl Compact for Provider {}
impl Compact for Host {}
impl Compact for HostPool {}
impl Compact for VMClass {}
impl Compact for VMImage {}
impl Compact for VMNetworkAttachment {}
impl Compact for VMSnapshot {}
impl Compact for VMMigration {}
impl Compact for VMPlacementPolicy {}
impl Compact for Machine {}
impl Compact for KubevirtConfig {}
impl Compact for NetworkConfiguration {}
impl Compact for NetworkNamespace {}
impl Compact for MachineClass {}
impl Compact for novacron::VirtualMachine {}

impl Compact for VirtualMachine {
    /// A list that is read has room for four, however few there are.
    fn compact(&mut self) {
        self.metadata
            .finalizers
            .iter_mut()
            .for_each(Vec::shrink_to_fit);
        self.spec.disks.shrink_to_fit();
        self.spec.networks.shrink_to_fit();
        let Some(status) = &mut self.status else {
            return;
        };
        status.conditions.shrink_to_fit();
        status.ips.shrink_to_fit();
        let Some(applied) = &mut status.applied else {
            return;
        };
        applied.disks.shrink_to_fit();
        applied.networks.shrink_to_fit();
    }
}
