//! A VM that is deleted behind its object is reported and never replaced by itself.

use polyvirt_api::names::RECREATE_VM_ANNOTATION;

use super::*;

fn id(vm: &VirtualMachine) -> String {
    let id = vm.status.as_ref().and_then(|s| s.vm_id.clone());
    id.unwrap_or_else(|| panic!("no id in {vm:?}"))
}

/// C1: `kubectl delete vm my-vm` where `vm` is the VirtualMachine of infra.virtrigaud.io, without webhooks.
#[tokio::test]
async fn a_vm_that_was_deleted_behind_its_object_is_reported_and_not_replaced() {
    let (mut world, kvm) = furnished("nova-loss").await;
    apply(&world, readme("my-vm", json!({}))).await;
    let first = id(&stands(&world, "my-vm", "Running").await);
    world.delete::<infra::VirtualMachine>("my-vm").await;
    world.gone::<infra::VirtualMachine>("my-vm").await;
    let lost = says(&world, "my-vm", "False", "VmMissing").await;
    assert_eq!(
        lost.status.as_ref().unwrap().phase.as_deref(),
        Some("Failed")
    );
    assert_eq!(id(&lost), first);
    let message = lost.status.as_ref().unwrap().conditions.iter();
    let message = message
        .filter_map(|c| c.message.clone())
        .collect::<String>();
    assert!(
        message.contains(&format!("{RECREATE_VM_ANNOTATION}={first}")),
        "{message}"
    );
    world.told::<VirtualMachine>("my-vm", "VmMissing").await;

    // Neither an edit nor another manager brings a VM of empty disks.
    patch(&world, "my-vm", json!({"spec": {"running": false}})).await;
    world.stop();
    world.start(|_| {}).await;
    patch(&world, "my-vm", json!({"spec": {"running": true}})).await;
    let seen = |vm: &VirtualMachine| {
        vm.status.as_ref().and_then(|s| s.observed_generation) == vm.metadata.generation
    };
    world
        .until::<VirtualMachine>("my-vm", "was looked at", seen)
        .await;
    says(&world, "my-vm", "False", "VmMissing").await;
    assert!(kvm.vms().is_empty());
    assert_eq!(
        world
            .api::<infra::VirtualMachine>()
            .get_opt("my-vm")
            .await
            .unwrap(),
        None
    );

    // The user asks for one, once.
    let other = json!({"metadata": {"annotations": {RECREATE_VM_ANNOTATION: "another"}}});
    patch(&world, "my-vm", other).await;
    let ask = json!({"metadata": {"annotations": {RECREATE_VM_ANNOTATION: first}}});
    patch(&world, "my-vm", ask).await;
    let second = id(&stands(&world, "my-vm", "Running").await);
    assert_ne!(first, second);
    let closed = |vm: &VirtualMachine| {
        let all = vm.metadata.annotations.as_ref();
        all.is_none_or(|all| !all.contains_key(RECREATE_VM_ANNOTATION))
    };
    world
        .until::<VirtualMachine>("my-vm", "is asked no more", closed)
        .await;
    world.delete::<infra::VirtualMachine>("my-vm").await;
    says(&world, "my-vm", "False", "VmMissing").await;
    world.delete::<VirtualMachine>("my-vm").await;
    world.gone::<VirtualMachine>("my-vm").await;
    assert!(kvm.vms().is_empty());
}

/// What is lost before there was a VM is made again, as at first.
#[tokio::test]
async fn a_virtual_machine_that_never_had_a_vm_is_made_again() {
    let (world, kvm) = furnished("nova-early").await;
    kvm.faults()
        .parse("fail=Create:Unavailable:1000")
        .expect("a rule");
    apply(&world, readme("my-vm", json!({}))).await;
    let there = |_: &infra::VirtualMachine| true;
    let first = world
        .until::<infra::VirtualMachine>("my-vm", "is there", there)
        .await;
    world.delete::<infra::VirtualMachine>("my-vm").await;
    let again = |vm: &infra::VirtualMachine| vm.metadata.uid != first.metadata.uid;
    world
        .until::<infra::VirtualMachine>("my-vm", "is made again", again)
        .await;
    kvm.faults().clear();
    stands(&world, "my-vm", "Running").await;
    assert_eq!(kvm.vms().len(), 1);
}

/// The loss is recorded before the VirtualMachine goes, so no death of the manager hides it.
#[tokio::test]
async fn a_manager_that_dies_while_a_vm_is_deleted_behind_its_object_replaces_nothing() {
    let (mut world, kvm) = furnished("nova-loss-deaths").await;
    let names: Vec<_> = (0..4).map(|n| format!("vm-{n}")).collect();
    for name in &names {
        apply(&world, readme(name, json!({}))).await;
    }
    for name in &names {
        stands(&world, name, "Running").await;
    }
    world.stop();
    for name in &names {
        world.delete::<infra::VirtualMachine>(name).await;
    }
    for life in 0..10 {
        let doomed = world.doomed();
        tokio::time::sleep(std::time::Duration::from_millis(60 + 45 * life)).await;
        drop(doomed);
    }
    world.start(|_| {}).await;
    for name in &names {
        world.gone::<infra::VirtualMachine>(name).await;
        says(&world, name, "False", "VmMissing").await;
    }
    assert!(kvm.vms().is_empty());
}

/// Deletions behind the owner, one after the other: none waits for more than the hypervisor takes.
#[tokio::test]
async fn a_deletion_behind_the_object_does_not_hang() {
    let (world, kvm) = furnished("nova-loss-again").await;
    apply(&world, readme("my-vm", json!({}))).await;
    for round in 0..6 {
        let id = id(&stands(&world, "my-vm", "Running").await);
        let begin = std::time::Instant::now();
        world.delete::<infra::VirtualMachine>("my-vm").await;
        world.gone::<infra::VirtualMachine>("my-vm").await;
        let took = begin.elapsed();
        assert!(
            took < std::time::Duration::from_secs(15),
            "round {round}: {took:?}"
        );
        says(&world, "my-vm", "False", "VmMissing").await;
        let ask = json!({"metadata": {"annotations": {RECREATE_VM_ANNOTATION: id}}});
        patch(&world, "my-vm", ask).await;
    }
    stands(&world, "my-vm", "Running").await;
    assert_eq!(kvm.vms().len(), 1);
}
