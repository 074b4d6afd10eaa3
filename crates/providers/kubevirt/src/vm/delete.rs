//! Taken away, in an order in which nothing is torn from a machine that runs.
//!
//! ```text
//!   1 delete the VirtualMachine, wait until it and its instance are gone
//!   2 delete snapshots, volumes, claims and the Secret
//!   3 delete network definitions that we made and nobody uses
//! ```
//!
//! All of line 2 is owned by the VirtualMachine: whoever dies after line 1 leaves it to the cluster's garbage collector.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use kube::core::DynamicObject;
use polyvirt_contract::model::VmRef;
use polyvirt_contract::{ErrorKind, Result, TaskId};

use crate::kinds::{IDENTITY, Kind, MANAGED_BY, MANAGER, VmKey, items, label, text};
use crate::storage;
use crate::vm::Core;

/// A guest may take minutes to end.
const PATIENCE: Duration = Duration::from_mins(30);
/// What belongs to a VM, in the order in which it goes: a volume before its claim, which CDI would make again.
const PARTS: &[Kind] = &[Kind::Snapshot, Kind::DataVolume, Kind::Claim, Kind::Secret];

/// Deletes the VM and its disks. `NotFound` means that it is already gone.
pub(crate) async fn delete(core: &Arc<Core>, vm: &VmRef) -> Result<Option<TaskId>> {
    let (key, found) = core.allowed(vm).await?;
    core.cluster.delete(Kind::Vm, &found).await?;
    let work = finish(core.clone(), key.clone(), found);
    let begun = core.begin(&format!("delete {key}"), |_| work);
    begun.answer().await
}

async fn finish(core: Arc<Core>, key: VmKey, vm: DynamicObject) -> Result<()> {
    let uid = vm.metadata.uid.clone();
    let other = |object: Option<&DynamicObject>| {
        object.is_none_or(|object| uid.is_some() && object.metadata.uid != uid)
    };
    core.until(Kind::Vm, &key, PATIENCE, other).await?;
    let owned = |object: Option<&DynamicObject>| object.is_none();
    core.until(Kind::Vmi, &key, PATIENCE, owned).await?;
    if let Some(identity) = label(&vm, IDENTITY) {
        for kind in PARTS {
            take_away(&core, *kind, &key.namespace, identity).await?;
        }
    }
    networks(&core, &key.namespace, &attachments(&vm)).await
}

async fn take_away(core: &Core, kind: Kind, namespace: &str, identity: &str) -> Result<()> {
    for object in storage::owned(&core.cluster, kind, namespace, identity).await? {
        if object.metadata.deletion_timestamp.is_none() {
            core.cluster.delete(kind, &object).await?;
        }
    }
    Ok(())
}

/// The network definitions that a VM is plugged into, by the names that it gives them.
fn attachments(vm: &DynamicObject) -> BTreeSet<String> {
    let networks = items(&vm.data, "/spec/template/spec/networks").iter();
    let names = networks.map(|network| text(network, "/multus/networkName"));
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Only those that carry our mark go, and only if no VM of the namespace names them.
async fn networks(core: &Core, namespace: &str, names: &BTreeSet<String>) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let vms = core.cluster.api(Kind::Vm, namespace);
    let vms = core
        .cluster
        .list(Kind::Vm, vms, &ListParams::default())
        .await?;
    let used: BTreeSet<String> = vms.objects.iter().flat_map(attachments).collect();
    for name in names.difference(&used) {
        let key = VmKey::new(namespace, name);
        let found = match core.cluster.get(Kind::Nad, &key).await {
            Err(error) if error.kind == ErrorKind::Unavailable => return Ok(()),
            found => found?,
        };
        if let Some(found) = found.filter(|nad| label(nad, MANAGED_BY) == Some(MANAGER)) {
            core.cluster.delete(Kind::Nad, &found).await?;
        }
    }
    Ok(())
}
