//! Every way in which a Machine is written ends in a VM that runs.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, Patch, PatchParams};
use polyvirt_api::infra::VirtualMachine;
use polyvirt_api::kubevirt::KubevirtOptions;
use polyvirt_api::vitistack::{
    KubevirtConfig, MACHINE_FINALIZER, Machine, MachineClass, NetworkConfiguration,
};
use serde_json::{Value, json};

use crate::world::{World, condition, machine, pair};

fn options(vm: &VirtualMachine) -> Value {
    let class = vm.spec.class.as_ref().unwrap();
    let options = KubevirtOptions::of(&class.extra_config).unwrap();
    serde_json::to_value(options).unwrap()
}

fn network(name: &str, vlan: &str) -> NetworkConfiguration {
    let spec = json!({"name": name, "networkInterfaces": [{"name": "eth0", "vlan": vlan}]});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

#[tokio::test]
async fn a_template_is_all_that_is_needed() {
    let (world, east) = World::furnished("template").await;
    world
        .apply(machine("web", json!({"template": "medium"})))
        .await;
    let found = world.machine("web", "Running").await;
    let status = found.status.clone().unwrap();
    assert_eq!(status.vm_name.as_deref(), Some("vm-web"));
    assert_eq!(status.vmi_name.as_deref(), Some("vm-web"));
    assert_eq!(status.kubevirt_config_ref.as_deref(), Some("east"));
    assert_eq!(status.disks[0].pvc_name.as_deref(), Some("web-root"));
    let id = format!("kubevirt://east/{}/vm-web", world.namespace);
    assert_eq!(status.provider_id, Some(id));
    let annotations = found.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["vitistack.io/kubevirt-config"], "east");
    assert_eq!(
        found.metadata.finalizers,
        Some(vec![MACHINE_FINALIZER.to_owned()])
    );
    for (kind, expected) in [
        ("Ready", pair("True", "ReconcileSuccess")),
        ("VirtualMachineReady", pair("True", "VMCreated")),
        ("StorageReady", pair("True", "PVCBound")),
        ("NetworkReady", pair("True", "NetworkConfigured")),
    ] {
        assert_eq!(condition(&found, kind), expected, "{kind}");
    }
    let vm = world.vm("web").await;
    assert_eq!(vm.spec.class.as_ref().unwrap().cpu, 2);
    assert_eq!(options(&vm)["rootDisk"]["claim"], "web-root");
    let owner = &vm.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (owner.kind.as_str(), Some(&owner.uid)),
        ("Machine", found.metadata.uid.as_ref())
    );
    let interfaces = world.get::<NetworkConfiguration>("web").await;
    let mac = interfaces.spec.network_interfaces[0].mac_address.clone();
    assert!(mac.is_some());
    assert_eq!(vm.spec.networks[0].mac_address, mac);
    assert_eq!(east.vms().len(), 1);
}

#[tokio::test]
async fn every_field_at_once() {
    let (world, east) = World::furnished("every").await;
    world.apply(network("prod", "100")).await;
    world.apply(network("legacy", "0")).await;
    let secret =
        json!({"metadata": {"name": "machine-secrets"}, "stringData": {"mine": "#!/bin/sh\n"}});
    world
        .apply(serde_json::from_value::<Secret>(secret).unwrap())
        .await;
    world
        .apply(machine("full", json!({
            "template": "large",
            "resources": {"cpu": {"cores": 4, "threads": 2, "sockets": 1}, "memory": {"size": "16Gi"}},
            "disks": [
                {"name": "root", "size": "20Gi", "storageClass": "fast", "accessMode": "ReadWriteOnce", "volumeMode": "Filesystem"},
                {"name": "shared", "size": "100Gi", "storageClass": "nfs", "accessMode": "ReadWriteMany", "volumeMode": "Block"},
            ],
            "networks": [
                {"name": "eth0", "networkName": "prod", "model": "virtio", "macAddress": "52:54:00:12:34:56"},
                {"name": "eth1", "networkName": "legacy", "model": "e1000"},
            ],
            "bootOrder": ["disk", "network", "cdrom"],
            "cloudInit": {
                "userData": "#cloud-config\n",
                "networkData": "version: 2\n",
                "secretRef": {"name": "machine-secrets", "key": "mine"},
            },
            "domain": {
                "machine": {"type": "pc-q35"},
                "features": {"acpi": true, "apic": true, "hyperv": false},
                "firmware": {"bootloader": {"efi": true, "secureBoot": true}},
            },
        })))
        .await;
    world.machine("full", "Running").await;
    let seen = options(&world.vm("full").await);
    assert_eq!(
        seen["topology"],
        json!({"sockets": 1, "cores": 4, "threads": 2})
    );
    assert_eq!(seen["networks"]["eth0"]["attachment"]["name"], "vlan100");
    assert_eq!(seen["disks"]["shared"]["claim"], "full-shared");
    let made = &east.vms()[0];
    assert_eq!((made.cpu, made.memory_mib), (8, 16 * 1024));
}

