//! Other people's fields on our objects stay other people's.

use kube::api::{Patch, PatchParams};
use polyvirt_api::infra::{Provider, VMClass, VMImage, VirtualMachine};
use polyvirt_api::names;
use polyvirt_provider_mock::MockConfig;
use serde_json::{Value, json};

use crate::support::look::{Explained, condition, ready, runs, stands};
use crate::support::world::{HYPERVISOR, Object};
use crate::support::{SMALL, World, download, vm};

const BACKUP: &str = "backup.example.com/Saved";

fn saved(status: &str) -> Value {
    json!({
        "type": BACKUP, "status": status, "reason": "Nightly", "message": "Said by somebody else",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// Another controller says something on the object, by server-side apply.
async fn backup_says<K: Object>(world: &World, name: &str, conditions: Value) -> K {
    let body = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": {"name": name}, "status": {"conditions": conditions},
    });
    let params = PatchParams::apply("backup").force();
    let api = world.api::<K>();
    let applied = api.patch_status(name, &params, &Patch::Apply(&body)).await;
    applied.expect("the API server takes it")
}

fn owned_by_us<K: Object>(object: &K) -> String {
    let fields = object.meta().managed_fields.clone().unwrap_or_default();
    let ours = fields
        .into_iter()
        .filter(|f| f.manager.as_deref() == Some("polyvirt"));
    let owned: Vec<_> = ours.filter_map(|f| f.fields_v1).collect();
    serde_json::to_string(&owned).expect("text")
}

/// A foreign condition survives our write, is not taken over by it, and goes when its owner takes it away.
async fn stays_theirs<K: Object + Explained>(world: &World, name: &str, ours: impl AsyncFn() -> K) {
    backup_says::<K>(world, name, json!([saved("True")])).await;
    let object = ours().await;
    assert!(condition(&object, BACKUP).is_some_and(|c| c.status == "True"));
    assert!(
        !owned_by_us(&object).contains(BACKUP),
        "{}",
        owned_by_us(&object)
    );
    let object = backup_says::<K>(world, name, json!([])).await;
    assert!(
        condition(&object, BACKUP).is_none(),
        "its owner took it away"
    );
}

#[tokio::test]
async fn a_condition_of_another_controller_on_a_vm_stays_theirs() {
    let (world, _mock) = World::furnished("vm-conditions", MockConfig::default()).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    let ours = async || {
        world.edit_spec("web", json!({"powerState": "Off"})).await;
        world.vm("web", "is off", stands).await
    };
    stays_theirs::<VirtualMachine>(&world, "web", ours).await;
}

#[tokio::test]
async fn a_condition_of_another_controller_on_a_provider_stays_theirs() {
    let (world, mock) = World::furnished("provider-conditions", MockConfig::default()).await;
    world.until(HYPERVISOR, "is ready", ready::<Provider>).await;
    let ours = async || {
        mock.faults()
            .parse("fail=Validate:Unavailable")
            .expect("a rule");
        let down = |p: &Provider| p.status.as_ref().and_then(|s| s.healthy) == Some(false);
        world.until(HYPERVISOR, "is down", down).await
    };
    stays_theirs::<Provider>(&world, HYPERVISOR, ours).await;
}

#[tokio::test]
async fn a_condition_of_another_controller_on_a_class_or_an_image_stays_theirs() {
    let (world, _mock) = World::furnished("shared-conditions", MockConfig::default()).await;
    world.create(download("debian")).await;
    world.until(SMALL, "is ready", ready::<VMClass>).await;
    let class = async || {
        world
            .edit::<VMClass>(SMALL, json!({"spec": {"cpu": 3}}))
            .await;
        world.until(SMALL, "is ready", ready::<VMClass>).await
    };
    stays_theirs::<VMClass>(&world, SMALL, class).await;
    let image = async || {
        world
            .create(vm("web").spec(json!({"imageRef": {"name": "debian"}})))
            .await;
        world.until("debian", "is ready", ready::<VMImage>).await
    };
    stays_theirs::<VMImage>(&world, "debian", image).await;
}

#[tokio::test]
async fn labels_annotations_and_finalizers_of_others_survive() {
    let (world, mock) = World::furnished("metadata", MockConfig::default()).await;
    let theirs = json!({"metadata": {
        "labels": {"team": "a"}, "annotations": {"example.com/note": "keep"},
        "finalizers": ["example.com/audit"],
    }});
    world.create(vm("web").changed(theirs)).await;
    let vm = world.vm("web", "runs", runs).await;
    let meta = vm.metadata;
    assert_eq!(meta.labels.unwrap_or_default()["team"], "a");
    assert_eq!(
        meta.annotations.unwrap_or_default()["example.com/note"],
        "keep"
    );
    let marks = meta.finalizers.unwrap_or_default();
    assert_eq!(
        marks,
        ["example.com/audit", names::VIRTUAL_MACHINE_FINALIZER]
    );
    world.delete::<VirtualMachine>("web").await;
    let only_theirs = |vm: &VirtualMachine| {
        vm.metadata.finalizers.as_deref() == Some(&["example.com/audit".to_owned()])
    };
    world
        .vm("web", "is held by the others alone", only_theirs)
        .await;
    assert!(mock.vms().is_empty());
    world
        .edit::<VirtualMachine>("web", json!({"metadata": {"finalizers": null}}))
        .await;
    world.gone::<VirtualMachine>("web").await;
}

#[tokio::test]
async fn an_edit_of_labels_while_we_work_is_not_undone() {
    let (world, _mock) = World::furnished("race", MockConfig::default()).await;
    world.create(vm("web")).await;
    for number in 0..20 {
        let label = json!({"metadata": {"labels": {"count": number.to_string()}}});
        world.edit::<VirtualMachine>("web", label).await;
    }
    let vm = world.vm("web", "runs", runs).await;
    assert_eq!(vm.metadata.labels.unwrap_or_default()["count"], "19");
}
