//! What people do on the hypervisor behind our back: always told, corrected only where the policy says so.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Event as CoreEvent;
use polyvirt_api::infra::{RestartReason, VMPhase, VirtualMachine};
use polyvirt_contract::model::PowerState;
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{Happened, MockConfig};
use serde_json::json;

use crate::support::events::Told;
use crate::support::look::{condition, id, ready, runs, says};
use crate::support::world::{PATIENCE, eventually};
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

async fn corrections(world: &World) -> usize {
    let events = world.events("web").await;
    let corrected = |event: &&Told| event.reason == Reason::DriftCorrected.as_str();
    events.iter().filter(corrected).count()
}

fn last_restart(vm: &VirtualMachine) -> Option<RestartReason> {
    let status = vm.status.as_ref()?;
    Some(status.last_restart.as_ref()?.reason)
}

fn was_corrected(vm: &VirtualMachine) -> bool {
    let last = vm.status.as_ref().and_then(|s| s.last_correction.as_ref());
    ready(vm) && last.is_some_and(|last| last.corrected.is_some())
}

#[tokio::test]
async fn a_crash_that_is_corrected_is_reported_once() {
    let (world, mock) = World::furnished("report-crash", MockConfig::default()).await;
    world
        .create(vm("web").spec(json!({"driftPolicy": {"power": "Correct"}})))
        .await;
    let before = world.vm("web", "runs", runs).await;
    assert_eq!(last_restart(&before), None);
    mock.out_of_band().power_off(&id(&before)).expect("stopped");
    let after = world.vm("web", "was corrected", was_corrected).await;
    assert_eq!(last_restart(&after), Some(RestartReason::DriftCorrected));
    let event = world.told("web", Reason::DriftCorrected).await;
    assert!(event.warning);
    assert!(event.note.contains("powerState is Off instead of On"));
    assert!(world.told("web", Reason::DriftDetected).await.warning);
    assert_eq!(corrections(&world).await, 1);
    assert!(condition(&after, "Drifted").is_none());
    assert!(runs(&after));
    let counted = || {
        let metrics = world.metrics();
        let mut lines = metrics.lines();
        lines.any(|l| {
            l.starts_with("virtrigaud_vm_drift_corrections_total{kind=\"power\"")
                && l.ends_with(" 1")
        })
    };
    eventually("it is counted", counted).await;
}

#[tokio::test]
async fn a_size_and_a_deletion_that_are_corrected_are_reported() {
    let (world, mock) = World::furnished("report-size", MockConfig::default()).await;
    let policy = json!({"driftPolicy": {"size": "Correct", "deletion": "Recreate"}, "reconfigurePolicy": {"restart": "WhenNeeded"}});
    world.create(vm("web").spec(policy)).await;
    let first = world.vm("web", "runs", runs).await;
    mock.out_of_band()
        .resize(&id(&first), 7, 7168)
        .expect("resized");
    world.vm("web", "was corrected", was_corrected).await;
    let event = world.told("web", Reason::DriftCorrected).await;
    assert!(
        event.note.contains("resources.cpu is 7 instead of 2"),
        "{}",
        event.note
    );
    mock.out_of_band().delete(&id(&first)).expect("deleted");
    let another = |vm: &VirtualMachine| was_corrected(vm) && id(vm) != id(&first);
    let second = world.vm("web", "is another VM", another).await;
    assert_eq!(last_restart(&second), Some(RestartReason::Recreated));
}

#[tokio::test]
async fn our_own_power_changes_are_not_reported_as_corrections() {
    let (world, _mock) = World::furnished("own-power", MockConfig::default()).await;
    world
        .create(vm("web").spec(json!({"driftPolicy": {"power": "Correct"}})))
        .await;
    world.vm("web", "runs", runs).await;
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    world
        .vm("web", "is off", crate::support::look::stands)
        .await;
    world.edit_spec("web", json!({"powerState": "On"})).await;
    let vm = world.vm("web", "runs again", runs).await;
    let status = vm.status.expect("a status");
    assert_eq!(status.last_correction, None);
    assert_eq!(status.last_restart, None);
    assert_eq!(corrections(&world).await, 0);
}

/// The events of a reason about the VM, as the core API shows them.
async fn core_events(world: &World, reason: Reason) -> Vec<CoreEvent> {
    let events: Vec<CoreEvent> = world.list().await;
    let of_reason = |event: &CoreEvent| event.reason.as_deref() == Some(reason.as_str());
    events.into_iter().filter(of_reason).collect()
}

#[tokio::test]
async fn repeated_events_are_one_series_in_both_forms_across_restarts() {
    let (mut world, mock) = World::furnished("repeated", MockConfig::default()).await;
    world
        .create(vm("web").spec(json!({"driftPolicy": {"power": "Correct"}})))
        .await;
    let id = id(&world.vm("web", "runs", runs).await);
    for crash in 1..=3 {
        if crash == 3 {
            world.stop().await;
            world.start().await;
        }
        mock.out_of_band().power_off(&id).expect("stopped");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let events = core_events(&world, Reason::DriftCorrected).await;
            // A window may end between two crashes.
            let total: i32 = events.iter().filter_map(|event| event.count).sum();
            if total == crash {
                assert!(events.len() <= 2, "{events:#?}");
                check_forms(&events);
                break;
            }
            assert!(Instant::now() < deadline, "crash {crash}: {events:#?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        world.vm("web", "runs", runs).await;
    }
}

fn check_forms(events: &[CoreEvent]) {
    for event in events {
        assert!(event.event_time.is_some() && event.first_timestamp.is_some());
        assert!(event.last_timestamp.is_some());
        let series = event.series.as_ref().and_then(|s| s.count);
        assert_eq!(series.unwrap_or(1), event.count.unwrap_or_default());
    }
}
