//! A foreign provider that knows only `provider.v1`: no identities, no stream, and still one VM each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use polyvirt_api::infra::{Provider, VirtualMachine};
use polyvirt_contract::model::PowerState;
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{Happened, Mock, MockConfig, Offer, Rpc, TaskMode, Times};
use serde_json::json;

use crate::support::fleet::Route;
use crate::support::look::{id, runs, says, stands};
use crate::support::rest::settled;
use crate::support::wire::{Services, WireServer};
use crate::support::world::{HYPERVISOR, eventually};
use crate::support::{World, message, reason, vm};

async fn foreign(topic: &str, tasks: TaskMode) -> (World, Arc<Mock>, WireServer) {
    let times = match tasks {
        TaskMode::Immediate => Times::default(),
        TaskMode::Async => Times {
            create: Duration::from_millis(300),
            delete: Duration::from_millis(300),
            ..Times::default()
        },
    };
    let config = MockConfig {
        offer: Offer::Basic,
        tasks,
        times,
        ..MockConfig::default()
    };
    let mut world = World::empty(topic).await;
    let mock = world.furnish(config).await;
    let server = WireServer::start(mock.clone(), Services::Basic);
    world
        .fleet
        .put(HYPERVISOR, Route::Wire(server.address.to_string()));
    world.start().await;
    (world, mock, server)
}

async fn a_whole_life(tasks: TaskMode) {
    let (world, mock, _server) = foreign("basic", tasks).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    assert_eq!(mock.vms().len(), 1);
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    world.vm("web", "is off", stands).await;
    world
        .edit_spec("web", json!({"resources": {"cpu": 4}}))
        .await;
    eventually("it has its size", || mock.vms()[0].cpu == 4).await;
    world.vm("web", "is off", stands).await;
    world.edit_spec("web", json!({"powerState": "On"})).await;
    world.vm("web", "runs", runs).await;
    assert_eq!(mock.vms()[0].power, PowerState::On);
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    assert!(mock.vms().is_empty());
    let created = mock
        .journal()
        .iter()
        .filter(|e| e.what == Happened::Created)
        .count();
    assert_eq!(created, 1);
}

#[tokio::test]
async fn a_vm_lives_its_whole_life_on_a_foreign_provider() {
    a_whole_life(TaskMode::Immediate).await;
}

#[tokio::test]
async fn a_vm_lives_its_whole_life_on_a_foreign_provider_that_answers_with_tasks() {
    a_whole_life(TaskMode::Async).await;
}

/// Only a list tells sizes, and the next one is an hour away.
#[tokio::test]
async fn an_edit_does_not_wait_for_the_next_list_of_a_foreign_provider() {
    let (world, mock, _server) = foreign("edit", TaskMode::Async).await;
    let rarely = json!({"spec": {"healthCheck": {"interval": "1h"}}});
    world.edit::<Provider>(HYPERVISOR, rarely).await;
    let connected = |p: &Provider| says(p, "Ready", "True", Reason::Connected);
    world.until(HYPERVISOR, "is connected", connected).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    let size = json!({"resources": {"cpu": 4, "memoryMiB": 4096}});
    world.edit_spec("web", size).await;
    // Describe reports the CPUs that the VM runs with: two, until it restarts.
    let has = |vm: &VirtualMachine| {
        let status = vm.status.clone().unwrap_or_default();
        let applied = status.applied.and_then(|applied| applied.cpu);
        let waits = !status.restart_required.is_empty();
        runs(vm) && applied == Some(4) && waits
    };
    world.vm("web", "has its size", has).await;
    assert_eq!(mock.counts().of(Rpc::Reconfigure).mutations, 1);
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    world.vm("web", "is off", stands).await;
}

#[tokio::test]
async fn a_foreign_provider_says_that_it_has_no_extensions() {
    let (world, _mock, _server) = foreign("plain", TaskMode::Immediate).await;
    let connected = |p: &Provider| says(p, "Ready", "True", Reason::Connected);
    let object = world.until(HYPERVISOR, "is connected", connected).await;
    let status = object.status.unwrap_or_default();
    assert!(status.features.is_empty());
    assert!(
        !status.honoured_fields.is_empty(),
        "what any such provider honours is known"
    );
}

