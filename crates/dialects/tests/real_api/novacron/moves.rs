//! The annotation `novacron.io/migrate-to`.

use polyvirt_api::infra::VMMigration;

use super::*;
use crate::world::pair;

fn ask(node: Value) -> Value {
    json!({"metadata": {"annotations": {"novacron.io/migrate-to": node}}})
}

fn told(vm: &VirtualMachine) -> Option<(String, String)> {
    let migration = vm.status.as_ref()?.migration.clone()?;
    Some((migration.state?, migration.target_node?))
}

async fn completed(world: &World, node: &str) -> VirtualMachine {
    let wanted = ("completed".to_owned(), node.to_owned());
    let done = |vm: &VirtualMachine| told(vm).as_ref() == Some(&wanted);
    world.until("my-vm", "moved", done).await
}

fn elsewhere(kvm: &Mock) -> Vec<String> {
    let here = kvm.vms()[0].host.clone();
    let all = ["host-1", "host-2", "host-3"].into_iter();
    let others = all.filter(|name| *name != here);
    others.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_vm_moves_once_to_each_node_that_is_named() {
    let (world, kvm) = furnished("nova-move").await;
    let policy = json!({"allowLiveMigration": true, "encrypted": true, "bandwidth": "10Gbps"});
    let wanted = readme("my-vm", json!({"spec": {"migrationPolicy": policy}}));
    apply(&world, wanted).await;
    stands(&world, "my-vm", "Running").await;
    let others = elsewhere(&kvm);
    patch(&world, "my-vm", ask(json!(others[0]))).await;
    completed(&world, &others[0]).await;
    assert_eq!(kvm.vms()[0].host, others[0]);
    let made = world.get::<VMMigration>("my-vm-migrate").await;
    let live = made.spec.options.and_then(|o| o.live).unwrap();
    assert!(live.encrypted && live.bandwidth.as_deref() == Some("10Gbps"));
    patch(&world, "my-vm", ask(json!(others[1]))).await;
    completed(&world, &others[1]).await;
    assert_eq!(kvm.vms()[0].host, others[1]);
    patch(&world, "my-vm", ask(Value::Null)).await;
    world.gone::<VMMigration>("my-vm-migrate").await;
    let silent = |vm: &VirtualMachine| told(vm).is_none();
    world.until("my-vm", "tells of no move", silent).await;
    assert_eq!(kvm.vms()[0].host, others[1]);
}

#[tokio::test]
async fn a_vm_that_may_not_move_says_so_and_one_that_cannot_too() {
    let (world, kvm) = furnished("nova-stay").await;
    apply(&world, readme("my-vm", json!({}))).await;
    stands(&world, "my-vm", "Running").await;
    patch(&world, "my-vm", ask(json!("host-2"))).await;
    let refused = |vm: &VirtualMachine| {
        let all = vm.status.iter().flat_map(|s| &s.conditions);
        let mut live = all.filter(|c| c.type_ == "LiveMigratable");
        let text = live.next().and_then(|c| c.message.clone());
        text.is_some_and(|t| t.contains("host-2") && t.contains("allowLiveMigration"))
    };
    let vm = world.until("my-vm", "says why it stays", refused).await;
    assert_eq!(
        condition(&vm, "LiveMigratable"),
        pair("False", "MigrationDisabled")
    );
    world.gone::<VMMigration>("my-vm-migrate").await;
    let policy = json!({"spec": {"migrationPolicy": {"allowLiveMigration": true}}});
    patch(&world, "my-vm", ask(json!("atlantis"))).await;
    patch(&world, "my-vm", policy).await;
    let vm = says(&world, "my-vm", "True", "MigrationFailed").await;
    assert_eq!(
        told(&vm),
        Some(("failed".to_owned(), "atlantis".to_owned()))
    );
    assert_eq!(kvm.vms().len(), 1);
}
