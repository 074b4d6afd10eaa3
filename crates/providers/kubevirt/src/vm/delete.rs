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

use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::core::DynamicObject;
use polyvirt_contract::model::VmRef;
use polyvirt_contract::{ErrorKind, ProviderError, Result, TaskId};

use crate::kinds::{IDENTITY, Kind, MANAGED_BY, MANAGER, VmKey, items, label, text};
use crate::storage;
use crate::vm::Core;

/// A guest may take minutes to end.
const PATIENCE: Duration = Duration::from_mins(30);
/// For so long a network definition that nobody names may be about to be named.
const NEWS: Duration = Duration::from_mins(1);
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
    let mut names = attachments(&vm);
    names.extend(settled(&core, &key.namespace).await?);
    networks(&core, &key.namespace, &names).await
}

/// Deletes network definitions of ours that the VM named before it was changed, and that nobody uses any more.
pub(super) async fn left_networks(core: &Core, key: &VmKey, before: &DynamicObject) -> Result<()> {
    networks(core, &key.namespace, &attachments(before)).await
}

async fn take_away(core: &Core, kind: Kind, namespace: &str, identity: &str) -> Result<()> {
    for object in storage::owned(&core.cluster, kind, namespace, identity).await? {
        if object.metadata.deletion_timestamp.is_none() {
            core.cluster.delete(kind, &object).await?;
        }
    }
    Ok(())
}

/// The network definitions that a VM, or a machine that runs, is plugged into, by the names that it gives them.
fn attachments(object: &DynamicObject) -> BTreeSet<String> {
    let places = ["/spec/template/spec/networks", "/spec/networks"];
    let networks = places.iter().flat_map(|place| items(&object.data, place));
    let names = networks.map(|network| text(network, "/multus/networkName"));
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Network definitions of ours that are no news: a card that was taken from a machine may have left one behind, and one that was
/// made a moment ago is for a VM that will name it.
async fn settled(core: &Core, namespace: &str) -> Result<BTreeSet<String>> {
    let ours = ListParams::default().labels(&format!("{MANAGED_BY}={MANAGER}"));
    let api = core.cluster.api(Kind::Nad, namespace);
    let listed = match core.cluster.list_served(Kind::Nad, api, &ours).await {
        Err(error) if error.kind == ErrorKind::PermissionDenied => None,
        listed => listed?,
    };
    let now = Timestamp::now();
    let is_old = |nad: &DynamicObject| {
        let made = nad.metadata.creation_timestamp.as_ref();
        made.is_some_and(|made| now.duration_since(made.0).unsigned_abs() > NEWS)
    };
    let all = listed.map(|listed| listed.objects).unwrap_or_default();
    let old = all.into_iter().filter(is_old);
    Ok(old.filter_map(|nad| nad.metadata.name).collect())
}

/// What VMs of the namespace name, and what their machines have: a card that was taken away may wait for a restart.
async fn used(core: &Core, namespace: &str) -> Result<BTreeSet<String>> {
    let mut used = BTreeSet::new();
    for kind in [Kind::Vm, Kind::Vmi] {
        let api = core.cluster.api(kind, namespace);
        let all = core.cluster.list(kind, api, &ListParams::default()).await?;
        used.extend(all.objects.iter().flat_map(attachments));
    }
    Ok(used)
}

/// Whether the cluster has no network definitions, or not for us: then we made none.
fn is_kept(error: &ProviderError) -> bool {
    matches!(
        error.kind,
        ErrorKind::Unavailable | ErrorKind::PermissionDenied
    )
}

/// Only those that carry our mark go, and only if nobody in the namespace uses them.
async fn networks(core: &Core, namespace: &str, names: &BTreeSet<String>) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let used = used(core, namespace).await?;
    for name in names.difference(&used) {
        let key = VmKey::new(namespace, name);
        let found = match core.cluster.get(Kind::Nad, &key).await {
            Err(error) if is_kept(&error) => return Ok(()),
            found => found?,
        };
        if let Some(found) = found.filter(|nad| label(nad, MANAGED_BY) == Some(MANAGER)) {
            core.cluster.delete(Kind::Nad, &found).await?;
        }
    }
    Ok(())
}