#[tokio::test]
async fn a_create_whose_answer_is_lost_makes_one_vm_without_identities() {
    let (world, mock, _server) = foreign("lost", TaskMode::Immediate).await;
    let connected = |p: &Provider| says(p, "Ready", "True", Reason::Connected);
    world.until(HYPERVISOR, "is connected", connected).await;
    mock.faults().parse("lose=Create:1").expect("a rule");
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    assert_eq!(
        (mock.vms().len(), mock.counts().of(Rpc::Create).mutations),
        (1, 1)
    );
}

#[tokio::test]
async fn a_stranger_of_the_same_name_is_not_taken_over_without_identities() {
    let (world, mock, _server) = foreign("stranger", TaskMode::Immediate).await;
    let stranger = mock.out_of_band().create_stranger("web").expect("created");
    let before = mock.vm(&stranger);
    world
        .create(vm("web").spec(json!({"powerState": "On"})))
        .await;
    let conflict = |vm: &VirtualMachine| ["IdentityConflict", "NameConflict"].contains(&reason(vm));
    let object = world.vm("web", "conflicts", conflict).await;
    assert!(
        message(&object).starts_with("metadata.name: "),
        "{}",
        message(&object)
    );
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    assert_eq!(mock.vm(&stranger), before);
}

#[tokio::test]
async fn what_people_do_on_a_foreign_hypervisor_is_seen_at_the_next_sweep() {
    let (world, mock, _server) = foreign("sweep", TaskMode::Immediate).await;
    world.create(vm("web")).await;
    let id = id(&world.vm("web", "runs", runs).await);
    mock.out_of_band().power_off(&id).expect("stopped");
    let drifted = |vm: &VirtualMachine| reason(vm) == Reason::DriftDetected.as_str();
    world.vm("web", "tells", drifted).await;
    mock.out_of_band().delete(&id).expect("deleted");
    let missing = |vm: &VirtualMachine| reason(vm) == Reason::VmMissing.as_str();
    world.vm("web", "tells", missing).await;
}

#[tokio::test]
async fn a_foreign_provider_costs_one_list_an_interval_however_many_vms_it_has() {
    let (world, mock, _server) = foreign("sweep-cost", TaskMode::Immediate).await;
    for number in 0..10 {
        world.create(vm(&format!("vm-{number}"))).await;
    }
    for number in 0..10 {
        world.vm(&format!("vm-{number}"), "runs", runs).await;
    }
    let others = || mock.counts().calls() - mock.counts().of(Rpc::ListVMs).calls;
    settled("nothing but lists is asked for", others).await;
    mock.reset_counts();
    let begin = Instant::now();
    let lists = || mock.counts().of(Rpc::ListVMs).calls;
    eventually("it is listed", || lists() >= 3).await;
    let counts = mock.counts();
    let most = 2 + begin.elapsed().as_secs();
    assert!(counts.of(Rpc::ListVMs).calls <= most, "{counts:?}");
    assert_eq!(counts.calls(), counts.of(Rpc::ListVMs).calls, "{counts:?}");
}

/// P7: each create has to know whether its name is free, and one list tells all that wait.
#[tokio::test]
async fn one_list_of_a_foreign_provider_serves_all_creates_that_wait() {
    const VMS: u64 = 40;
    let (world, mock, _server) = foreign("shared-list", TaskMode::Immediate).await;
    mock.faults().parse("latency=200ms").expect("a rule");
    mock.reset_counts();
    let begin = Instant::now();
    for number in 0..VMS {
        world.create(vm(&format!("vm-{number}"))).await;
    }
    for number in 0..VMS {
        world.vm(&format!("vm-{number}"), "runs", runs).await;
    }
    // Once a second all are listed anyway.
    let swept = 1 + begin.elapsed().as_secs();
    let lists = mock.counts().of(Rpc::ListVMs).calls;
    assert!(
        lists <= VMS / 2 + swept,
        "{lists} lists, {swept} of them sweeps"
    );
}
