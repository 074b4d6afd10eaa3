//! Moments to go back to, by KubeVirt's own kinds.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kube::core::DynamicObject;
use polyvirt_contract::model::{Owner, SnapshotContents, SnapshotCreated, SnapshotRequest, VmRef};
use polyvirt_contract::{ErrorKind, ProviderError, Result, SnapshotId, TaskId};
use serde_json::{Value, json};

use crate::cluster::{Others, Served};
use crate::errors;
use crate::kinds::{DESCRIPTION, IDENTITY, Kind, SNAPSHOT_NAME, VmKey, items, label, owner, text};
use crate::map::objects::{Anchor, Marks};
use crate::names;
use crate::storage;
use crate::vm::{self, Core};

/// How long a snapshot, a machine's end or a restore may take.
const PATIENCE: Duration = Duration::from_mins(60);
/// How long KubeVirt may leave a restore alone before it is reminded of it.
const NUDGE: Duration = Duration::from_secs(3);
/// Annotation of a restore: for how many seconds it has been waited for.
const WAITED: &str = "polyvirt.io/waited-seconds";

/// Takes a snapshot. One name is one snapshot.
pub(crate) async fn create(
    core: &Arc<Core>,
    vm: &VmRef,
    request: SnapshotRequest,
) -> Result<SnapshotCreated> {
    if request.contents == SnapshotContents::DisksAndMemory {
        return Err(ProviderError::unsupported("snapshots with memory"));
    }
    let (key, found) = core.allowed(vm).await?;
    served(core, Kind::Snapshot, "snapshots").await?;
    let place = VmKey::new(&key.namespace, names::joined(&key.name, &request.name_hint));
    match core.cluster.get(Kind::Snapshot, &place).await? {
        Some(there) => is_of(&there, &key, &found)?,
        None => take(core, &key, &found, &place, &request).await?,
    }
    let (core_of_task, name) = (core.clone(), place.clone());
    let work = async move { whole(&core_of_task, &name).await };
    let begun = core.begin(&format!("snapshot {place}"), |_| work);
    Ok(SnapshotCreated {
        id: SnapshotId::from(place.name.as_str()),
        task: begun.answer().await?,
    })
}

/// A kind that a cluster need not have, and need not let us use.
pub(crate) async fn served(core: &Core, kind: Kind, what: &str) -> Result<()> {
    match core.cluster.serves(kind).await? {
        Served::Yes(()) => Ok(()),
        Served::Kept => Err(errors::kept_from_us(kind)),
        Served::No => {
            let message = format!("The cluster has no {} and so no {what}", kind.name());
            Err(ProviderError::new(ErrorKind::Unsupported, message))
        }
    }
}

async fn take(
    core: &Core,
    key: &VmKey,
    vm: &DynamicObject,
    place: &VmKey,
    request: &SnapshotRequest,
) -> Result<()> {
    let owner = owner(vm);
    let none = std::collections::BTreeMap::new();
    let anchor = anchor(key, vm, owner.as_ref(), &none);
    let mut object = anchor.object(Kind::Snapshot, &place.name);
    object["metadata"]["annotations"][SNAPSHOT_NAME] = json!(request.name_hint);
    object["metadata"]["annotations"][DESCRIPTION] = json!(request.description);
    object["spec"] = json!({"source": reference(&key.name)});
    core.cluster
        .apply(Kind::Snapshot, &object, Others::Respect)
        .await
        .map(drop)
}

/// What a VM's snapshots and restores are made under.
fn anchor<'a>(
    key: &'a VmKey,
    vm: &'a DynamicObject,
    owner: Option<&'a Owner>,
    labels: &'a std::collections::BTreeMap<String, String>,
) -> Anchor<'a> {
    Anchor {
        key,
        uid: vm.metadata.uid.as_deref().unwrap_or_default(),
        marks: Marks { owner, labels },
    }
}

pub(crate) fn reference(name: &str) -> Value {
    json!({"apiGroup": "kubevirt.io", "kind": Kind::Vm.name(), "name": name})
}

