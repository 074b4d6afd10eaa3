//! What stands in the way, and what ends it.

use polyvirt_api::infra::{VMImage, VMNetworkAttachment};

use super::*;

#[tokio::test]
async fn somebody_elses_vm_is_never_taken_over() {
    let (world, kvm) = furnished("nova-conflict").await;
    let theirs = json!({
        "metadata": {"name": "my-vm"},
        "spec": {"providerRef": {"name": "kvm"}, "class": {"cpu": 1, "memory": "1Gi"}, "image": {"blank": {}}},
    });
    let theirs: infra::VirtualMachine = serde_json::from_value(theirs).unwrap();
    world.apply(theirs.clone()).await;
    apply(&world, readme("my-vm", json!({}))).await;
    let vm = says(&world, "my-vm", "False", "NameConflict").await;
    assert_eq!(vm.status.unwrap().phase.as_deref(), Some("Failed"));
    assert_eq!(vm.metadata.finalizers, None);
    let found = world.get::<infra::VirtualMachine>("my-vm").await;
    assert_eq!(found.spec.class, theirs.spec.class);
    assert_eq!(found.metadata.owner_references, None);
    world.delete::<VirtualMachine>("my-vm").await;
    world.gone::<VirtualMachine>("my-vm").await;
    let runs = |vm: &infra::VirtualMachine| {
        let phase = vm.status.as_ref().and_then(|s| s.phase);
        phase == Some(infra::VMPhase::Running)
    };
    world.until("my-vm", "runs on", runs).await;
    assert_eq!(kvm.vms().len(), 1);
}

#[tokio::test]
async fn somebody_elses_network_is_never_taken_over() {
    let (world, _kvm) = furnished("nova-net").await;
    let theirs = json!({"metadata": {"name": "my-vm-data"}, "spec": {"network": {"type": "nat"}}});
    let theirs: VMNetworkAttachment = serde_json::from_value(theirs).unwrap();
    world.apply(theirs.clone()).await;
    let data = json!([{"name": "data", "type": "bridge"}]);
    apply(
        &world,
        readme("my-vm", made_of(json!({ "networks": data }))),
    )
    .await;
    says(&world, "my-vm", "False", "NameConflict").await;
    let found = world.get::<VMNetworkAttachment>("my-vm-data").await;
    assert_eq!(found.spec, theirs.spec);
    world.delete::<VirtualMachine>("my-vm").await;
    world.gone::<VirtualMachine>("my-vm").await;
}

#[tokio::test]
async fn without_a_provider_it_waits_and_says_what_to_do() {
    let mut world = World::empty("nova-place").await;
    catalogue(&world).await;
    world.start(|_| {}).await;
    apply(&world, readme("my-vm", json!({}))).await;
    let vm = says(&world, "my-vm", "False", "NodeSelectionFailed").await;
    assert_eq!(vm.status.unwrap().phase.as_deref(), Some("Pending"));
    world.provider("kvm").await;
    stands(&world, "my-vm", "Running").await;
}

#[tokio::test]
async fn an_image_of_the_marketplace_may_come_later() {
    let (world, _kvm) = furnished("nova-market").await;
    let wants = made_of(json!({"image": {"source": "marketplace://golden"}}));
    apply(&world, readme("my-vm", wants)).await;
    let vm = says(&world, "my-vm", "False", "WaitingForDependencies").await;
    assert_eq!(vm.status.unwrap().phase.as_deref(), Some("Pending"));
    let image = json!({
        "metadata": {"name": "golden-3", "labels": {"polyvirt.io/marketplace": "golden"}},
        "spec": {"source": {"http": {"url": "https://images.example/golden.qcow2"}}},
    });
    world
        .apply(serde_json::from_value::<VMImage>(image).unwrap())
        .await;
    stands(&world, "my-vm", "Running").await;
    let made = world.get::<infra::VirtualMachine>("my-vm").await;
    assert_eq!(made.spec.image_ref.unwrap().name, "golden-3");
}

#[tokio::test]
async fn what_can_never_be_made_says_which_field_and_can_be_put_right() {
    let (world, kvm) = furnished("nova-invalid").await;
    let wrong = made_of(json!({"resources": {"memory": "4GB"}}));
    apply(&world, readme("my-vm", wrong)).await;
    let vm = says(&world, "my-vm", "False", "CreateFailed").await;
    let status = vm.status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    let message = status.conditions[0].message.clone().unwrap_or_default();
    assert!(
        message.starts_with("spec.template.spec.resources.memory"),
        "{message}"
    );
    assert!(kvm.vms().is_empty());
    patch(
        &world,
        "my-vm",
        made_of(json!({"resources": {"memory": "4Gi"}})),
    )
    .await;
    stands(&world, "my-vm", "Running").await;
}
