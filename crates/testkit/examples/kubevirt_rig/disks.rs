//! Volumes and their snapshots, as a storage driver and its helpers treat them. Binding, and what protects volumes in use, is
//! Kubernetes' own.

use std::sync::Arc;

use kube::ResourceExt as _;
use kube::core::DynamicObject;
use kube::runtime::controller::Action;
use serde_json::{Value, json};

use crate::furnish::PROVISIONER;
use crate::world::{CLAIM, SNAPSHOT, SNAPSHOT_CONTENT, STEP, VOLUME, World, is_leaving, now, text};

const ASKED: &str = "volume.kubernetes.io/storage-provisioner";
const FINALIZER: &str = "rig.polyvirt.io/content";

/// Makes the volume of a claim, and bigger when more is asked for.
pub async fn claim(world: Arc<World>, claim: Arc<DynamicObject>) -> kube::Result<Action> {
    let ours = claim.annotations().get(ASKED).map(String::as_str) == Some(PROVISIONER);
    if is_leaving(&claim) || !ours {
        return Ok(Action::await_change());
    }
    match text(&claim, "/status/phase") {
        "Pending" => {
            tokio::time::sleep(STEP).await;
            world.make(VOLUME, volume_of(&claim)).await?;
        }
        "Bound" => grow(&world, &claim).await?,
        _ => {}
    }
    Ok(Action::await_change())
}

fn volume_of(claim: &DynamicObject) -> Value {
    let spec = &claim.data["spec"];
    let name = format!("pvc-{}", claim.uid().unwrap_or_default());
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {
            "capacity": spec["resources"]["requests"],
            "accessModes": spec["accessModes"],
            "volumeMode": spec["volumeMode"],
            "storageClassName": spec["storageClassName"],
            "persistentVolumeReclaimPolicy": "Delete",
            "csi": {"driver": PROVISIONER, "volumeHandle": name},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace(), "name": claim.name_any(), "uid": claim.uid(),
            },
        },
    })
}

async fn grow(world: &World, claim: &DynamicObject) -> kube::Result<()> {
    let asked = claim.data.pointer("/spec/resources/requests/storage");
    let has = claim.data.pointer("/status/capacity/storage");
    if asked == has {
        return Ok(());
    }
    let volume = world
        .all(VOLUME)
        .get_opt(text(claim, "/spec/volumeName"))
        .await?;
    if let Some(volume) = volume {
        let change = json!({"spec": {"capacity": {"storage": asked}}});
        world.change(VOLUME, &volume, change).await?;
    }
    let status = json!({"capacity": {"storage": asked}});
    world.tell(CLAIM, claim, status).await
}

/// Removes a volume whose claim is gone.
pub async fn volume(world: Arc<World>, volume: Arc<DynamicObject>) -> kube::Result<Action> {
    if text(&volume, "/status/phase") == "Released" && !is_leaving(&volume) {
        world.remove(VOLUME, &volume).await?;
    }
    Ok(Action::await_change())
}

fn content_name(snapshot: &DynamicObject) -> String {
    format!("snapcontent-{}", snapshot.uid().unwrap_or_default())
}

/// Takes a snapshot of a volume, and removes it with its object.
pub async fn snapshot(world: Arc<World>, snapshot: Arc<DynamicObject>) -> kube::Result<Action> {
    if is_leaving(&snapshot) {
        let name = content_name(&snapshot);
        if let Some(content) = world.all(SNAPSHOT_CONTENT).get_opt(&name).await? {
            world.remove(SNAPSHOT_CONTENT, &content).await?;
        }
        let others = snapshot.finalizers().iter().filter(|f| *f != FINALIZER);
        let change = json!({"metadata": {"finalizers": others.collect::<Vec<_>>()}});
        world.change(SNAPSHOT, &snapshot, change).await?;
        return Ok(Action::await_change());
    }
    if snapshot.data.pointer("/status/readyToUse") == Some(&json!(true)) {
        return Ok(Action::await_change());
    }
    if !snapshot.finalizers().iter().any(|f| f == FINALIZER) {
        let change = json!({"metadata": {"finalizers": [FINALIZER]}});
        world.change(SNAPSHOT, &snapshot, change).await?;
        return Ok(Action::await_change());
    }
    tokio::time::sleep(STEP).await;
    take(&world, &snapshot).await
}

async fn take(world: &World, snapshot: &DynamicObject) -> kube::Result<Action> {
    let source = text(snapshot, "/spec/source/persistentVolumeClaimName");
    let Some(claim) = world.beside(CLAIM, snapshot).get_opt(source).await? else {
        return Ok(Action::requeue(STEP * 10));
    };
    world
        .make(SNAPSHOT_CONTENT, content(snapshot, &claim))
        .await?;
    let status = json!({
        "boundVolumeSnapshotContentName": content_name(snapshot),
        "readyToUse": true,
        "creationTime": now(),
        "restoreSize": claim.data.pointer("/status/capacity/storage"),
    });
    world.tell(SNAPSHOT, snapshot, status).await?;
    Ok(Action::await_change())
}

fn content(snapshot: &DynamicObject, claim: &DynamicObject) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotContent",
        "metadata": {"name": content_name(snapshot)},
        "spec": {
            "driver": PROVISIONER,
            "deletionPolicy": "Delete",
            "volumeSnapshotClassName": snapshot.data.pointer("/spec/volumeSnapshotClassName"),
            "source": {"volumeHandle": text(claim, "/spec/volumeName")},
            "volumeSnapshotRef": {
                "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
                "namespace": snapshot.namespace(), "name": snapshot.name_any(), "uid": snapshot.uid(),
            },
        },
    })
}
