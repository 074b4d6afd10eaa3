//! Machines that the Go operator has made VMs for: as docs/howto/vitistack-migration.md says, they are taken over as they run.

use serde_json::{Value, json};

use crate::manager::Manager;
use crate::site::{ALONE, PATIENCE, Site, introduce, machine};
use polyvirt_dialects::vitistack::Settings;

const NS: &str = "tenant";
const MAC: &str = "02:12:0a:0b:0c:0d";

fn labels(name: &str) -> Value {
    json!({"vitistack.io/managed-by": "kubevirt-operator", "vitistack.io/source-machine": name})
}

/// A Machine as it is after the Go operator has looked at it: its finalizer, its conditions, its words.
async fn old_machine(site: &Site, name: &str, spec: Value) {
    let mut object = machine(NS, name, spec);
    object["metadata"]["finalizers"] = json!(["machine.vitistack.io/finalizer"]);
    object["metadata"]["annotations"] = json!({"vitistack.io/kubevirt-config": "cluster-east"});
    site.apply(object).await;
    let status = json!({"status": {
        "phase": "Running", "state": "Running", "provider": "kubevirt", "machineID": name,
        "lastUpdated": "2026-04-29T10:00:00Z",
        "conditions": [{
            "type": "Unknown", "status": "True", "reason": "Machine Running", "message": "VM is running",
            "lastTransitionTime": "2026-04-29T10:00:00Z",
        }],
    }});
    let api = site.api("Machine", NS);
    let params = kube::api::PatchParams::default();
    let written = api
        .patch_status(name, &params, &kube::api::Patch::Merge(&status))
        .await;
    written.unwrap();
}

/// The VirtualMachine that it made, under the name that it gave.
fn old_vm(name: &str, machine: &str, network: Value) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": {"name": name, "namespace": NS, "labels": labels(machine)},
        "spec": {
            "runStrategy": "Always",
            "template": {
                "metadata": {"labels": labels(machine)},
                "spec": {
                    "domain": {
                        "cpu": {"model": "host-model", "cores": 4, "sockets": 1, "threads": 1},
                        "memory": {"guest": "16384Mi"},
                        "firmware": {"bootloader": {"efi": {"secureBoot": false}}},
                        "devices": {
                            "autoattachPodInterface": false,
                            "networkInterfaceMultiqueue": true,
                            "disks": [
                                {"name": "root", "disk": {"bus": "virtio"}, "bootOrder": 1},
                                {"name": "cloudinitdisk", "disk": {"bus": "virtio"}},
                            ],
                            "interfaces": [{"name": "default", "model": "virtio", "bridge": {}, "macAddress": MAC}],
                        },
                    },
                    "networks": [network],
                    "volumes": [
                        {"name": "root", "persistentVolumeClaim": {"claimName": machine}},
                        {"name": "cloudinitdisk", "cloudInitNoCloud": {"userData": "#cloud-config\n"}},
                    ],
                },
            },
        },
    })
}

async fn old_claim(site: &Site, name: &str) {
    site.apply(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NS, "labels": labels(name)},
        "spec": {
            "accessModes": ["ReadWriteMany"], "volumeMode": "Block",
            "resources": {"requests": {"storage": "20Gi"}},
        },
    }))
    .await;
}

async fn old_interfaces(site: &Site, name: &str) {
    site.apply(json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "NetworkConfiguration",
        "metadata": {"name": name, "namespace": NS, "labels": labels(name)},
        "spec": {"name": name, "networkInterfaces": [{"name": "default", "macAddress": MAC}]},
    }))
    .await;
}

async fn class(site: &Site) {
    site.apply(json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "MachineClass", "metadata": {"name": "medium"},
        "spec": {
            "category": "Standard", "default": true, "enabled": true, "machineProviders": ["kubevirt"],
            "cpu": {"cores": 4, "sockets": 1, "threads": 1}, "memory": {"quantity": "16Gi"},
        },
    }))
    .await;
}

/// All that the Go operator has left of one Machine, in the two clusters.
async fn left(supervisor: &Site, east: &Site, name: &str, vm: &str, spec: Value) {
    old_machine(supervisor, name, spec).await;
    old_interfaces(supervisor, name).await;
    old_claim(east, name).await;
    let network = json!({"name": "default", "pod": {}});
    east.apply(old_vm(vm, name, network)).await;
    let runs = |i: &Value| i["status"]["phase"] == "Running";
    east.until("VMI", (NS, vm), "running", runs).await;
}