#[tokio::test]
async fn an_instance_type_and_a_class_are_sizes_too() {
    let (world, east) = World::furnished("sizes").await;
    let name = format!("class-{}", world.namespace);
    let class = json!({
        "apiVersion": "vitistack.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": {"name": name},
        "spec": {"cpu": {"cores": 3}, "memory": {"quantity": "3Gi"}, "machineProviders": ["kubevirt"]},
    });
    world
        .apply(machine("b", json!({"instanceType": "medium"})))
        .await;
    world
        .apply(machine("c", json!({"provider": "kubevirt", "machineClass": name, "disks": [{"sizeGB": 30, "boot": true}]})))
        .await;
    world.machine("b", "Running").await;
    world.fails("c", "MachineClassError").await;
    let classes: Api<MachineClass> = Api::all(world.client.clone());
    let params = PatchParams::apply("test");
    classes
        .patch(&name, &params, &Patch::Apply(&class))
        .await
        .unwrap();
    let found = world.machine("c", "Running").await;
    let status = found.status.unwrap();
    assert_eq!((status.failure_reason, status.cpus), (None, Some(3)));
    assert_eq!(status.disks[0].pvc_name.as_deref(), Some("c"));
    assert_eq!(east.vms().len(), 2);
}

#[tokio::test]
async fn user_data_of_a_config_map_is_waited_for() {
    let (world, _east) = World::furnished("config-map").await;
    let init = json!({"userDataConfigMapRef": {"name": "boot", "key": "init"}});
    world
        .apply(machine(
            "web",
            json!({"template": "small", "cloudInit": init}),
        ))
        .await;
    world.fails("web", "WaitingForDependencies").await;
    let map = json!({"metadata": {"name": "boot"}, "data": {"init": "#cloud-config\na: 1\n"}});
    world
        .apply(serde_json::from_value::<ConfigMap>(map).unwrap())
        .await;
    world.machine("web", "Running").await;
}

#[tokio::test]
async fn the_samples_run() {
    let mut world = World::empty("samples").await;
    let east = world.cluster("cluster-east").await;
    world.start(|_| {}).await;
    let text = include_str!("../../../../config/samples/vitistack.yaml");
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    for mut document in documents {
        document["metadata"]["namespace"] = Value::Null;
        let typed = document.clone();
        match document["kind"].as_str().unwrap() {
            "Machine" => drop(
                world
                    .apply(serde_json::from_value::<Machine>(typed).unwrap())
                    .await,
            ),
            "NetworkConfiguration" => drop(
                world
                    .apply(serde_json::from_value::<NetworkConfiguration>(typed).unwrap())
                    .await,
            ),
            "KubevirtConfig" => drop(
                world
                    .apply(serde_json::from_value::<KubevirtConfig>(typed).unwrap())
                    .await,
            ),
            _ => {
                let classes: Api<MachineClass> = Api::all(world.client.clone());
                let (name, params) = ("standard", PatchParams::apply("test"));
                let class: MachineClass = serde_json::from_value(typed).unwrap();
                let applied = classes.patch(name, &params, &Patch::Apply(&class)).await;
                applied.unwrap();
            }
        }
    }
    for name in ["web", "worker", "node"] {
        world.machine(name, "Running").await;
    }
    assert_eq!(east.vms().len(), 3);
}

#[tokio::test]
async fn an_edit_reaches_the_vm() {
    let (world, east) = World::furnished("edit").await;
    world
        .apply(machine("web", json!({"template": "small"})))
        .await;
    world.machine("web", "Running").await;
    let power = json!({"metadata": {"annotations": {"vitistack.io/power-state": "Off"}}});
    world.merge::<Machine>("web", power).await;
    world.machine("web", "Stopped").await;
    let size = json!({"spec": {"resources": {"cpu": {"cores": 4}}}});
    world.merge::<Machine>("web", size).await;
    let grown = |m: &Machine| m.status.as_ref().unwrap().cpus == Some(4);
    world.until("web", "has 4 CPUs", grown).await;
    assert_eq!(east.vms()[0].cpu, 4);
    let power = json!({"metadata": {"annotations": {"vitistack.io/power-state": null}}});
    world.merge::<Machine>("web", power).await;
    world.machine("web", "Running").await;
    assert_eq!(world.vm("web").await.spec.power_state, None);
}

#[tokio::test]
async fn a_machine_of_another_provider_is_left_alone() {
    let (world, _east) = World::furnished("other").await;
    world
        .apply(machine("px", json!({"provider": "proxmox"})))
        .await;
    world
        .apply(machine("web", json!({"template": "small"})))
        .await;
    world.machine("web", "Running").await;
    let other = world.get::<Machine>("px").await;
    assert_eq!((other.status, other.metadata.finalizers), (None, None));
}
