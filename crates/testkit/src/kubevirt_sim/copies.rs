//! Snapshots, restores and clones.

use kube::ResourceExt as _;
use kube::core::DynamicObject;
use kube::runtime::controller::Action;
use serde_json::{Value, json};

use super::FAULT;
use super::admission;
use super::cluster::{Kind, World};

/// Where a snapshot keeps the machine that it is of.
const KEPT: &str = "sim.polyvirt.io/template";

fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    let found = object.data.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

fn is_done(object: &DynamicObject) -> bool {
    let over = text(object, "/status/phase");
    matches!(over, "Succeeded" | "Failed")
        || object.data.pointer("/status/complete") == Some(&json!(true))
        || object.metadata.deletion_timestamp.is_some()
}

pub(super) async fn snapshot(world: &World, snapshot: &DynamicObject) -> kube::Result<Action> {
    if is_done(snapshot) {
        return Ok(Action::await_change());
    }
    let source = text(snapshot, "/spec/source/name");
    let Some(vm) = world.beside(Kind::Vm, snapshot, source).await? else {
        let status = json!({"phase": "InProgress", "readyToUse": false});
        world.tell(Kind::Snapshot, snapshot, &status).await?;
        return Ok(Action::requeue(world.step * 5));
    };
    if !snapshot.annotations().contains_key(KEPT) {
        let template = vm.data.pointer("/spec/template").cloned();
        let kept = template.unwrap_or_default().to_string();
        let change = json!({"metadata": {"annotations": {KEPT: kept}}});
        world.change(Kind::Snapshot, snapshot, &change).await?;
        return Ok(Action::await_change());
    }
    tokio::time::sleep(world.step).await;
    let status = json!({
        "phase": "Succeeded",
        "readyToUse": true,
        "creationTime": snapshot.metadata.creation_timestamp,
        "sourceUID": vm.uid(),
    });
    world.tell(Kind::Snapshot, snapshot, &status).await?;
    Ok(Action::await_change())
}

pub(super) async fn restore(world: &World, restore: &DynamicObject) -> kube::Result<Action> {
    if is_done(restore) {
        return Ok(Action::await_change());
    }
    let target = text(restore, "/spec/target/name");
    let name = text(restore, "/spec/virtualMachineSnapshotName");
    let snapshot = world.beside(Kind::Snapshot, restore, name).await?;
    let vm = world.beside(Kind::Vm, restore, target).await?;
    let runs = world.beside(Kind::Vmi, restore, target).await?.is_some();
    let (Some(snapshot), Some(vm), false) = (snapshot, vm, runs) else {
        return Ok(Action::requeue(world.step * 5));
    };
    if vm.annotations().get(FAULT).map(String::as_str) == Some("ForgetsRestore")
        && !is_reminded(restore)
    {
        let status = json!({"complete": false});
        world.tell(Kind::Restore, restore, &status).await?;
        return Ok(Action::await_change());
    }
    let kept = snapshot.annotations().get(KEPT);
    let template = kept.and_then(|text| serde_json::from_str::<Value>(text).ok());
    if let Some(template) = template {
        let change = json!({"spec": {"template": template}});
        world.change(Kind::Vm, &vm, &change).await?;
    }
    let status = json!({"complete": true});
    world.tell(Kind::Restore, restore, &status).await?;
    Ok(Action::await_change())
}

/// Whether somebody has written to it since it was made.
fn is_reminded(restore: &DynamicObject) -> bool {
    let keys = restore.annotations().keys();
    keys.into_iter().any(|key| key.ends_with("waited-seconds"))
}

pub(super) async fn clone(world: &World, clone: &DynamicObject) -> kube::Result<Action> {
    if is_done(clone) {
        return Ok(Action::await_change());
    }
    let source = text(clone, "/spec/source/name");
    let Some(vm) = world.beside(Kind::Vm, clone, source).await? else {
        return Ok(Action::requeue(world.step * 5));
    };
    let target = text(clone, "/spec/target/name");
    let status = match copy(world, clone, &vm, target).await? {
        Ok(()) => json!({"phase": "Succeeded", "targetName": target}),
        Err(_) => json!({"phase": "Failed"}),
    };
    world.tell(Kind::Clone, clone, &status).await?;
    Ok(Action::await_change())
}

