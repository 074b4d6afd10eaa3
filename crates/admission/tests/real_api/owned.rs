//! VirtualMachines that an object of another API controls, on a real API server.

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::world::{World, refusal, vm};

fn owners(world: &World) -> Api<DynamicObject> {
    Api::namespaced_with(world.client.clone(), &world.namespace, &novacron())
}

fn novacron() -> ApiResource {
    let gvk = GroupVersionKind::gvk("novacron.io", "v1alpha1", "VirtualMachine");
    ApiResource::from_gvk_with_plural(&gvk, "virtualmachines")
}

/// An owner of that name; its UID.
async fn owner(world: &World, name: &str) -> String {
    let spec = json!({"running": true, "template": {"spec": {
        "resources": {"cpu": 1, "memory": "1Gi", "disk": "1Gi"}, "image": {"source": "base"},
    }}});
    let object = DynamicObject::new(name, &novacron()).data(json!({ "spec": spec }));
    let made = owners(world).create(&PostParams::default(), &object).await;
    made.expect("made").metadata.uid.expect("a UID")
}

/// Applies the VirtualMachine of that owner, as its controller does.
async fn lower(world: &World, name: &str, uid: &str, change: Value) -> DynamicObject {
    let body = json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
        "metadata": {"name": name, "ownerReferences": [{
            "apiVersion": "novacron.io/v1alpha1", "kind": "VirtualMachine", "name": name, "uid": uid, "controller": true,
        }]},
        "spec": vm(change),
    });
    let params = PatchParams::apply("polyvirt-novacron").force();
    let written = world
        .api("VirtualMachine")
        .patch(name, &params, &Patch::Apply(body))
        .await;
    written.expect("writes of the manager pass")
}

async fn edit(world: &World, name: &str, body: Value) -> Result<DynamicObject, kube::Error> {
    let api = world.api("VirtualMachine");
    api.patch(name, &PatchParams::default(), &Patch::Merge(body))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_is_not_deleted_or_edited_behind_its_owner() {
    let world = World::furnished("owned").await;
    let uid = owner(&world, "my-vm").await;
    lower(&world, "my-vm", &uid, json!({"powerState": "On"})).await;
    let api = world.api("VirtualMachine");
    let params = DeleteParams::default();

    let told = refusal(api.delete("my-vm", &params).await.map(drop));
    assert_eq!((told.code, told.reason.as_str()), (403, "Forbidden"));
    let command = format!(
        "kubectl delete virtualmachines.novacron.io/my-vm --namespace {}",
        world.namespace
    );
    assert!(
        told.message.contains("guard.polyvirt.io"),
        "{}",
        told.message
    );
    assert!(told.message.contains(&command), "{}", told.message);

    let told = refusal(edit(&world, "my-vm", json!({"spec": {"powerState": "Off"}})).await);
    assert!(
        told.message.contains("\"running\":false"),
        "{}",
        told.message
    );
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    edit(&world, "my-vm", label)
        .await
        .expect("metadata may change");
    lower(&world, "my-vm", &uid, json!({"powerState": "OffGraceful"})).await;

    // Its owner is being deleted or gone: the VM goes too.
    owners(&world)
        .delete("my-vm", &params)
        .await
        .expect("deleted");
    api.delete("my-vm", &params).await.expect("allowed now");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_of_the_same_name_is_another_one_and_force_is_heard() {
    let world = World::furnished("force").await;
    owner(&world, "a").await;
    lower(&world, "a", "another", json!({})).await;
    let (api, params) = (world.api("VirtualMachine"), DeleteParams::default());
    api.delete("a", &params).await.expect("the owner is gone");
    let uid = owner(&world, "b").await;
    lower(&world, "b", &uid, json!({})).await;
    refusal(api.delete("b", &params).await.map(drop));
    let force = json!({"metadata": {"annotations": {"virtrigaud.io/force-delete": "true"}}});
    edit(&world, "b", force).await.expect("annotated");
    api.delete("b", &params).await.expect("forced");
}

/// NovaCron's way to stop a VM, typed for the wrong kind.
#[tokio::test(flavor = "multi_thread")]
async fn the_field_running_is_refused_with_what_to_type() {
    let world = World::furnished("running").await;
    let made = world.create("VirtualMachine", "a", vm(json!({}))).await;
    made.expect("made");
    let told = refusal(edit(&world, "a", json!({"spec": {"running": false}})).await);
    assert_eq!(told.code, 422);
    let command = r#"kubectl patch virtualmachines.novacron.io/a --type merge -p '{"spec":{"running":false}}'"#;
    assert!(told.message.contains(command), "{}", told.message);
}
