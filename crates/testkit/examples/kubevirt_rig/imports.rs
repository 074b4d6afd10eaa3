//! DataVolumes, as CDI treats them; nothing is fetched.

use std::sync::Arc;

use kube::ResourceExt as _;
use kube::core::DynamicObject;
use kube::runtime::controller::Action;
use serde_json::{Value, json};

use crate::world::{CLAIM, IMPORT, STEP, World, is_leaving, text};

/// An address of a host that there is not.
const UNREACHABLE: &str = ".invalid";

pub async fn pass(world: Arc<World>, import: Arc<DynamicObject>) -> kube::Result<Action> {
    let phase = text(&import, "/status/phase");
    if is_leaving(&import) || matches!(phase, "Succeeded" | "Failed") {
        return Ok(Action::await_change());
    }
    let name = import.name_any();
    let Some(claim) = world.beside(CLAIM, &import).get_opt(&name).await? else {
        world.make(CLAIM, claim_of(&import)).await?;
        return Ok(Action::requeue(STEP));
    };
    let status = |phase: &str, progress: &str| json!({"phase": phase, "progress": progress, "claimName": name});
    let next = match (phase, text(&claim, "/status/phase")) {
        ("", _) => status("Pending", "N/A"),
        (_, "Bound") if phase != "ImportInProgress" => status("ImportInProgress", "0.0%"),
        (_, "Bound") if is_unreachable(&import) => status("Failed", "N/A"),
        (_, "Bound") => status("Succeeded", "100.0%"),
        _ => return Ok(Action::requeue(STEP * 2)),
    };
    world.tell(IMPORT, &import, next).await?;
    Ok(Action::requeue(STEP))
}

fn is_unreachable(import: &DynamicObject) -> bool {
    let host = text(import, "/spec/source/http/url").split("://").nth(1);
    let host = host.unwrap_or_default().split(['/', ':']).next();
    host.unwrap_or_default().ends_with(UNREACHABLE)
}

fn claim_of(import: &DynamicObject) -> Value {
    let spec = import.data.pointer("/spec/storage");
    let spec = spec.or(import.data.pointer("/spec/pvc")).cloned();
    let spec = spec.unwrap_or_else(|| json!({}));
    let or = |key: &str, usual: Value| spec.get(key).cloned().unwrap_or(usual);
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": import.name_any(),
            "namespace": import.namespace(),
            "labels": import.labels(),
            "annotations": import.annotations(),
            "ownerReferences": [{
                "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": import.name_any(),
                "uid": import.uid(), "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "accessModes": or("accessModes", json!(["ReadWriteMany"])),
            "volumeMode": or("volumeMode", json!("Block")),
            "storageClassName": spec.get("storageClassName"),
            "resources": or("resources", json!({"requests": {"storage": "10Gi"}})),
        },
    })
}
