//! What is wrong is told by its name, and is over when it is put right.

use polyvirt_api::infra::VirtualMachine;
use polyvirt_api::vitistack::{Machine, NetworkConfiguration};
use serde_json::json;

use crate::world::{World, condition, machine, pair};

#[tokio::test]
async fn a_template_that_does_not_exist() {
    let (world, east) = World::furnished("no-template").await;
    world
        .apply(machine("web", json!({"template": "huge"})))
        .await;
    let failed = world.fails("web", "TemplateNotFound").await;
    assert_eq!(
        failed.status.as_ref().unwrap().phase.as_deref(),
        Some("Failed")
    );
    assert_eq!(
        condition(&failed, "Ready"),
        pair("False", "TemplateNotFound")
    );
    assert!(east.vms().is_empty());
    world
        .merge::<Machine>("web", json!({"spec": {"template": "small"}}))
        .await;
    let runs = world.machine("web", "Running").await;
    assert_eq!(runs.status.unwrap().failure_message, None);
}

#[tokio::test]
async fn a_network_that_does_not_exist() {
    let (world, _east) = World::furnished("no-network").await;
    let networks = json!([{"name": "eth0", "networkName": "prod", "model": "virtio"}]);
    world
        .apply(machine(
            "web",
            json!({"template": "small", "networks": networks}),
        ))
        .await;
    let failed = world.fails("web", "NetworkConfigurationNotFound").await;
    assert_eq!(
        condition(&failed, "NetworkReady"),
        pair("False", "NetworkFailed")
    );
    let network = json!({"metadata": {"name": "prod"}, "spec": {"name": "prod", "vlan": 7}});
    world
        .apply(serde_json::from_value::<NetworkConfiguration>(network).unwrap())
        .await;
    world.machine("web", "Running").await;
}

#[tokio::test]
async fn a_virtual_machine_of_somebody_else_is_not_taken_over() {
    let (world, east) = World::furnished("conflict").await;
    let spec = json!({
        "providerRef": {"name": "east"},
        "class": {"cpu": 1, "memory": "1Gi"},
        "image": {"blank": {}},
    });
    let object = json!({"metadata": {"name": "web"}, "spec": spec});
    let theirs: VirtualMachine = serde_json::from_value(object).unwrap();
    let theirs = world.apply(theirs).await;
    world
        .apply(machine("web", json!({"template": "large"})))
        .await;
    let failed = world.fails("web", "NameConflict").await;
    assert_eq!(condition(&failed, "Ready"), pair("False", "NameConflict"));
    let now = world.vm("web").await;
    assert_eq!(
        (now.spec, now.metadata.owner_references),
        (theirs.spec, None)
    );
    world.delete::<VirtualMachine>("web").await;
    world.machine("web", "Running").await;
    assert_eq!((east.vms().len(), east.vms()[0].cpu), (1, 4));
}

#[tokio::test]
async fn a_wrong_edit_leaves_the_vm_running() {
    let (world, east) = World::furnished("wrong-edit").await;
    world
        .apply(machine("web", json!({"template": "small"})))
        .await;
    world.machine("web", "Running").await;
    world
        .merge::<Machine>("web", json!({"spec": {"template": "huge"}}))
        .await;
    let told = world.fails("web", "TemplateNotFound").await;
    assert_eq!(told.status.unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(east.vms().len(), 1);
}

#[tokio::test]
async fn a_config_map_that_does_not_exist_is_waited_for() {
    let (world, _east) = World::furnished("no-map").await;
    let data = json!({"userDataConfigMapRef": {"name": "seed", "key": "userdata"}});
    world
        .apply(machine(
            "web",
            json!({"template": "small", "cloudInit": data}),
        ))
        .await;
    let waits = world.fails("web", "WaitingForDependencies").await;
    let status = waits.status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    assert!(
        status
            .message
            .unwrap()
            .contains("There is no ConfigMap seed")
    );
    let map = json!({"metadata": {"name": "seed"}, "data": {"userdata": "#cloud-config\n{}\n"}});
    world
        .apply(serde_json::from_value::<k8s_openapi::api::core::v1::ConfigMap>(map).unwrap())
        .await;
    world.machine("web", "Running").await;
}

#[tokio::test]
async fn a_name_as_long_as_they_get_is_the_name_of_a_vm_too() {
    let (world, east) = World::furnished("long").await;
    let (one, two) = ("x".repeat(62) + "1", "x".repeat(62) + "2");
    for name in [&one, &two] {
        world
            .apply(machine(name, json!({"template": "small"})))
            .await;
    }
    let mut names = Vec::new();
    for name in [&one, &two] {
        let runs = world.machine(name, "Running").await;
        let vm = runs.status.unwrap().vm_name.unwrap();
        assert!(vm.starts_with("vm-xxx") && vm.len() <= 63, "{vm}");
        names.push(vm);
    }
    assert_ne!(names[0], names[1]);
    assert_eq!(east.vms().len(), 2);
    let wrong = "a.".repeat(20) + "b";
    world
        .apply(machine(&wrong, json!({"template": "small"})))
        .await;
    let failed = world.fails(&wrong, "InvalidSpec").await;
    let text = failed.status.unwrap().message.unwrap();
    assert!(text.contains("Make a Machine of another name"), "{text}");
}