/// A snapshot of that name must be of this VM.
fn is_of(snapshot: &DynamicObject, key: &VmKey, vm: &DynamicObject) -> Result<()> {
    let same = text(&snapshot.data, "/spec/source/name") == key.name
        && label(snapshot, IDENTITY) == label(vm, IDENTITY);
    if same {
        return Ok(());
    }
    let message = format!("There is a snapshot of that name, and not of the VM {key}");
    Err(ProviderError::new(ErrorKind::NameConflict, message))
}

async fn whole(core: &Core, place: &VmKey) -> Result<()> {
    let ended = |snapshot: Option<&DynamicObject>| {
        snapshot.is_none_or(|snapshot| is_ready(snapshot) || trouble(snapshot).is_some())
    };
    core.until(Kind::Snapshot, place, PATIENCE, ended).await?;
    let found = core.cluster.get(Kind::Snapshot, place).await?;
    let found = found.ok_or_else(|| ProviderError::not_found(format!("The snapshot {place}")))?;
    match trouble(&found).filter(|_| !is_ready(&found)) {
        Some(why) => Err(errors::internal(format!("The snapshot failed: {why}"))),
        None => Ok(()),
    }
}

fn is_ready(snapshot: &DynamicObject) -> bool {
    let ready = snapshot.data.pointer("/status/readyToUse");
    ready.and_then(Value::as_bool) == Some(true)
}

/// Why it will never be ready; an error alone is tried again by KubeVirt.
fn trouble(snapshot: &DynamicObject) -> Option<String> {
    let failed = text(&snapshot.data, "/status/phase") == "Failed";
    let said = text(&snapshot.data, "/status/error/message");
    failed.then(|| said.to_owned())
}

/// Deletes a snapshot. `NotFound` means that it is already gone.
pub(crate) async fn delete(
    core: &Arc<Core>,
    vm: &VmRef,
    snapshot: &SnapshotId,
) -> Result<Option<TaskId>> {
    let (key, found) = core.allowed(vm).await?;
    let (place, there) = existing(core, &key, &found, snapshot).await?;
    core.cluster.delete(Kind::Snapshot, &there).await?;
    let (core_of_task, name) = (core.clone(), place.clone());
    let work = async move {
        let gone = |snapshot: Option<&DynamicObject>| snapshot.is_none();
        core_of_task
            .until(Kind::Snapshot, &name, PATIENCE, gone)
            .await
    };
    let begun = core.begin(&format!("drop {place}"), |_| work);
    begun.answer().await
}

async fn existing(
    core: &Core,
    key: &VmKey,
    vm: &DynamicObject,
    snapshot: &SnapshotId,
) -> Result<(VmKey, DynamicObject)> {
    let absent = || ProviderError::not_found(format!("The snapshot {snapshot}"));
    if !names::is_name(snapshot.as_str()) {
        return Err(absent());
    }
    let place = VmKey::new(&key.namespace, snapshot.as_str());
    let found = core.cluster.get(Kind::Snapshot, &place).await?;
    let found = found.ok_or_else(absent)?;
    is_of(&found, key, vm).map_err(|_| absent())?;
    Ok((place, found))
}

/// Takes the VM back to a snapshot: it is stopped, and stays so.
pub(crate) async fn revert(
    core: &Arc<Core>,
    vm: &VmRef,
    snapshot: &SnapshotId,
) -> Result<Option<TaskId>> {
    let (key, found) = core.allowed(vm).await?;
    let (_, there) = existing(core, &key, &found, snapshot).await?;
    if !is_ready(&there) {
        let message = format!("The snapshot {snapshot} is not whole yet");
        return Err(errors::precondition(message));
    }
    let (core_of_task, vm, snapshot) = (core.clone(), vm.clone(), snapshot.clone());
    let work = async move { go_back(&core_of_task, &vm, &snapshot).await };
    let begun = core.begin(&format!("revert {key}"), |_| work);
    begun.answer().await
}

