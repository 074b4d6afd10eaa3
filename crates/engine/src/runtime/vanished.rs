//! Objects that the API server removed although our finalizer was on them.
//!
//! A DELETE reads the object, sees no finalizer, and removes it; a finalizer that is added between the two is overlooked
//! (kubernetes/kubernetes#77988). Both requests succeed, so the VM may be made already. What the object stood for is still to
//! be taken down: the cache keeps the object, as one that is being deleted, until that is done. That it is such an object is
//! recorded in the cache ([`Store::is_vanished`]) and never in the object itself, whose every field a user can write.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use polyvirt_api::infra::{
    Host, HostPool, Provider, VMClass, VMImage, VMMigration, VMNetworkAttachment,
    VMPlacementPolicy, VMSnapshot, VirtualMachine,
};
use polyvirt_api::vitistack::{
    KubevirtConfig, Machine, MachineClass, NetworkConfiguration, NetworkNamespace,
};
use polyvirt_api::{names, novacron};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cluster::{self, Cluster, ClusterError, Patch};
use crate::runtime::key::Key;
use crate::runtime::store::{Change, Store};
use crate::runtime::trim;

/// A kind whose objects may leave something behind that their finalizer was to prevent.
pub trait Vanishing: Resource + Clone {
    /// The finalizer of ours that stands for something on the hypervisor; `None` if nothing is left behind.
    const FINALIZER: Option<&'static str> = None;

    /// What the cache keeps of an object that was removed too early; `None` if all is in order.
    fn kept(&self) -> Option<Self> {
        let meta = self.meta();
        let held = meta.finalizers.iter().flatten();
        let held = Self::FINALIZER.is_some_and(|ours| held.into_iter().any(|f| f == ours));
        // One that was deleted in order has a time of deletion, for somebody had to take the finalizer off.
        if !held || meta.deletion_timestamp.is_some() {
            return None;
        }
        let mut kept = self.clone();
        kept.meta_mut().deletion_timestamp = Some(Time(Timestamp::now()));
        Some(kept)
    }
}

impl Vanishing for Provider {}
impl Vanishing for Host {}
impl Vanishing for HostPool {}
impl Vanishing for VMClass {}
impl Vanishing for VMNetworkAttachment {}
impl Vanishing for VMPlacementPolicy {}
impl Vanishing for KubevirtConfig {}
impl Vanishing for NetworkConfiguration {}
impl Vanishing for NetworkNamespace {}
impl Vanishing for MachineClass {}
// What these were lowered to has an owner reference, so the garbage collector deletes it.
impl Vanishing for Machine {}
impl Vanishing for novacron::VirtualMachine {}

impl Vanishing for VirtualMachine {
    const FINALIZER: Option<&'static str> = Some(names::VIRTUAL_MACHINE_FINALIZER);
}

impl Vanishing for VMSnapshot {
    const FINALIZER: Option<&'static str> = Some(names::SNAPSHOT_FINALIZER);
}

impl Vanishing for VMImage {
    const FINALIZER: Option<&'static str> = Some(names::IMAGE_FINALIZER);
}

impl Vanishing for VMMigration {
    const FINALIZER: Option<&'static str> = Some(names::MIGRATION_FINALIZER);
}

/// An object as a write has left it.
#[derive(Clone, Debug)]
pub struct Written<K> {
    /// The object as it is now.
    pub object: K,
    /// What that changed in the cache.
    pub change: Option<Change<K>>,
}

/// Writes to an object where it lives: to the API server and into the cache, or, if it has vanished, into the cache alone.
pub async fn write<K>(
    cluster: &dyn Cluster,
    store: &Store<K>,
    key: &Key,
    object: &K,
    patch: Patch,
) -> Result<Written<K>, ClusterError>
where
    K: Resource + Clone + Serialize + DeserializeOwned,
{
    if store.is_vanished(object) {
        return Ok(write_to_cache(store, object, patch));
    }
    let object: K = trim::metadata(cluster::patch(cluster, key, patch).await?);
    let change = store.written(object.clone());
    Ok(Written { object, change })
}

/// A status is replaced; a change of metadata is the end of the finalizer, and with it of the object.
fn write_to_cache<K>(store: &Store<K>, object: &K, patch: Patch) -> Written<K>
where
    K: Resource + Clone + Serialize + DeserializeOwned,
{
    match patch {
        Patch::Metadata(_) => Written {
            object: object.clone(),
            change: store.let_go(object),
        },
        Patch::Status(mut body) => {
            let object = with_status(object, body["status"].take());
            let change = store.keep(object.clone());
            Written { object, change }
        }
    }
}

/// The object with that status; as it was if the status cannot be read.
fn with_status<K: Clone + Serialize + DeserializeOwned>(object: &K, status: Value) -> K {
    let changed = serde_json::to_value(object).and_then(|mut value| {
        value["status"] = status;
        serde_json::from_value(value)
    });
    changed.unwrap_or_else(|_| object.clone())
}

#[cfg(test)]
mod tests {
    use polyvirt_api::infra::{VMSnapshotSpec, VirtualMachineSpec};
    use serde_json::json;

    use super::*;

    fn vm(finalizers: &[&str]) -> VirtualMachine {
        let mut vm = VirtualMachine::new("web", VirtualMachineSpec::default());
        vm.metadata.namespace = Some("team".to_owned());
        vm.metadata.finalizers = Some(finalizers.iter().map(|f| (*f).to_owned()).collect());
        vm
    }

    #[test]
    fn what_was_removed_with_the_finalizer_on_it_is_kept_as_one_that_is_deleted() {
        let kept = vm(&[names::VIRTUAL_MACHINE_FINALIZER])
            .kept()
            .expect("kept");
        assert!(kept.metadata.deletion_timestamp.is_some());
        let mut snapshot = VMSnapshot::new("before", VMSnapshotSpec::default());
        snapshot.metadata.finalizers = Some(vec![names::SNAPSHOT_FINALIZER.to_owned()]);
        let kept = snapshot.kept().expect("kept");
        assert!(kept.metadata.deletion_timestamp.is_some());
    }

    #[test]
    fn what_was_never_claimed_or_was_let_go_is_not_kept() {
        assert!(vm(&[]).kept().is_none());
        assert!(vm(&[names::SNAPSHOT_FINALIZER]).kept().is_none());
        let mut released = vm(&[names::VIRTUAL_MACHINE_FINALIZER]);
        released.metadata.deletion_timestamp = Some(Time(Timestamp::now()));
        assert!(released.kept().is_none());
    }

    #[test]
    fn what_is_written_to_a_vanished_object_stays_in_the_cache() {
        let store = Store::default();
        let vm = vm(&[names::VIRTUAL_MACHINE_FINALIZER]);
        store.vanish(vm.clone());
        let status = Patch::Status(json!({"status": {"id": "vm-1"}}));
        let written = write_to_cache(&store, &vm, status);
        let id = written.object.status.clone().and_then(|s| s.id);
        assert_eq!(id.as_deref(), Some("vm-1"));
        assert!(store.is_vanished(&written.object));
        let gone = write_to_cache(&store, &written.object, Patch::Metadata(json!({})));
        assert!(matches!(gone.change, Some(Change::Removed(_))));
        assert!(store.is_empty());
    }
}