type Patched = Result<(), String>;

async fn copy(
    world: &World,
    clone: &DynamicObject,
    vm: &DynamicObject,
    target: &str,
) -> kube::Result<Patched> {
    let mut copy = json!({
        "apiVersion": Kind::Vm.api_version(),
        "kind": Kind::Vm.name(),
        "metadata": {
            "name": target,
            "namespace": vm.namespace(),
            "labels": vm.labels(),
            "annotations": kept_annotations(clone, vm),
        },
        "spec": vm.data["spec"],
    });
    let pointer = "/spec/template/spec/volumes";
    let volumes = copy.pointer_mut(pointer).and_then(Value::as_array_mut);
    for volume in volumes.into_iter().flatten() {
        copy_claim(world, clone, vm, volume).await?;
    }
    readdress(clone, &mut copy);
    if let Err(why) = patch(clone, &mut copy) {
        return Ok(Err(why));
    }
    world.create(Kind::Vm, &copy).await.map(Ok)
}

fn kept_annotations(clone: &DynamicObject, vm: &DynamicObject) -> Value {
    let filters = clone.data.pointer("/spec/annotationFilters");
    let filters = filters
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let kept = vm
        .annotations()
        .iter()
        .filter(|(key, _)| !filters.contains(&json!(format!("!{key}"))));
    json!(kept.collect::<std::collections::BTreeMap<_, _>>())
}

/// The copy of a volume has a claim of its own, under a name that KubeVirt makes up.
async fn copy_claim(
    world: &World,
    clone: &DynamicObject,
    vm: &DynamicObject,
    volume: &mut Value,
) -> kube::Result<()> {
    let places = ["/persistentVolumeClaim/claimName", "/dataVolume/name"];
    let name = places.iter().find_map(|p| volume.pointer(p)?.as_str());
    let Some(name) = name.map(str::to_owned) else {
        return Ok(());
    };
    let Some(claim) = world.beside(Kind::Claim, vm, &name).await? else {
        return Ok(());
    };
    let copy = format!("restore-{}-{name}", clone.uid().unwrap_or_default());
    let spec = &claim.data["spec"];
    let object = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": copy, "namespace": vm.namespace()},
        "spec": {
            "accessModes": spec["accessModes"],
            "volumeMode": spec["volumeMode"],
            "storageClassName": spec["storageClassName"],
            "resources": spec["resources"],
        },
    });
    world.create(Kind::Claim, &object).await?;
    let volume_name = volume["name"].clone();
    *volume = json!({"name": volume_name, "persistentVolumeClaim": {"claimName": copy}});
    Ok(())
}

fn readdress(clone: &DynamicObject, copy: &mut Value) {
    let addresses = clone.data.pointer("/spec/newMacAddresses").cloned();
    let pointer = "/spec/template/spec/domain/devices/interfaces";
    let cards = copy.pointer_mut(pointer).and_then(Value::as_array_mut);
    for card in cards.into_iter().flatten() {
        let name = card["name"].as_str().unwrap_or_default().to_owned();
        if let Some(address) = addresses.as_ref().and_then(|all| all.get(&name)) {
            card["macAddress"] = address.clone();
        }
    }
}

fn patch(clone: &DynamicObject, copy: &mut Value) -> Patched {
    let patches = clone
        .data
        .pointer("/spec/patches")
        .and_then(Value::as_array);
    let addresses = clone
        .data
        .pointer("/spec/newMacAddresses")
        .and_then(Value::as_object);
    for address in addresses.into_iter().flatten() {
        let as_patch = json!({"value": address.1}).to_string();
        admission::patch_refusal(&as_patch).map_or(Ok(()), Err)?;
    }
    for text in patches.into_iter().flatten().filter_map(Value::as_str) {
        admission::patch_refusal(text).map_or(Ok(()), Err)?;
        let operation = serde_json::from_str(text).map_err(|error| error.to_string())?;
        json_patch::patch(copy, &[operation]).map_err(|error| error.to_string())?;
    }
    Ok(())
}
