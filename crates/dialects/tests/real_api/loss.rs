//! A VM that is deleted behind its Machine is reported and never replaced by itself.

use polyvirt_api::infra::VirtualMachine;
use polyvirt_api::names::RECREATE_VM_ANNOTATION;
use polyvirt_api::vitistack::Machine;
use serde_json::json;

use crate::world::{World, condition, machine, pair};

fn id(machine: &Machine) -> String {
    let id = machine.status.as_ref().and_then(|s| s.machine_id.clone());
    id.unwrap_or_else(|| panic!("no id in {machine:?}"))
}

#[tokio::test]
async fn a_vm_that_was_deleted_behind_its_machine_is_reported_and_not_replaced() {
    let (mut world, east) = World::furnished("loss").await;
    world
        .apply(machine("web", json!({"template": "small"})))
        .await;
    let first = id(&world.machine("web", "Running").await);
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    let lost = world.fails("web", "VmMissing").await;
    assert_eq!(condition(&lost, "Ready"), pair("False", "VmMissing"));
    assert_eq!(id(&lost), first);
    let message = lost.status.as_ref().and_then(|s| s.message.clone());
    let remedy = format!("{RECREATE_VM_ANNOTATION}={first}");
    assert!(
        message.as_ref().is_some_and(|m| m.contains(&remedy)),
        "{message:?}"
    );
    world.told::<Machine>("web", "VmMissing").await;

    world.stop();
    world.start(|_| {}).await;
    world
        .merge::<Machine>("web", json!({"metadata": {"labels": {"edited": "yes"}}}))
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    world.fails("web", "VmMissing").await;
    assert!(east.vms().is_empty());

    let ask = json!({"metadata": {"annotations": {RECREATE_VM_ANNOTATION: first}}});
    world.merge::<Machine>("web", ask).await;
    let again = world.machine("web", "Running").await;
    assert_ne!(id(&again), first);
    world.delete::<VirtualMachine>("web").await;
    world.fails("web", "VmMissing").await;
    world.delete::<Machine>("web").await;
    world.gone::<Machine>("web").await;
    assert!(east.vms().is_empty());
}
