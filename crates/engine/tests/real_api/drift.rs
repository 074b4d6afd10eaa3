//! What people do on the hypervisor behind our back: always told, corrected only where the policy says so.

use polyvirt_api::infra::{VMPhase, VirtualMachine};
use polyvirt_contract::model::PowerState;
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{Happened, MockConfig};
use serde_json::json;

use crate::support::look::{condition, id, ready, runs, says};
use crate::support::world::eventually;
use crate::support::{World, message, phase, reason, vm};

fn drifted(vm: &VirtualMachine) -> bool {
    says(vm, "Drifted", "True", Reason::DriftDetected)
}

#[tokio::test]
async fn a_vm_that_somebody_stopped_is_told_and_left_off() {
    let (world, mock) = World::furnished("drift-power", MockConfig::default()).await;
    world.create(vm("web")).await;
    let id = id(&world.vm("web", "runs", runs).await);
    let before = mock.counts().mutations();
    mock.out_of_band().power_off(&id).expect("stopped");
    let vm = world.vm("web", "tells", drifted).await;
    assert!(
        message(&vm).contains("spec.powerState declares On"),
        "{}",
        message(&vm)
    );
    assert!(
        message(&vm).contains("spec.driftPolicy"),
        "it says what to do: {}",
        message(&vm)
    );
    assert_eq!(phase(&vm), Some(VMPhase::Stopped));
    assert!(world.told("web", Reason::DriftDetected).await.warning);
    world.reconciled_again("web").await;
    assert_eq!(mock.counts().mutations(), before, "nothing is corrected");
    mock.out_of_band().power_on(&id).expect("started");
    let vm = world.vm("web", "is fine again", runs).await;
    assert!(condition(&vm, "Drifted").is_none());
}

#[tokio::test]
async fn a_vm_that_somebody_stopped_is_started_where_the_policy_says_so() {
    let (world, mock) = World::furnished("correct-power", MockConfig::default()).await;
    world
        .create(vm("web").spec(json!({"driftPolicy": {"power": "Correct"}})))
        .await;
    let id = id(&world.vm("web", "runs", runs).await);
    mock.out_of_band().power_off(&id).expect("stopped");
    let started = || mock.vm(&id).is_some_and(|vm| vm.power == PowerState::On);
    eventually("it is started again", started).await;
    world.vm("web", "runs", runs).await;
}

#[tokio::test]
async fn a_vm_that_somebody_resized_is_told_and_left_so() {
    let (world, mock) = World::furnished("drift-size", MockConfig::default()).await;
    world.create(vm("web")).await;
    let id = id(&world.vm("web", "runs", runs).await);
    mock.out_of_band().resize(&id, 7, 7168).expect("resized");
    let vm = world.vm("web", "tells", drifted).await;
    let text = message(&vm);
    assert!(
        text.contains("spec.resources.cpu declares 2 but the hypervisor has 7"),
        "{text}"
    );
    assert!(text.contains("spec.resources.memoryMiB"), "{text}");
    let current = vm
        .status
        .clone()
        .and_then(|s| s.current_resources)
        .expect("resources");
    assert_eq!(
        (current.cpu, current.memory_mib),
        (Some(7), Some(7168)),
        "status tells the truth"
    );
    assert_eq!(mock.vm(&id).expect("there").cpu, 7);
}

#[tokio::test]
async fn a_vm_that_somebody_resized_is_brought_back_where_the_policy_says_so() {
    let (world, mock) = World::furnished("correct-size", MockConfig::default()).await;
    let spec =
        json!({"driftPolicy": {"size": "Correct"}, "reconfigurePolicy": {"restart": "WhenNeeded"}});
    world.create(vm("web").spec(spec)).await;
    let id = id(&world.vm("web", "runs", runs).await);
    mock.out_of_band().resize(&id, 7, 7168).expect("resized");
    let back = || {
        mock.vm(&id)
            .is_some_and(|vm| (vm.cpu, vm.memory_mib) == (2, 2048))
    };
    eventually("it has its size again", back).await;
    world.vm("web", "runs", runs).await;
}

#[tokio::test]
async fn a_vm_that_somebody_deleted_is_told_and_not_made_anew() {
    let (world, mock) = World::furnished("drift-gone", MockConfig::default()).await;
    world.create(vm("web")).await;
    let id = id(&world.vm("web", "runs", runs).await);
    mock.out_of_band().delete(&id).expect("deleted");
    let missing = |vm: &VirtualMachine| reason(vm) == Reason::VmMissing.as_str();
    let vm = world.vm("web", "tells", missing).await;
    assert_eq!(phase(&vm), Some(VMPhase::Failed));
    assert!(
        message(&vm).contains("spec.driftPolicy.deletion"),
        "{}",
        message(&vm)
    );
    assert!(vm.status.clone().unwrap_or_default().ips.is_empty());
    world.told("web", Reason::VmMissing).await;
    world.reconciled_again("web").await;
    assert!(mock.vms().is_empty(), "no blank VM takes its place");
    world
        .edit_spec("web", json!({"driftPolicy": {"deletion": "Recreate"}}))
        .await;
    world.vm("web", "runs again", runs).await;
    assert_eq!(mock.vms().len(), 1);
}

#[tokio::test]
async fn a_vm_that_somebody_deleted_is_made_anew_where_the_policy_says_so() {
    let (world, mock) = World::furnished("recreate", MockConfig::default()).await;
    world
        .create(vm("web").spec(json!({"driftPolicy": {"deletion": "Recreate"}})))
        .await;
    let first = id(&world.vm("web", "runs", runs).await);
    mock.out_of_band().delete(&first).expect("deleted");
    let another = |vm: &VirtualMachine| ready(vm) && id(vm) != first;
    world.vm("web", "is another VM", another).await;
    world.told("web", Reason::Recreating).await;
    let created = mock
        .journal()
        .iter()
        .filter(|e| e.what == Happened::Created)
        .count();
    assert_eq!((created, mock.vms().len()), (2, 1));
}

#[tokio::test]
async fn a_vm_that_somebody_renamed_stays_ours() {
    let (world, mock) = World::furnished("renamed", MockConfig::default()).await;
    world.create(vm("web")).await;
    let before = world.vm("web", "runs", runs).await;
    mock.out_of_band()
        .rename(&id(&before), "elsewhere")
        .expect("renamed");
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    let after = world
        .vm("web", "is off", crate::support::look::stands)
        .await;
    assert_eq!(id(&after), id(&before));
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    assert!(mock.vms().is_empty());
}
