//! Size, disks and networks of a VM that is there.

use polyvirt_api::infra::{VMClass, VirtualMachine};
use polyvirt_api::names;
use polyvirt_contract::model::VmState;
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{Mock, MockConfig, Resize, TaskMode};
use serde_json::json;

use crate::support::look::{condition, field, runs, stands};
use crate::support::{World, message, network, reason, vm};

fn only(mock: &Mock) -> VmState {
    mock.vms().remove(0)
}

fn size(mock: &Mock) -> (u32, u64) {
    let vm = only(mock);
    (vm.cpu, vm.memory_mib)
}

fn disks(mock: &Mock) -> Vec<(String, u32)> {
    let disks = only(mock).disks.unwrap_or_default();
    disks.into_iter().map(|d| (d.name, d.size_gib)).collect()
}

fn cards(mock: &Mock) -> Vec<String> {
    let cards = only(mock).nics.unwrap_or_default();
    cards.into_iter().map(|nic| nic.name).collect()
}

fn needs_restart(vm: &VirtualMachine) -> bool {
    condition(vm, "RestartRequired").is_some_and(|c| c.status == "True")
}

#[tokio::test]
async fn own_resources_go_before_those_of_the_class() {
    let (world, mock) = World::furnished("resources", MockConfig::default()).await;
    let resources = json!({"cpu": 3, "memoryMiB": 3072});
    world
        .create(vm("web").spec(json!({ "resources": resources })))
        .await;
    let vm = world.vm("web", "runs", runs).await;
    assert_eq!(size(&mock), (3, 3072));
    let current = vm
        .status
        .and_then(|s| s.current_resources)
        .expect("resources");
    assert_eq!((current.cpu, current.memory_mib), (Some(3), Some(3072)));
}

#[tokio::test]
async fn a_stopped_vm_changes_its_size_at_once() {
    let (world, mock) = World::furnished("resize-off", MockConfig::default()).await;
    world
        .create(vm("web").spec(json!({"powerState": "Off"})))
        .await;
    world.vm("web", "is off", stands).await;
    world
        .edit_spec("web", json!({"resources": {"cpu": 1, "memoryMiB": 512}}))
        .await;
    let vm = world.vm("web", "is off", stands).await;
    assert_eq!(size(&mock), (1, 512));
    assert!(!needs_restart(&vm));
    world.told("web", Reason::Reconfigured).await;
}

#[tokio::test]
async fn a_running_vm_says_that_it_needs_a_restart_and_is_not_restarted_by_us() {
    let (world, mock) = World::furnished("resize-on", MockConfig::default()).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    world
        .edit_spec("web", json!({"resources": {"cpu": 4, "memoryMiB": 4096}}))
        .await;
    let vm = world
        .vm("web", "says so", |vm| runs(vm) && needs_restart(vm))
        .await;
    let text = &condition(&vm, "RestartRequired").expect("told").message;
    assert!(
        text.contains("spec.resources.cpu, spec.resources.memoryMiB"),
        "{text}"
    );
    assert_eq!(
        vm.status.clone().unwrap_or_default().restart_required.len(),
        2
    );
    assert_eq!((size(&mock), field(&vm, "boots")), ((2, 2048), "1"));
    world
        .annotate("web", names::REBOOT_ANNOTATION, "for the size")
        .await;
    let vm = world
        .vm("web", "has its size", |vm| runs(vm) && !needs_restart(vm))
        .await;
    assert_eq!((size(&mock), field(&vm, "boots")), ((4, 4096), "2"));
}

#[tokio::test]
async fn a_vm_is_restarted_by_us_where_its_policy_says_so() {
    for tasks in [TaskMode::Immediate, TaskMode::Async] {
        let config = MockConfig {
            tasks,
            ..MockConfig::default()
        };
        let (world, mock) = World::furnished("restart", config).await;
        let policy = json!({"restart": "WhenNeeded"});
        world
            .create(vm("web").spec(json!({ "reconfigurePolicy": policy })))
            .await;
        world.vm("web", "runs", runs).await;
        world
            .edit_spec("web", json!({"resources": {"cpu": 4}}))
            .await;
        let done = |vm: &VirtualMachine| runs(vm) && field(vm, "boots") == "2";
        let vm = world.vm("web", "has been restarted", done).await;
        assert_eq!(size(&mock), (4, 2048));
        assert!(!needs_restart(&vm));
        world.told("web", Reason::Rebooting).await;
    }
}

#[tokio::test]
async fn a_hypervisor_that_grows_a_running_vm_needs_no_restart() {
    let config = MockConfig {
        resize: Resize::Online,
        ..MockConfig::default()
    };
    let (world, mock) = World::furnished("online", config).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    world
        .edit_spec("web", json!({"resources": {"cpu": 4, "memoryMiB": 4096}}))
        .await;
    let vm = world.vm("web", "runs", runs).await;
    assert_eq!((size(&mock), field(&vm, "boots")), ((4, 4096), "1"));
    assert!(!needs_restart(&vm));
}

#[tokio::test]
async fn an_edited_class_reaches_the_vms_that_use_it() {
    let (world, mock) = World::furnished("class-edit", MockConfig::default()).await;
    world
        .create(vm("web").spec(json!({"powerState": "Off"})))
        .await;
    world.vm("web", "is off", stands).await;
    world
        .edit::<VMClass>("small", json!({"spec": {"cpu": 6}}))
        .await;
    let changed = |vm: &VirtualMachine| {
        let current = vm
            .status
            .as_ref()
            .and_then(|s| s.current_resources.as_ref());
        stands(vm) && current.and_then(|c| c.cpu) == Some(6)
    };
    world.vm("web", "has the new size", changed).await;
    assert_eq!(size(&mock), (6, 2048));
}