/// What must not change when a VM changes hands.
async fn shape(east: &Site, vm: &str) -> [Value; 4] {
    let (found, instance) = (
        east.look("VM", (NS, vm)).await,
        east.look("VMI", (NS, vm)).await,
    );
    [
        found["metadata"]["uid"].clone(),
        instance["metadata"]["uid"].clone(),
        found["spec"]["template"]["spec"].clone(),
        found["spec"]["runStrategy"].clone(),
    ]
}

async fn shapes(east: &Site, all: &[(&str, &str)]) -> Vec<[Value; 4]> {
    let mut found = Vec::new();
    for (_, vm) in all {
        found.push(shape(east, vm).await);
    }
    found
}

/// A VM of a name that a Machine's would have, of which nothing says that it was made for the Machine.
async fn somebody_elses(supervisor: &Site, east: &Site, spec: Value) {
    old_machine(supervisor, "mine", spec).await;
    old_claim(east, "mine").await;
    let mut vm = old_vm("vm-mine", "mine", json!({"name": "default", "pod": {}}));
    vm["metadata"]["labels"] = json!({"app": "theirs"});
    vm["spec"]["template"]["metadata"]["labels"] = json!({"app": "theirs"});
    east.apply(vm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vms_of_the_go_operator_run_on() {
    let _alone = ALONE.lock().await;
    let supervisor = Site::supervisor().await;
    let east = Site::bare().await.with_kubevirt().await;
    for site in [&supervisor, &east] {
        site.namespace(NS).await;
    }
    class(&supervisor).await;
    let disks = json!([{"name": "root", "sizeGB": 20, "boot": true}]);
    let live = json!({"provider": "kubevirt", "machineClass": "medium", "disks": disks});
    // Newer versions of it call a VM as its Machine, older ones put `vm-` before that.
    let all = [("web", "web"), ("db", "db"), ("shop", "vm-shop")];
    for (name, vm) in all {
        left(&supervisor, &east, name, vm, live.clone()).await;
    }
    somebody_elses(&supervisor, &east, live).await;
    let before = shapes(&east, &all).await;
    introduce(&supervisor, "default", "cluster-east", &east.kubeconfig()).await;

    let manager = Manager::ready(&supervisor, Settings::default()).await;
    for (name, vm) in &all {
        let taken = |m: &Value| m["status"]["vmName"] == *vm && m["status"]["phase"] == "Running";
        let machine = supervisor
            .until("Machine", (NS, name), "taken over", taken)
            .await;
        assert_eq!(
            machine["status"]["failureReason"],
            Value::Null,
            "{machine:#}"
        );
        let conditions = machine["status"]["conditions"].as_array().unwrap();
        assert!(
            conditions
                .iter()
                .any(|c| c["type"] == "Ready" && c["status"] == "True")
        );
        let card = &machine["status"]["networkInterfaces"][0];
        assert_eq!(card["macAddress"], MAC, "{machine:#}");
        let found = east.look("VM", (NS, vm)).await;
        assert!(!found["metadata"]["labels"]["polyvirt.io/identity"].is_null());
        assert_eq!(found["metadata"]["labels"]["vitistack.io/machine"], *name);
        assert_eq!(
            found["metadata"]["labels"]["vitistack.io/source-machine"],
            *name
        );
    }
    let refused = supervisor.phase((NS, "mine"), "Failed").await;
    assert_eq!(
        refused["status"]["failureReason"], "NameConflict",
        "{refused:#}"
    );
    // Long enough for whoever would change something.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(shapes(&east, &all).await, before);
    assert_eq!(east.list("VM", NS).await.len(), 4, "nothing was made");
    assert_eq!(east.list("PVC", NS).await.len(), 4, "nothing was made");
    let theirs = east.look("VM", (NS, "vm-mine")).await;
    assert_eq!(theirs["metadata"]["labels"], json!({"app": "theirs"}));
    drop(manager);
    gone_as_before(&supervisor, &east).await;
}

/// A Machine that is deleted later takes with it what the other operator made, and both finalizers come off.
async fn gone_as_before(supervisor: &Site, east: &Site) {
    let _manager = Manager::ready(supervisor, Settings::default()).await;
    supervisor.delete("Machine", (NS, "web")).await;
    supervisor
        .until("Machine", (NS, "web"), "gone", Value::is_null)
        .await;
    assert_eq!(east.look("VM", (NS, "web")).await, Value::Null);
    let begin = std::time::Instant::now();
    while east.list("PVC", NS).await.len() > 3 {
        assert!(begin.elapsed() < PATIENCE, "its claim stays");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(east.list("VM", NS).await.len(), 3, "the others stay");
}
