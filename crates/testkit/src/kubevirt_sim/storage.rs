//! Claims and volumes, as CDI and a storage driver treat them.

use kube::ResourceExt as _;
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::runtime::controller::Action;
use serde_json::{Value, json};

use super::cluster::{Kind, World};

/// An address of a host that there is not.
const UNREACHABLE: &str = ".invalid";

/// What every cluster puts on claims, and takes away when nobody uses them.
const PROTECTION: &str = "kubernetes.io/pvc-protection";

pub(super) async fn volume(world: &World, volume: &DynamicObject) -> kube::Result<Action> {
    if volume.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let phase = volume.data.pointer("/status/phase").and_then(Value::as_str);
    let status = match phase {
        None | Some("") => {
            world.create(Kind::Claim, &claim_of(volume)).await?;
            json!({"phase": "ImportInProgress", "progress": "0.0%", "claimName": volume.name_any()})
        }
        Some("ImportInProgress") if is_unreachable(volume) => {
            json!({"phase": "Failed", "progress": "N/A", "claimName": volume.name_any()})
        }
        Some("ImportInProgress") => {
            tokio::time::sleep(world.step).await;
            json!({"phase": "Succeeded", "progress": "100.0%", "claimName": volume.name_any()})
        }
        _ => return Ok(Action::await_change()),
    };
    world.tell(Kind::DataVolume, volume, &status).await?;
    Ok(Action::await_change())
}

fn is_unreachable(volume: &DynamicObject) -> bool {
    let url = volume.data.pointer("/spec/source/http/url");
    let url = url.and_then(Value::as_str).unwrap_or_default();
    let host = url.split("://").nth(1).unwrap_or_default();
    let host = host.split(['/', ':']).next().unwrap_or_default();
    host.ends_with(UNREACHABLE)
}

fn claim_of(volume: &DynamicObject) -> Value {
    let storage = volume.data.pointer("/spec/storage");
    let storage = storage.cloned().unwrap_or_else(|| json!({}));
    let or = |key: &str, usual: Value| storage.get(key).cloned().unwrap_or(usual);
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": volume.name_any(),
            "namespace": volume.namespace(),
            "labels": volume.labels(),
            "annotations": volume.annotations(),
            "ownerReferences": [{
                "apiVersion": Kind::DataVolume.api_version(),
                "kind": Kind::DataVolume.name(),
                "name": volume.name_any(),
                "uid": volume.uid(),
                "controller": true,
            }],
        },
        "spec": {
            "accessModes": or("accessModes", json!(["ReadWriteMany"])),
            "volumeMode": or("volumeMode", json!("Block")),
            "storageClassName": storage.get("storageClassName"),
            "resources": or("resources", json!({"requests": {"storage": "10Gi"}})),
        },
    })
}

pub(super) async fn claim(world: &World, claim: &DynamicObject) -> kube::Result<Action> {
    if claim.metadata.deletion_timestamp.is_some() {
        if is_used(world, claim).await? {
            return Ok(Action::requeue(world.step * 5));
        }
        world.release(Kind::Claim, claim, PROTECTION).await?;
        return Ok(Action::await_change());
    }
    let asked = claim.data.pointer("/spec/resources/requests");
    let has = claim.data.pointer("/status/capacity");
    if asked.is_some() && asked == has {
        return Ok(Action::await_change());
    }
    let status = json!({
        "phase": "Bound",
        "capacity": asked,
        "accessModes": claim.data.pointer("/spec/accessModes"),
    });
    world.tell(Kind::Claim, claim, &status).await?;
    Ok(Action::await_change())
}

/// A claim stays while a machine has it.
async fn is_used(world: &World, claim: &DynamicObject) -> kube::Result<bool> {
    let name = claim.name_any();
    let api = world.of(Kind::Vmi, claim);
    let instances = api.list(&ListParams::default()).await?;
    let names = |volume: &Value| {
        let places = ["/persistentVolumeClaim/claimName", "/dataVolume/name"];
        places
            .iter()
            .any(|p| volume.pointer(p) == Some(&json!(name)))
    };
    let volumes = instances.iter().flat_map(|instance| {
        let all = instance.data.pointer("/spec/volumes");
        all.and_then(Value::as_array).into_iter().flatten()
    });
    Ok(volumes.into_iter().any(names))
}