#[tokio::test]
async fn disks_are_added_grown_and_removed() {
    let (world, mock) = World::furnished("disks", MockConfig::default()).await;
    world
        .create(vm("web").spec(json!({"disks": [{"name": "a", "sizeGiB": 5}]})))
        .await;
    world.vm("web", "runs", runs).await;
    assert_eq!(disks(&mock), [("a".to_owned(), 5)]);
    let both =
        json!([{"name": "a", "sizeGiB": 9, "expandPolicy": "Online"}, {"name": "b", "sizeGiB": 2}]);
    world.edit_spec("web", json!({ "disks": both })).await;
    world.vm("web", "runs", runs).await;
    assert_eq!(disks(&mock), [("a".to_owned(), 9), ("b".to_owned(), 2)]);
    world
        .edit_spec("web", json!({"disks": [{"name": "b", "sizeGiB": 2}]}))
        .await;
    world.vm("web", "runs", runs).await;
    assert_eq!(disks(&mock), [("b".to_owned(), 2)]);
}

#[tokio::test]
async fn a_disk_that_grows_only_offline_waits_for_the_restart() {
    let (world, mock) = World::furnished("disk-offline", MockConfig::default()).await;
    let disk = |gib: i32| json!([{"name": "a", "sizeGiB": gib, "expandPolicy": "Offline"}]);
    world
        .create(vm("web").spec(json!({"disks": disk(5)})))
        .await;
    world.vm("web", "runs", runs).await;
    world.edit_spec("web", json!({"disks": disk(9)})).await;
    let vm = world
        .vm("web", "says so", |vm| runs(vm) && needs_restart(vm))
        .await;
    let text = &condition(&vm, "RestartRequired").expect("told").message;
    assert!(text.contains("spec.disks"), "{text}");
    world.edit_spec("web", json!({"powerState": "Off"})).await;
    let vm = world.vm("web", "is off", stands).await;
    assert_eq!(disks(&mock), [("a".to_owned(), 9)]);
    assert!(!needs_restart(&vm));
}

#[tokio::test]
async fn networks_are_added_and_removed() {
    let (world, mock) = World::furnished("networks", MockConfig::default()).await;
    world.create(network("lan")).await;
    world.create(network("dmz")).await;
    let card = |name: &str, to: &str| json!({"name": name, "networkRef": {"name": to}});
    world
        .create(vm("web").spec(json!({"networks": [card("eth0", "lan")]})))
        .await;
    let vm = world.vm("web", "runs", runs).await;
    assert_eq!(
        (cards(&mock), field(&vm, "networks")),
        (vec!["eth0".to_owned()], "eth0=lan")
    );
    let both = json!([card("eth0", "lan"), card("eth1", "dmz")]);
    world.edit_spec("web", json!({ "networks": both })).await;
    world.vm("web", "runs", runs).await;
    assert_eq!(cards(&mock), ["eth0", "eth1"]);
    world
        .edit_spec("web", json!({"networks": [card("eth1", "dmz")]}))
        .await;
    world.vm("web", "runs", runs).await;
    assert_eq!(cards(&mock), ["eth1"]);
}

#[tokio::test]
async fn a_disk_that_is_to_shrink_is_refused_at_once_and_the_vm_stays_as_it_is() {
    let (world, mock) = World::furnished("shrink", MockConfig::default()).await;
    world
        .create(vm("web").spec(json!({"disks": [{"name": "a", "sizeGiB": 9}]})))
        .await;
    world.vm("web", "runs", runs).await;
    let smaller = json!({"spec": {"disks": [{"name": "a", "sizeGiB": 5}]}});
    let refused = world.try_edit::<VirtualMachine>("web", smaller).await;
    let text = refused.expect_err("refused").to_string();
    assert!(text.contains("never shrink"), "{text}");
    assert_eq!(disks(&mock), [("a".to_owned(), 9)]);
}

#[tokio::test]
async fn a_change_that_the_hypervisor_refuses_is_told_with_its_field_and_the_vm_runs_on() {
    let (world, mock) = World::furnished("refused", MockConfig::default()).await;
    let root = |gib: &str| json!({"spec": {"diskDefaults": {"type": "thin", "size": gib}}});
    world.edit::<VMClass>("small", root("20Gi")).await;
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    world.edit::<VMClass>("small", root("10Gi")).await;
    world
        .edit_spec("web", json!({"resources": {"cpu": 4}}))
        .await;
    let refused = |vm: &VirtualMachine| reason(vm) == Reason::InvalidRequest.as_str();
    let vm = world.vm("web", "tells of the refusal", refused).await;
    assert!(
        message(&vm).starts_with("class.diskDefaults.size: "),
        "{}",
        message(&vm)
    );
    assert_eq!(
        crate::support::phase(&vm),
        Some(polyvirt_api::infra::VMPhase::Running)
    );
    world.edit::<VMClass>("small", root("20Gi")).await;
    world
        .vm("web", "heals by itself", |vm| runs(vm) && needs_restart(vm))
        .await;
    assert_eq!(size(&mock), (2, 2048));
}