/// Who dies before the restore is made leaves a VM that is off, and is asked again. Who dies after it is asked again too:
/// the restore that is under way is found, and one that is done is done once more.
async fn go_back(core: &Core, vm: &VmRef, snapshot: &SnapshotId) -> Result<()> {
    vm::halt(core, vm).await?;
    let (key, found) = core.allowed(vm).await?;
    let gone = |instance: Option<&DynamicObject>| instance.is_none();
    core.until(Kind::Vmi, &key, PATIENCE, gone).await?;
    let restore = match under_way(core, &key, &found, snapshot).await? {
        Some(restore) => restore,
        None => begin_restore(core, &key, &found, snapshot).await?,
    };
    let place = VmKey::new(
        &key.namespace,
        restore.metadata.name.clone().unwrap_or_default(),
    );
    until_over(core, &place, &restore).await?;
    let restore = core.cluster.get(Kind::Restore, &place).await?;
    if let Some(why) = restore
        .as_ref()
        .filter(|r| !is_complete(r))
        .and_then(failed)
    {
        return Err(errors::internal(format!("The restore failed: {why}")));
    }
    let (key, found) = core.allowed(vm).await?;
    let (owner, none) = (owner(&found), std::collections::BTreeMap::new());
    let marks = Marks {
        owner: owner.as_ref(),
        labels: &none,
    };
    vm::mark_claims(core, &key, &found, &marks).await?;
    match restore {
        Some(restore) => core.cluster.delete(Kind::Restore, &restore).await,
        None => Ok(()),
    }
}

/// KubeVirt deletes a claim and makes it anew, and looks at the restore again when something that it watches changes. That a
/// claim has gone is not among that: with bad luck it waits for minutes. A restore that is written to is looked at.
async fn until_over(core: &Core, place: &VmKey, restore: &DynamicObject) -> Result<()> {
    let over = |restore: Option<&DynamicObject>| {
        restore.is_none_or(|r| is_complete(r) || failed(r).is_some())
    };
    let begin = Instant::now();
    loop {
        match core.until(Kind::Restore, place, NUDGE, over).await {
            Err(error) if error.kind == ErrorKind::Timeout && begin.elapsed() < PATIENCE => {}
            answer => return answer,
        }
        let waited = begin.elapsed().as_secs().to_string();
        core.cluster
            .annotate(Kind::Restore, restore, WAITED, &waited)
            .await?;
    }
}

fn is_complete(restore: &DynamicObject) -> bool {
    let complete = restore.data.pointer("/status/complete");
    complete.and_then(Value::as_bool) == Some(true)
}

fn failed(restore: &DynamicObject) -> Option<String> {
    let all = items(&restore.data, "/status/conditions").iter();
    let mut found = all.filter(|c| text(c, "/type") == "Failure" && text(c, "/status") == "True");
    found.next().map(|c| text(c, "/reason").to_owned())
}

async fn under_way(
    core: &Core,
    key: &VmKey,
    vm: &DynamicObject,
    snapshot: &SnapshotId,
) -> Result<Option<DynamicObject>> {
    let Some(identity) = label(vm, IDENTITY) else {
        return Ok(None);
    };
    let all = storage::owned(&core.cluster, Kind::Restore, &key.namespace, identity).await?;
    let same = |restore: &DynamicObject| {
        let of = text(&restore.data, "/spec/virtualMachineSnapshotName");
        of == snapshot.as_str() && !is_complete(restore) && failed(restore).is_none()
    };
    Ok(all.into_iter().find(same))
}

async fn begin_restore(
    core: &Core,
    key: &VmKey,
    vm: &DynamicObject,
    snapshot: &SnapshotId,
) -> Result<DynamicObject> {
    let (owner, none) = (owner(vm), std::collections::BTreeMap::new());
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let moment = now.map(|since| since.as_millis()).unwrap_or_default();
    let name = names::joined(&key.name, &format!("restore-{moment}"));
    let mut object = anchor(key, vm, owner.as_ref(), &none).object(Kind::Restore, &name);
    object["spec"] = json!({
        "target": reference(&key.name),
        "virtualMachineSnapshotName": snapshot.as_str(),
        // Claims keep their names; older clusters do not know the field and give them new ones.
        "volumeRestorePolicy": "InPlace",
    });
    core.cluster
        .apply(Kind::Restore, &object, Others::Respect)
        .await
}
